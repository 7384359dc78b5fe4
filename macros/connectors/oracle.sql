{#-
  Oracle. Events come when their transaction commits, so along a topic `commit_scn` rises, while `scn`, the change's own
  system change number, rises and falls. Both are texts of digits and can be greater than a bigint. A `commit_scn` below the
  `scn` is that of an older commit of its redo thread, as LogMiner told it of all but a transaction's last change before 2.5;
  of a thread's first transaction it told none. Such a change can stand behind later commits of other threads (RAC), as
  those of XStream before 3.3, which tell no commit, stand behind any that was open with theirs, and its position says so at
  its end.
  `rs_id` and `ssn` tell changes of one number apart, but for rows that one statement inserts; read by XStream they have an
  `lcr_position` for that, and no `commit_scn` before 3.3; by LogMiner from 3.2 on a `txSeq`. OpenLogReplicator tells nothing of the kind: its changes tie,
  and their content counts. A snapshot read has the snapshot's `scn` and no transaction.

  A statement that renames a table bears both names as `table`, with a comma between them.

  `before` is the whole row with supplemental logging of all columns alone; a LOB that changed is a placeholder even then.
-#}
{% macro oracle() -%}
    {%- set commit, own = sortable_number('source.commit_scn', 38), sortable_number('source.scn', 38) -%}
    {%- set place = 'coalesce(source.rs_id, source.lcr_position)' -%}
    {%- set serial = 'coalesce(if(source.rs_id is null, source.`txSeq`, null), source.ssn)' -%}
    {{ return({
        'names': ['oracle'],
        'fields': ['txId', 'scn', 'commit_scn', 'rs_id', 'ssn', 'lcr_position', 'txSeq'],
        'position': 'concat('
            ~ position_of([
                'greatest(' ~ commit ~ ', ' ~ own ~ ')', nulls_first(own), nulls_first(place), nulls_first(sortable_number(serial))
            ])
            ~ ", if(op != 'r' and coalesce(" ~ commit ~ ' < ' ~ own ~ ", " ~ place ~ " is not null), '" ~ unordered_end() ~ "', ''))",
        'identity': 'array(if(source.lcr_position is null, source.commit_scn, null), source.scn, ' ~ place ~ ', ' ~ serial
            ~ ', source.`txId`)',
        'is_tied': 'coalesce(' ~ place ~ ', source.`txSeq`) is null',
        'lowest': 'if(' ~ part_of_position(3) ~ " rlike '^[0-9a-fA-F]+$', " ~ part_of_position(2) ~ ', null)',
        'transaction': 'coalesce(source.`txId`, transaction.id)',
        'boundary': 'boundary.id',
        'collections': [['db', 'schema', 'table']],
        'previous_table': "if(size(split(source.`table`, ',')) = 2, "
            ~ "try_element_at(array_remove(split(source.`table`, ','), `table`), 1), null)"
    }) }}
{%- endmacro %}
