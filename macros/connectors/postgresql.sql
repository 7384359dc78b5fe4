{#-
  PostgreSQL. A change's own place in the log is its `lsn`. The log is in the order of writing, and what counts is the
  order of commits, so the position begins with the last commit before it: the first of `sequence`, the text of a JSON
  list of two texts, the last commit's place and the change's own. Without it a change follows the snapshot read before it (S),
  and of transactions side by side the one that commits last can have written first: the position then says so at its end.

  All reads of a snapshot have its place. `before` is what REPLICA IDENTITY lets the server write: the whole row with
  FULL alone. `transaction.id` is `txId:lsn`, with another lsn on each event.
-#}
{% macro postgresql() -%}
    {%- set commit, own = place_in_sequence(1), place_in_sequence(2) -%}
    {%- set place = 'coalesce(source.lsn, ' ~ own ~ ', ' ~ commit ~ ')' -%}
    {{ return({
        'names': ['postgresql'],
        'fields': ['txId', 'lsn', 'sequence'],
        'position': "if(op = 'r' and source.lsn is not null, "
            ~ position_of([sortable_number('source.lsn'), sortable_number("'0'")]) ~ ', '
            ~ 'concat(' ~ position_of([sortable_number(committed_behind(commit, place)), sortable_number(place)])
            ~ ", if(source.sequence is null, '" ~ without_commit() ~ "', '')))",
        'identity': 'array(source.`txId`, source.lsn, if(source.lsn is null, source.sequence, null))',
        'is_tied': none,
        'server': none,
        'transaction': "coalesce(source.`txId`, split_part(transaction.id, ':', 1))",
        'boundary': "split_part(told.id, ':', 1)",
        'collections': [['schema', 'table'], ['db', 'schema', 'table']],
        'is_before_whole': false
    }) }}
{%- endmacro %}


{#- What stands at the end of a position whose event has no `sequence`. -#}
{% macro without_commit() -%}
    {{ return(' -') }}
{%- endmacro %}


{#-
  Condition: whether a change stands behind a higher position than its own, in the partition of the topic, and this says
  something: without `sequence` every second of two transactions side by side does.
-#}
{% macro falls_behind(position, highest) -%}
    {{ position }} < {{ highest }} and not endswith({{ position }}, {{ text_literal(without_commit()) }})
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
  Expression: the place of the last commit that is known to be before a change. What was written behind a snapshot's
  place was committed behind it, whatever commit the event knows of: after a blocking snapshot the connector's last
  commit is older than the snapshot until the first one behind it.
-#}
{% macro committed_behind(commit, place) -%}
    cast(if(
        {{ commit }} is null or try_cast({{ place }} as bigint) > snapshot_lsn,
        greatest(try_cast(coalesce({{ commit }}, {{ place }}) as bigint), snapshot_lsn),
        try_cast({{ commit }} as bigint)
    ) as string)
{%- endmacro %}


{#-
  Query: changes with S of R4 as `snapshot_lsn`, the greatest lsn of the snapshot reads before them by offset in their
  partition: the last one's, but where a restart has repeated an older snapshot behind it. Reads of the same landing
  count, and those before it, of which the step `watermarks` knows.

  Args:
      reads: the reads of the landing, as `snapshot_reads` has found them; without, the changes themselves are looked through
-#}
{% macro behind_snapshots(changes, scope, reads=none) -%}
    {%- set counts_reads = rests_on_reads(scope) -%}
    {%- if scope.connectors is not none and 'postgresql' not in scope.connectors -%}
    select * from {{ changes }}
    {%- else -%}
    select
        changes.* except (snapshot_lsn),
        greatest(
            {% if not counts_reads -%}
            cast(null as bigint)
            {%- elif reads is none -%}
            max({{ lsn_of_read() }}) over (
                partition by changes.source_label, changes.topic, changes.`partition`, changes.log_number
                order by changes.`offset` rows between unbounded preceding and 1 preceding
            )
            {%- else -%}
            array_max(filter(earlier.reads, read -> read.first_offset < changes.`offset`).lsn)
            {%- endif %},
            {{ 'watermark.snapshot_lsn' if scope.watermarks else 'cast(null as bigint)' }}
        ) as snapshot_lsn
    from {{ changes }} as changes
    {%- if counts_reads and reads is not none %}
    left join ({{ reads_as_rows(reads) }}) as earlier
        on changes.source_label = earlier.source_label
        and changes.topic = earlier.topic
        and changes.`partition` = earlier.`partition`
        and changes.log_number = earlier.log_number
    {%- endif %}
    {%- if scope.watermarks %}
    left join watermarks as watermark
        on changes.source_label = watermark.source_label
        and changes.topic = watermark.topic
        and changes.`partition` = watermark.`partition`
        and changes.log_number = watermark.log_number
    {%- endif %}
    {%- endif %}
{%- endmacro %}


{#- Whether a landing has reads and changes whose places can rest on them. -#}
{% macro rests_on_reads(scope) -%}
    {{ return(scope.follows_reads and (scope.connectors is none or 'postgresql' in scope.connectors)) }}
{%- endmacro %}


{#- Expression: the place of a read of a snapshot that is no incremental one, as its event tells it. -#}
{% macro lsn_of_read() -%}
    if({{ is_snapshot_read(snapshot_marker()) }}, try_cast(source.lsn as bigint), null)
{%- endmacro %}


{#-
  Where the snapshots of a landing stand, mostly one: [label, topic, partition, log_number, lsn, first offset] of the
  reads of each. Nothing where no change rests on them; none where they are too many to be told.

  Args:
      changes: a relation that has each change once: a delivery that doesn't count is no read
-#}
{% macro snapshot_reads(changes, scope) -%}
    {%- if not rests_on_reads(scope) -%}{{ return([]) }}{%- endif -%}
    {%- set found = run_query(
        'select source_label, topic, `partition`, log_number, lsn, min(`offset`) from (select *, ' ~ lsn_of_read()
        ~ ' as lsn from ' ~ changes ~ ') as changes where lsn is not null'
        ~ ' group by source_label, topic, `partition`, log_number, lsn limit 51'
    ) -%}
    {%- if found | length > 50 -%}{{ return(none) }}{%- endif -%}
    {%- set reads = [] -%}
    {%- for row in found -%}
        {%- do reads.append([row[0], row[1], row[2] | int, row[3] | int, row[4] | int, row[5] | int]) -%}
    {%- endfor -%}
    {{ return(reads) }}
{%- endmacro %}


{#-
  Whether records that came late stand before reads that the log has, or can be in a log of the source that has ended (R5):
  S of the newest snapshot of the last log, which is all that is known of them without looking, is not theirs.

  Args:
      late: [label, topic, partition, lowest offset, last log] of each partition with such records
-#}
{% macro stand_before_reads(log, late, scope) -%}
    {%- if not late or not scope.hazards.get('reads')
        or (scope.connectors is not none and 'postgresql' not in scope.connectors) -%}
        {{ return(false) }}
    {%- endif -%}
    {{ return(run_query(
        'select 1 from ' ~ log ~ ' as log join (' ~ list_as_rows(late, 'late', 'array<array<string>>') ~ ') as told'
        ~ ' on log.source_label = late[0] and log.topic = late[1] and log.`partition` = cast(late[2] as int)'
        ~ ' and (log.`offset` > cast(late[3] as bigint) or log.log_number < cast(late[4] as int)) where '
        ~ is_snapshot_read() ~ ' limit 1'
    ) | length > 0) }}
{%- endmacro %}


{#- Query: `snapshot_reads` as rows, one a partition's log. -#}
{% macro reads_as_rows(reads) -%}
    select
        read[0] as source_label,
        read[1] as topic,
        cast(read[2] as int) as `partition`,
        cast(read[3] as int) as log_number,
        collect_list(struct(cast(read[4] as bigint) as lsn, cast(read[5] as bigint) as first_offset)) as reads
    from ({{ list_as_rows(reads, 'read', 'array<array<string>>') }}) as told
    group by read[0], read[1], read[2], read[3]
{%- endmacro %}


{#-
  Expression: the place of a read of a snapshot that is no incremental one, from its position in a log; NULL where its
  event told none: then its position is that of a change before it, whose second part is not 0.
-#}
{% macro snapshot_place() -%}
    {%- set part = "try_cast(split_part(" ~ position_in_log() ~ ", ' ', %d) as bigint)" -%}
    if({{ is_snapshot_read() }} and {{ part % 2 }} = 0, {{ part % 1 }}, null)
{%- endmacro %}


{#-
  Condition: whether a record's place rests on a snapshot read before it (S). Until the first commit after its start the
  connector knows no last commit (`[null,"…"]`); flattened rows can come without `sequence`.

  Args:
      declared: the connector that the source is declared to be
-#}
{% macro waits_for_commit(declared=none) -%}
    {%- set text = 'coalesce(cast(plain_value as binary), value)' -%}
    op != 'r' and {{ 'true' if declared == 'postgresql' else "connector = 'postgresql'" }} and (
        contains({{ text }}, cast('"[null,' as binary))
        or not (
            contains({{ text }}, cast('"sequence":"' as binary)) or contains({{ text }}, cast('"sequence": "' as binary))
        )
    )
{%- endmacro %}
