{#-
  PostgreSQL. A change's own place in the log is its `lsn`. The log is in the order of writing, and what counts is the
  order of commits, so the position begins with the last commit before it: the first of `sequence`, the text of a JSON
  list of two texts, the last commit's place and the change's own. Without it a change follows the snapshot read before it (S),
  and of transactions side by side the one that commits last can have written first: the position then says so at its end.
  A change that came without it can come again with it, by a connector that tells it: its own place is the lower of both.

  All reads of a snapshot have one place. It is that of the log's end, and they name no commit (S); from Debezium 3.3 on a
  blocking snapshot's is the one up to which the connector had streamed, and they name the commit before that. Incremental
  reads name it, too.

  `before` is what REPLICA IDENTITY lets the server write: the whole row with FULL alone. `transaction.id` is `txId:lsn`, with
  another lsn on each event.
-#}
{% macro postgresql() -%}
    {%- set commit, own = place_in_sequence(1), place_in_sequence(2) -%}
    {%- set place = 'coalesce(source.lsn, ' ~ own ~ ', ' ~ commit ~ ')' -%}
    {{ return({
        'names': ['postgresql'],
        'fields': ['txId', 'lsn', 'sequence'],
        'position': "if(op = 'r', " ~ position_of_read(commit, place) ~ ', '
            ~ 'concat(' ~ position_of([sortable_number(committed_behind(commit, place)), sortable_number(place)])
            ~ ", if(source.sequence is null, '" ~ unordered_end() ~ "', '')))",
        'identity': 'array(source.`txId`, source.lsn, if(source.lsn is null, source.sequence, null))',
        'lowest': "if(op = 'r', null, " ~ part_of_position(2) ~ ')',
        'transaction': "coalesce(source.`txId`, split_part(transaction.id, ':', 1))",
        'boundary': "split_part(boundary.id, ':', 1)",
        'collections': [['schema', 'table'], ['db', 'schema', 'table']],
        'has_one_time': true,
        'place_of_read': 'if(' ~ commit ~ ' is null, try_cast(source.lsn as bigint), null)',
        'last_commit': commit,
        'own_place': 'try_cast(' ~ place ~ ' as bigint)',
        'waits_for_read': knows_no_commit()
    }) }}
{%- endmacro %}


{#-
  Expression: a part of `sequence`, the first or the second; NULL where it is null. It is asked several times a record, and a
  JSON parser costs more to begin than such a list to read.
-#}
{% macro place_in_sequence(number) -%}
    {%- set part = '\\s*(?:null|"?([0-9]+)"?)\\s*' -%}
    {%- set list = '^\\s*\\[' ~ part ~ ',' ~ part ~ '\\]\\s*$' -%}
    nullif(regexp_extract(source.sequence, {{ text_literal(list) }}, {{ number }}), '')
{%- endmacro %}


{#-
  Expression: where a read stands. One that names a commit shows what was committed up to then: it is right behind that, or
  where its own place is higher there, and in either case before what was written later. Where its own place is the first
  part, zeros stand in for it: as many as a number has of what tells S, and of incremental reads at S or without a commit,
  so that offsets decide between the two; a single one of what names a commit and is no S.
-#}
{% macro position_of_read(commit, place) -%}
    {%- set first = 'if(source.lsn is null, ' ~ committed_behind(commit, place) ~ ', cast(greatest('
        ~ 'try_cast(source.lsn as bigint), try_cast(' ~ commit ~ ' as bigint)) as string))' -%}
    {{ bound('first', first, position_of([
        sortable_number('first'),
        'case when first = ' ~ place ~ ' and (' ~ commit ~ ' is null or source.lsn is null and first = cast(snapshot_lsn as string))'
            ~ ' then ' ~ sortable_number("'0'") ~ ' when first = ' ~ place ~ " then '0' else " ~ sortable_number(place) ~ ' end'
    ])) }}
{%- endmacro %}


{#-
  Expression: the place of the last commit that is known to be before a change: after a blocking snapshot the connector's
  last commit is older than the snapshot until the first one behind it.
-#}
{% macro committed_behind(commit, place) -%}
    cast(greatest(try_cast(coalesce({{ commit }}, {{ place }}) as bigint), snapshot_lsn) as string)
{%- endmacro %}


{#-
  Condition: whether a streamed change's event tells no last commit. Until the first commit after its start the connector
  knows none (`[null,"…"]`); flattened rows can come without `sequence`, and have a column of that name of their own.
-#}
{% macro knows_no_commit() -%}
    {%- set text = 'coalesce(cast(plain_value as binary), value)' -%}
    contains({{ text }}, cast('"[null,' as binary))
    or not (
        contains({{ text }}, cast('"sequence":"[' as binary)) or contains({{ text }}, cast('"sequence": "[' as binary))
    )
{%- endmacro %}
