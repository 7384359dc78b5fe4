{#- What a log, or a new part of it, holds by partition: what its next build goes on from. -#}


{#-
  What a log, or a staged part of it, holds: one question, answered by partition of the topic.

  Args:
      watermarks: those before that part
      lowest: of a change of it, the lowest position that any delivery can have

  Returns: {hazards, watermarks, read_places, begins, is_doubtful, late, bounds}
      hazards: hazard → whether a change has it; a fold without a hazard leaves the steps for it out
      watermarks: how far each partition is, as {label, topic, partition, offset, log_number, position, server, latest,
          snapshot_lsn, streamed_position, streamed_at}: the highest offset and, of the last log, the highest position, the
          server of the highest that tells one, the latest time (µs), the highest place of a snapshot read (S in R4), and of
          streamed changes alone the highest position and the latest time
      read_places: {log_number, lsn} of its snapshot reads (S in R4), not of documents
      begins: whether it has a partition's first changes
      is_doubtful: whether there may be borders that the log was built without (R5), or it came out of order
      late: {label, topic, partition, lowest_offset, last_log} of the partitions in which it did
      bounds: {changes, lowest, earliest, placeless}: how many changes, the lowest of `lowest`, the earliest time (µs), how many
          have no position
-#}
{% macro log_summary(relation, watermarks, lowest='position') -%}
    {%- set rows = run_query(log_summary_query(relation, watermarks, lowest)) -%}
    {%- set summary = {
        'hazards': both_hazards({}, {}), 'watermarks': [], 'read_places': [], 'begins': false, 'is_doubtful': false, 'late': [],
        'bounds': {'changes': 0, 'lowest': none, 'earliest': none, 'placeless': 0}
    } -%}
    {%- set watermark_of = {} -%}
    {%- for one in watermarks -%}{%- do watermark_of.update({partition_of(one) | string: one}) -%}{%- endfor -%}
    {%- for row in rows -%}
        {%- set partition = [row['source_label'], row['topic'], row['partition'] | int] -%}
        {%- do summary.bounds.update({
            'changes': summary.bounds.changes + row['changes'] | int,
            'lowest': [summary.bounds.lowest, row['lowest_position']] | reject('none') | min | default(none, true),
            'earliest': [summary.bounds.earliest, row['earliest'] | int] | reject('none') | min,
            'placeless': summary.bounds.placeless + row['placeless_changes'] | int
        }) -%}
        {%- do summary.watermarks.append({
            'label': partition[0],
            'topic': partition[1],
            'partition': partition[2],
            'offset': row['highest_offset'] | int,
            'log_number': row['last_log'] | int,
            'position': row['position'],
            'server': row['server'],
            'latest': none if row['latest'] is none else row['latest'] | int,
            'snapshot_lsn': none if row['snapshot_lsn'] is none else row['snapshot_lsn'] | int,
            'streamed_position': row['streamed_position'],
            'streamed_at': none if row['streamed_at'] is none else row['streamed_at'] | int
        }) -%}
        {%- set watermark = watermark_of.get(partition | string) -%}
        {#- Offsets of a topic's former life don't compare with those of its last. -#}
        {%- if watermark
            and (row['lowest_offset'] | int <= watermark.offset or row['lowest_log'] | int < watermark.log_number) -%}
            {%- do summary.late.append({
                'label': partition[0], 'topic': partition[1], 'partition': partition[2], 'lowest_offset': row['lowest_offset'] | int,
                'last_log': watermark.log_number
            }) -%}
        {%- endif -%}
        {%- do summary.update({
            'hazards': both_hazards(summary.hazards, hazards_in(row)),
            'read_places': merged_read_places(summary.read_places, fromjson(row['read_places'])),
            'begins': summary.begins or not watermark,
            'is_doubtful': summary.is_doubtful or row['doubts'] > 0 or summary.late != []
        }) -%}
    {%- endfor -%}
    {{ return(summary) }}
{%- endmacro %}


{#- Query: what `log_summary` asks, a row per partition of a topic. -#}
{% macro log_summary_query(relation, watermarks, lowest) -%}
    select
        source_label, topic, `partition`,
        max(struct(log_number, `offset`)).`offset` as highest_offset,
        max(log_number) as last_log,
        max(struct(log_number, position, server)).position as position,
        max(struct(log_number, {{ place_of_server('position', 'server') }} as highest)).highest.server as server,
        unix_micros(max(struct(log_number, changed_at)).changed_at) as latest,
        max(struct(log_number, place_of_read)).place_of_read as snapshot_lsn,
        to_json(slice(sort_array(collect_set(
            if(place_of_read is null, null, struct(log_number, place_of_read as lsn))
        ), false), 1, 1000)) as read_places,
        min(`offset`) as lowest_offset,
        count_if(({{ begins_new_log('highest', 'streamed') }}) or `offset` = last_offset) as doubts,
        count(*) as changes,
        min({{ lowest }}) as lowest_position,
        unix_micros(min(changed_at)) as earliest,
        count_if(position is null) as placeless_changes,
        min(log_number) as lowest_log,
        max(struct(log_number, streamed_position)).streamed_position as streamed_position,
        unix_micros(max(struct(log_number, streamed_time)).streamed_time) as streamed_at,
        {{ hazard_counts() }}
    from (
        select
            log.*,
            greatest(max(log.position) over before, watermark.position) as highest,
            greatest(max(log.streamed_position) over before, watermark.streamed_position) as streamed,
            greatest(
                max({{ place_of_server('log.position', 'log.server') }}) over before,
                {{ place_of_server('watermark.position', 'watermark.server') }}
            ) as highest_with_server,
            greatest(max(log.changed_at) over before, watermark.latest) as latest,
            greatest(max(log.streamed_time) over before, watermark.streamed_at) as streamed_at,
            lag(log.`offset`) over by_offset as last_offset
        from (
            select
                *,
                {{ 'cast(null as bigint)' if config.get('meta').tidemark.documents else snapshot_place() }} as place_of_read,
                if({{ is_streamed() }}, position, null) as streamed_position,
                if({{ is_streamed() }}, changed_at, null) as streamed_time
            from {{ relation }}
        ) as log
        left join ({{ watermarks_as_rows(watermarks) }}) as watermark
            on {{ is_same_partition('log', 'watermark', in_one_log=true) }}
        window
            by_offset as (
                partition by log.source_label, log.topic, log.`partition`, log.log_number order by log.`offset`
            ),
            before as (
                partition by log.source_label, log.topic, log.`partition`, log.log_number
                order by log.`offset` rows between unbounded preceding and 1 preceding
            )
    ) as followed
    group by source_label, topic, `partition`
{%- endmacro %}


{#- Query: watermarks as rows; none for a log that is looked at as a whole. -#}
{% macro watermarks_as_rows(watermarks) -%}
    select
        watermark.label as source_label,
        watermark.topic,
        watermark.`partition`,
        watermark.`offset` as highest_offset,
        watermark.log_number,
        watermark.position,
        watermark.server,
        timestamp_micros(watermark.latest) as latest,
        watermark.snapshot_lsn,
        watermark.streamed_position,
        timestamp_micros(watermark.streamed_at) as streamed_at
    from (
        {{ list_as_rows(
            watermarks, 'watermark',
            'array<struct<label: string, topic: string, `partition`: int, `offset`: bigint, log_number: int, position: string,'
            ~ ' server: string, latest: bigint, snapshot_lsn: bigint, streamed_position: string, streamed_at: bigint>>'
        ) }}
    ) as watermark_rows
{%- endmacro %}


{#- The partition that a watermark is of. -#}
{% macro partition_of(watermark) -%}
    {{ return([watermark.label, watermark.topic, watermark.partition]) }}
{%- endmacro %}


{#- The watermarks after a part of a log has come: of the same log the higher of each. -#}
{% macro merged_watermarks(earlier, new) -%}
    {%- set merged = {} -%}
    {%- for watermark in earlier + new -%}
        {%- set partition = partition_of(watermark) | string -%}
        {%- set before = merged.get(partition) -%}
        {%- if before is none or before.log_number < watermark.log_number -%}
            {%- do merged.update({partition: watermark}) -%}
        {%- elif before.log_number == watermark.log_number -%}
            {%- set is_higher = (before.position or '') <= (watermark.position or '') -%}
            {%- set in_order = [before, watermark] if is_higher else [watermark, before] -%}
            {%- set higher = {'server': in_order | map(attribute='server') | reject('none') | list | last | default(none)} -%}
            {%- for name in ['offset', 'position', 'latest', 'snapshot_lsn', 'streamed_position', 'streamed_at'] -%}
                {%- do higher.update({name: [before[name], watermark[name]] | reject('none') | max | default(none)}) -%}
            {%- endfor -%}
            {%- do merged.update({partition: dict(before, **higher)}) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(merged.values() | list) }}
{%- endmacro %}
