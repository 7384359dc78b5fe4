{#-
  What of a topic no log tells: records that landing holds in the quarantine (R2), and offsets that it never read
  (`ops.kafka_gaps`). Any of them may have been a read of a snapshot, and what that lacks is then no sign that a row is
  gone (R16).

  They change without news of a table: an entry is released or settled, a gap is found, or read after all. So a model writes
  down which snapshots they put in doubt, and reads its log whole where the next run finds others (`is_moved`): whatever has
  landed first, the tables end as a rebuild makes them (G1, G2).
-#}


{#-
  The positions of the snapshots of a log of which a read may be among that, in order.

  A range of such offsets is behind the reads of a snapshot where the one that marks the last read stands before it, or a
  change of a later position: one of the commit that a read of SQL Server's or Db2's names was streamed before it. It is
  ahead of them where none of them stands before it and the next change has an earlier position and was written before the
  first read: what is streamed behind reads can have such a position, too (R4), and forms without the connector's own time
  don't tell the two apart. Else it may be one of them: in front of the first that is there, too. Offsets of another log
  (R5) tell that only where they go on; those of a life of the topic that was seen to be over are of no log that has landed since.

  All of the log is sorted for that. Where neither it nor what isn't read has moved since a model's last run, this is what it was;
  and none where it was none, and all news stand behind what was there (`are_behind_all`).

  Args:
      log_id: the unique id of its model
      built: what the log's build wrote down
      last: what the last build of the model that asks wrote down
-#}
{% macro snapshots_in_doubt(changes_log, log_id, built, last) -%}
    {%- set answers = graph.tidemark.doubts -%}
    {%- if changes_log | string in answers -%}
        {{ return(answers[changes_log | string]) }}
    {%- endif -%}
    {%- set is_built = log_id in graph.tidemark.untouched or log_id in graph.tidemark.states -%}
    {%- set positions = [] -%}
    {%- if log_id in graph.tidemark.untouched and last.get('unread') == unread_of(built)
        and last.get('batch_id') == built.batch_id and last.get('log_made_in') == log_made_in(changes_log) -%}
        {%- set positions = known_doubts(last) -%}
    {#- A killed run can have added reads that nothing was written down of, until a build of the log has (G4). -#}
    {%- elif unread_ranges_of(built) and (built.hazards.get('reads') or not is_built)
        and not are_behind_all(changes_log, log_id, built, last)
        and has_rows('select 1 from ' ~ changes_log ~ ' where ' ~ is_snapshot_read()) -%}
        {%- for row in run_query(doubts(changes_log, unread_ranges().query)) -%}{%- do positions.append(row[0]) -%}{%- endfor -%}
    {%- endif -%}
    {%- do answers.update({changes_log | string: positions}) -%}
    {{ return(positions) }}
{%- endmacro %}


{#-
  Whether what a log has since a model's last run, to which no snapshot was in doubt, can't put one in doubt either: there is no
  read of a snapshot among it, and each change is behind all that its partition had, and behind all ranges that aren't read. So
  no range has another change before it, nor another one next behind it unless it had none: and that one only tells that it is
  ahead of reads.
-#}
{% macro are_behind_all(changes_log, log_id, built, last) -%}
    {%- set before = graph.tidemark.progress.get(log_id, {}) -%}
    {%- if known_doubts(last) or built.get('borders') or not before.get('watermarks') or last.get('unread') != unread_of(built)
        or last.get('batch_id') != before.batch_id or last.get('log_made_in') != log_made_in(changes_log) -%}
        {{ return(false) }}
    {%- endif -%}
    {%- set query -%}
        select 1
        from {{ changes_log }} as news
        where {{ landed_since(last.batch_id) }}
            and (
                {{ is_snapshot_read() }}
                or exists (
                    select 1 from ({{ watermarks_as_rows(before.watermarks) }}) as known
                    where {{ is_same_partition('known', 'news') }} and known.highest_offset >= news.`offset`
                )
                or exists (
                    select 1 from ({{ unread_ranges().query }}) as unread
                    where {{ is_same_partition('unread', 'news') }} and unread.until_offset > news.`offset`
                )
            )
    {%- endset -%}
    {{ return(not has_rows(query)) }}
{%- endmacro %}


{#- The ranges that the topics of a log have and it doesn't tell, as a hash: another one where any came or went. -#}
{% macro unread_of(built) -%}
    {{ return(local_md5(tojson(unread_ranges_of(built)))) }}
{%- endmacro %}


{#- Those of `unread_ranges` that are of the topics of a log. -#}
{% macro unread_ranges_of(built) -%}
    {%- set topics, ranges = [], [] -%}
    {%- for one in built.get('watermarks') or [] -%}{%- do topics.append([one.label, one.topic]) -%}{%- endfor -%}
    {%- for one in unread_ranges().topics if one[:2] in topics -%}{%- do ranges.append(one) -%}{%- endfor -%}
    {{ return(ranges) }}
{%- endmacro %}


{% macro doubts(changes_log, unread) -%}
with

log as (

    select source_label, topic, `partition`, `offset`, position, log_number, op, snapshot, processed_at, landed_at
    from {{ changes_log }}

),

unread as (

    {{ unread }}

),

logs as (

    select source_label, topic, `partition`, log_number, min(`offset`) as begins, max(`offset`) as ends
    from log
    group by source_label, topic, `partition`, log_number

),

logs_of_topic as (

    select source_label, topic, log_number, min(landed_at) as landed_from
    from log
    group by source_label, topic, log_number

),

-- each range in each log of its topic, but for logs that stand before or behind it as a whole, or have landed since its life
unread_in_log as (

    select unread.*, of_topic.log_number
    from unread
    inner join logs_of_topic as of_topic
        on unread.source_label = of_topic.source_label and unread.topic = of_topic.topic
    where not coalesce(of_topic.landed_from > unread.life_over_at, false) and not exists (
        select 1
        from logs
        inner join logs as others
            on {{ is_same_partition('logs', 'others') }}
        where {{ is_same_partition('logs', 'unread') }}
            and logs.log_number = of_topic.log_number
            and (
                (
                    others.log_number < logs.log_number and others.ends < logs.begins
                    and unread.until_offset <= others.ends
                )
                or (
                    others.log_number > logs.log_number and others.begins > logs.ends
                    and unread.from_offset > others.begins
                )
            )
    )

),

points as (

    select
        source_label, topic, `partition`, log_number, `offset`,
        struct(position, processed_at, {{ marks_last() }} as is_last) as change,
        cast(null as struct<from_offset: bigint, until_offset: bigint>) as unread
    from log
    where position is not null
    union all
    select
        source_label, topic, `partition`, log_number,
        explode(array(from_offset, until_offset)) as `offset`,
        null as change,
        struct(from_offset, until_offset) as unread
    from unread_in_log

),

beside as (

    select
        *,
        max(change.position) over (
            partition by source_label, topic, `partition`, log_number order by `offset`
            range between unbounded preceding and 1 preceding
        ) as before,
        max(if(change.is_last, change.position, null)) over (
            partition by source_label, topic, `partition`, log_number order by `offset`
            range between unbounded preceding and 1 preceding
        ) as marked,
        -- from behind: a frame that ends with the last row is read anew for each
        last_value(change, true) over (
            partition by source_label, topic, `partition`, log_number order by `offset` desc
            range between unbounded preceding and current row
        ) as behind
    from points

),

ranges as (

    select
        source_label, topic, log_number,
        any_value(before) filter (where `offset` = unread.from_offset) as before,
        any_value(marked) filter (where `offset` = unread.from_offset) as marked,
        any_value(behind) filter (where `offset` = unread.until_offset) as behind
    from beside
    where unread is not null
    group by source_label, topic, `partition`, log_number, unread

)

select distinct position
from (
    select source_label, topic, log_number, position, min(processed_at) as read_at
    from log
    where {{ is_snapshot_read() }} and position is not null
    group by source_label, topic, log_number, position
) as snapshots
where exists (
    select 1
    from ranges
    where ranges.source_label = snapshots.source_label
        and ranges.topic = snapshots.topic
        and ranges.log_number = snapshots.log_number
        and not coalesce(ranges.marked >= snapshots.position, false)
        and not coalesce(
            ranges.before > snapshots.position and not {{ goes_on_from('ranges.before', 'snapshots.position') }}, false
        )
        and not (
            coalesce(ranges.behind.position < snapshots.position, false)
            and coalesce(ranges.behind.processed_at < snapshots.read_at, true)
            and coalesce(ranges.before < snapshots.position, true)
        )
)
order by position
{%- endmacro %}


{#-
  Those ranges of offsets, asked once a run: `query` gives source_label, topic, `partition`, the offsets from `from_offset` up to and
  without `until_offset` and, where landing has seen that the topic's life which had them is over, `life_over_at`; and `topics` has
  [source label, topic, count, hash], of the ranges of each.
-#}
{% macro unread_ranges() -%}
    {%- if not graph.tidemark.unread -%}
        {%- set tables = landed_tables() -%}
        {%- set query -%}
            select
                source_label, topic, `partition`, `offset` as from_offset, `offset` + 1 as until_offset,
                cast(null as timestamp) as life_over_at
            from {{ lakehouse_table('bronze', 'quarantine') }}
            -- what was released behind what this run reads is in no log yet
            where (released_in is null or released_in > {{ graph.tidemark.landed }}) and `partition` is not null and `offset` is not null
            {%- if 'kafka_gaps' in tables %}
            union all
            {{ gaps_by_life(has_offsets='kafka_offsets' in tables) }}
            {%- endif %}
        {%- endset -%}
        {%- set topics = [] -%}
        {%- for row in run_query(
            'select source_label, topic, count(*), hex(bit_xor(xxhash64(`partition`, from_offset, until_offset, life_over_at)))'
            ~ ' from (select distinct * from (' ~ query ~ ') as unread) as ranges group by source_label, topic order by source_label, topic'
        ) -%}
            {%- do topics.append([row[0], row[1], row[2] | int, row[3]]) -%}
        {%- endfor -%}
        {%- do graph.tidemark.update({'unread': {'query': query, 'topics': topics}}) -%}
    {%- endif -%}
    {{ return(graph.tidemark.unread) }}
{%- endmacro %}


{#-
  Query: the gaps of landing, and when it saw that the life of the topic which had them was over: the topic was gone, and is there
  with another id now. Where a broker tells no ids (zeros), no life is known to be over.
-#}
{% macro gaps_by_life(has_offsets) -%}
    {%- set life_over_at -%}
        if(
            present.ids is null or array_contains(present.ids, gaps.topic_id) or array_contains(present.ids, repeat('A', 22)),
            null,
            max(if(gaps.reason in ('topic_gone', 'topic_made_anew') and gaps.topic_id != repeat('A', 22), gaps.found_at, null)) over (
                partition by gaps.source_label, gaps.topic, gaps.topic_id
            )
        )
    {%- endset -%}
    select
        gaps.source_label, gaps.topic, gaps.`partition`, gaps.from_offset, gaps.to_offset,
        {{ life_over_at if has_offsets else 'cast(null as timestamp)' }} as life_over_at
    {#- Landing keeps them with its bronze, whatever the environment. #}
    from {{ kept_by_landing('kafka_gaps') }} as gaps
    {%- if has_offsets %}
    left join (
        select source_label, topic, collect_set(topic_id) as ids
        from {{ kept_by_landing('kafka_offsets') }}
        where not is_gone
        group by source_label, topic
    ) as present
        on gaps.source_label = present.source_label and gaps.topic = present.topic
    {%- endif %}
{%- endmacro %}


{% macro kept_by_landing(name) -%}
    delta.{{ quoted(lakehouse_folder() ~ '/ops/' ~ name) }}
{%- endmacro %}


{#-
  Which of those tables landing has made: that of gaps with the first gap. Spark fails on a path that isn't there, and on a
  pattern that nothing matches; the quarantine always does. A log of Delta's has its first commit until a checkpoint stands in
  for it; one of its files for each landing would be read here.
-#}
{% macro landed_tables() -%}
    {%- set logs = '/{bronze/quarantine,ops/kafka_gaps,ops/kafka_offsets}/_delta_log/{00000000000000000000.json,*.checkpoint*.parquet}' -%}
    {{ return(run_query(
        "select distinct regexp_extract(path, '/([^/]+)/_delta_log/[^/]+$', 1) from binaryfile."
        ~ quoted(without_patterns(lakehouse_folder()) ~ logs)
    ).columns[0].values() | list) }}
{%- endmacro %}
