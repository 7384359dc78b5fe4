{#-
  Changes whose places rest on snapshot reads before them (S in R4): those of connectors that say how a read's place is
  told (`place_of_read`).
-#}


{#-
  Query: changes with S of R4 as `snapshot_lsn`, the greatest lsn of the snapshot reads before them by offset in their
  partition: the last one's, but where a restart has repeated an older snapshot behind it. Reads of the same landing
  count, and those before it, of which the step `watermarks` knows.

  Args:
      reads: the reads of the landing, as `snapshot_reads` has found them; none, and the changes are looked through
-#}
{% macro behind_snapshots(changes, scope, reads) -%}
    {%- set counts_reads = rests_on_reads(scope) -%}
    {%- if not can_rest_on_reads(scope.connectors) -%}
    select * from {{ changes }}
    {%- else -%}
    select
        changes.* except (snapshot_lsn),
        greatest(
            {% if not counts_reads -%}
            cast(null as bigint)
            {%- elif reads is none -%}
            max({{ lsn_of_read(scope.connectors) }}) over (
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
        on {{ is_same_partition('changes', 'earlier', in_one_log=true) }}
    {%- endif %}
    {%- if scope.watermarks %}
    left join watermarks as watermark
        on {{ is_same_partition('changes', 'watermark', in_one_log=true) }}
    {%- endif %}
    {%- endif %}
{%- endmacro %}


{#- Whether a landing has reads and changes whose places can rest on them. -#}
{% macro rests_on_reads(scope) -%}
    {{ return(scope.follows_reads and can_rest_on_reads(scope.connectors)) }}
{%- endmacro %}


{#-
  Whether places of changes can rest on reads where these connectors have written.

  Args:
      among: names of connectors, as `connectors` takes them
-#}
{% macro can_rest_on_reads(among) -%}
    {{ return(connectors(among) | selectattr('place_of_read', 'defined') | list | length > 0) }}
{%- endmacro %}


{#- Expression: the place of a read of a snapshot that is no incremental one, as its event tells it. -#}
{% macro lsn_of_read(among) -%}
    if({{ is_snapshot_read(snapshot_marker()) }}, {{ by_connector('place_of_read', among) }}, null)
{%- endmacro %}


{#-
  Where the snapshots of a landing stand, mostly one: {label, topic, partition, log_number, lsn, first_offset} of the
  reads of each. Nothing where no change rests on them; none where they are too many to be told.

  Args:
      changes: a relation that has each change once: a delivery that doesn't count is no read
-#}
{% macro snapshot_reads(changes, scope) -%}
    {%- if not rests_on_reads(scope) -%}{{ return([]) }}{%- endif -%}
    {%- set rows = run_query(
        'select source_label, topic, `partition`, log_number, lsn, min(`offset`) from (select *, '
        ~ lsn_of_read(scope.connectors) ~ ' as lsn from ' ~ changes ~ ') as changes where lsn is not null'
        ~ ' group by source_label, topic, `partition`, log_number, lsn limit 51'
    ) -%}
    {%- if rows | length > 50 -%}{{ return(none) }}{%- endif -%}
    {%- set reads = [] -%}
    {%- for row in rows -%}
        {%- do reads.append({
            'label': row[0], 'topic': row[1], 'partition': row[2] | int, 'log_number': row[3] | int, 'lsn': row[4] | int,
            'first_offset': row[5] | int
        }) -%}
    {%- endfor -%}
    {{ return(reads) }}
{%- endmacro %}


{#-
  Whether records that came late stand before reads that the log has, or can be in a log of the source that has ended (R5):
  S of the newest snapshot of the last log, which is all that is known of them without looking, is not theirs.

  Args:
      late: {label, topic, partition, lowest_offset, last_log} of each partition with such records
-#}
{% macro stand_before_reads(changes_log, late, scope) -%}
    {%- if not late or not scope.hazards.get('reads') or not can_rest_on_reads(scope.connectors) -%}
        {{ return(false) }}
    {%- endif -%}
    {%- set late_rows = list_as_rows(
        late, 'late', 'array<struct<label: string, topic: string, `partition`: int, lowest_offset: bigint, last_log: int>>'
    ) -%}
    {{ return(has_rows(
        'select 1 from ' ~ changes_log ~ ' as log join (' ~ late_rows ~ ') as late_rows'
        ~ ' on log.source_label = late.label and log.topic = late.topic and log.`partition` = late.`partition`'
        ~ ' and (log.`offset` > late.lowest_offset or log.log_number < late.last_log) where '
        ~ is_snapshot_read()
    )) }}
{%- endmacro %}


{#- Query: `snapshot_reads` as rows, one a partition's log. -#}
{% macro reads_as_rows(reads) -%}
    select
        read.label as source_label,
        read.topic,
        read.`partition`,
        read.log_number,
        collect_list(struct(read.lsn, read.first_offset)) as reads
    from (
        {{ list_as_rows(
            reads, 'read',
            'array<struct<label: string, topic: string, `partition`: int, log_number: int, lsn: bigint, first_offset: bigint>>'
        ) }}
    ) as read_rows
    group by read.label, read.topic, read.`partition`, read.log_number
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
  Condition: whether the place of a record of bronze can rest on a snapshot read before it.

  Args:
      declared: the connector that the source is declared to be
-#}
{% macro waits_for_read(declared) -%}
    {%- set cases = [] -%}
    {%- for one in connectors() if one.waits_for_read is defined -%}
        {%- set rules = 'true' if declared in one.names else 'connector in (' ~ text_list(one.names) ~ ')' -%}
        {%- do cases.append(rules ~ ' and (' ~ one.waits_for_read ~ ')') -%}
    {%- endfor -%}
    op != 'r' and ({{ cases | join(' or ') }})
{%- endmacro %}
