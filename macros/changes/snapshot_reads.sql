{#-
  Changes whose places rest on snapshot reads before them (S in R4): those of connectors that say how a read's place is
  told (`place_of_read`).
-#}


{#-
  Query: changes with S of R4 as `snapshot_lsn`. What was written behind a snapshot was committed behind it, whatever its
  event knows: of a change that knows a commit, S is the greatest lsn of all reads in its log that is not above its own, in
  whichever partition they are: it was the end of the log, where the next record begins. Of one that knows none, it is the
  greatest lsn of the reads before it by offset in its partition: the last one's, but where a restart has repeated an older
  snapshot behind it. Reads of the same landing count, and those before it, of which the steps `read_places` and `watermarks`
  know.

  Args:
      reads: the reads of the landing, as `snapshot_reads` has found them; none, and the changes are looked through
-#}
{% macro behind_snapshots(changes, scope, reads) -%}
    {%- set counts_reads = rests_on_reads(scope) -%}
    {%- if not can_rest_on_reads(scope.connectors) -%}
    select * from {{ changes }}
    {%- else -%}
    select {{ '/*+ broadcast(places) */ ' if has_read_places(scope, reads) }}
        changes.* except (snapshot_lsn{{ ', own_place' if has_read_places(scope, reads) }}),
        if({{ by_connector('last_commit', scope.connectors) }} is null, greatest(
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
        ),
        {%- if has_read_places(scope, reads) %}
        {#- Most changes are behind all reads. #}
        if(
            own_place >= places.highest,
            places.highest,
            array_max(filter(places.lsns, lsn -> lsn <= own_place))
        )
        {%- else %}
        null
        {%- endif %}) as snapshot_lsn
    {%- if has_read_places(scope, reads) %}
    {#- A column: within a lambda it would be read from its text for each element. #}
    from (select *, {{ by_connector('own_place', scope.connectors) }} as own_place from {{ changes }}) as changes
    left join read_places as places on changes.log_number = places.log_number
    {%- else %}
    from {{ changes }} as changes
    {%- endif %}
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


{#- Whether snapshot reads are known, of the landing or from before it. -#}
{% macro has_read_places(scope, reads) -%}
    {{ return(
        can_rest_on_reads(scope.connectors) and (scope.read_places != [] or (rests_on_reads(scope) and reads != []))
    ) }}
{%- endmacro %}


{#-
  Query: each log's places of snapshot reads, `lsns`, and the highest of them: those of the landing and those from before it.
  Deliveries that don't count tell the same places.

  Args:
      reads: as `behind_snapshots` takes them
-#}
{% macro read_places(deliveries, scope, reads) -%}
    {%- set told = [] -%}
    {%- for read in reads or [] -%}{%- do told.append({'log_number': read.log_number, 'lsn': read.lsn}) -%}{%- endfor -%}
    select log_number, collect_set(lsn) as lsns, max(lsn) as highest
    from (
        {{ read_places_as_rows(scope.read_places + told) }}
        {%- if reads is none and rests_on_reads(scope) %}
        union all
        select log_number, {{ lsn_of_read(scope.connectors) }} as lsn
        from {{ deliveries }}
        where op = 'r'
        {%- endif %}
    ) as places
    where lsn is not null
    group by log_number
{%- endmacro %}


{#- Query: places of reads, {log_number, lsn}, as rows. -#}
{% macro read_places_as_rows(places) -%}
    select read.* from ({{ list_as_rows(places, 'read', 'array<struct<log_number: int, lsn: bigint>>') }}) as read_rows
{%- endmacro %}


{#-
  The places of reads that two parts of a log have, each once, in order. Of more than a thousand the highest are kept: only what
  comes late could be placed by another.
-#}
{% macro merged_read_places(earlier, new) -%}
    {%- set merged = [] -%}
    {%- for place in earlier + new if place not in merged -%}{%- do merged.append(place) -%}{%- endfor -%}
    {{ return((merged | sort(attribute='log_number,lsn'))[-1000:]) }}
{%- endmacro %}


{#-
  Whether changes of a log were written behind snapshot reads that have come after them, or read at their place, and stand
  before these.

  Args:
      new: the places of those reads
-#}
{% macro stand_before_new_reads(changes_log, new, scope) -%}
    {%- if not new or not can_rest_on_reads(scope.connectors) -%}{{ return(false) }}{%- endif -%}
    {%- set lsn = sortable_number('cast(read.lsn as string)') -%}
    {{ return(has_rows(
        'select 1 from ' ~ changes_log ~ ' as log join (' ~ read_places_as_rows(new) ~ ') as read using (log_number) where '
        ~ part_of_position(1) ~ ' < ' ~ lsn ~ ' and ' ~ part_of_position(2) ~ ' >= ' ~ lsn ~ ' or '
        ~ part_of_position(1) ~ ' = ' ~ lsn ~ ' and ' ~ part_of_position(2) ~ " = '0'"
    )) }}
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


{#- Expression: the place of a read of a snapshot that is no incremental one, where its event tells S. -#}
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


{#-
  Whether a landing with snapshot reads of a topic with several partitions has changes that the log has already: then a read
  can be among them that counts in another partition, or has counted there (R3), and S of what is behind it there is another.

  Args:
      summary: what `log_summary` found in the landing
      counts: [new changes, revised changes] of it
-#}
{% macro came_again_beside_reads(summary, counts, scope) -%}
    {%- set partitions = [] -%}
    {%- for one in scope.watermarks + summary.watermarks -%}{%- do partitions.append(partition_of(one) | string) -%}{%- endfor -%}
    {{ return(
        can_rest_on_reads(scope.connectors) and summary.read_places | length > 0 and partitions | unique | list | length > 1
        and counts[0] < summary.bounds.changes and counts != [0, 0]
    ) }}
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
  event told none, or not S: then the second part of its position is another than a 0 of all digits.
-#}
{% macro snapshot_place() -%}
    if(
        {{ is_snapshot_read() }} and {{ part_of_position(2) }} = {{ sortable_number("'0'") }},
        try_cast({{ part_of_position(1) }} as bigint),
        null
    )
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


{#-
  Whether reads that told no position stand behind changes of their key that have come behind them, by offset: these are of a
  server whose clock lags (`followed_position`).

  Args:
      lowest: the lowest position of the landing
-#}
{% macro stand_behind_what_follows(changes_log, lowest, scope) -%}
    {%- set have_logs = connectors(scope.connectors) | selectattr('log', 'defined') | list -%}
    {%- if not scope.has_placeless or not have_logs or lowest is none -%}{{ return(false) }}{%- endif -%}
    {{ return(has_rows(
        'select 1 from (select * from ' ~ changes_log ~ " where op != 'r' and " ~ landed_since(scope.after) ~ ') as change'
        ~ ' join (select * from ' ~ changes_log ~ " where op = 'r' and position > " ~ text_literal(lowest) ~ ') as read on '
        ~ is_same_partition('change', 'read', in_one_log=true) ~ ' and change.key = read.key'
        ~ ' and change.`offset` > read.`offset` and change.position < read.position'
    )) }}
{%- endmacro %}
