{#-
  The snapshots of a source: who asked, when it began, how far it came, how it ended, for each table where it is told. A
  row for each snapshot and table, or for the snapshot alone where no table is told.

  It is told by notifications, each once whoever delivered it again, in the order of the connector's clock and, where
  that ties, of offsets; and by signals that ask for a snapshot: records of Kafka's signal channel, and rows of a signal table,
  which are changes like any other (R17). An incremental snapshot bears the id of the newest signal that asked for it: one that
  comes while it goes on adds tables to it. A signal can stop some of its tables alone: an ABORTED then names them, and where it
  stops the last ones a COMPLETED is sent before it.

  The table is made anew where any of those have come.

  Args:
      prefix: the topic prefix, as the events spell it
-#}
{% macro snapshots(prefix) -%}
    {%- do check_options('snapshots', dict(kwargs, prefix=prefix)) -%}
    {%- set declared = {'snapshots_of': prefix} -%}
    {%- do config(meta={'tidemark': declared}) -%}
    {%- set feeds = signal_tables(prefix) -%}
    {%- set asked_in = "(op = 'c' and feed in (" ~ text_list(feeds) ~ '))' if feeds else 'false' -%}
    {#- The feeds stand before the rest: partitions are left unread by what holds of each record. -#}
    {%- set scope = channel_scope(
        declared,
        '(' ~ is_of_no_table() ~ (' or feed in (' ~ text_list(feeds) ~ ')' if feeds else '') ~ ') and ('
        ~ is_of_channel(['notification', 'signal'], prefix) ~ ' or ' ~ asked_in ~ ')',
        stands_alone=false
    ) -%}
{{ decision(scope) }}
{{ snapshots_query(prefix, asked_in) }}
{%- endmacro %}


{#- The feeds of tables that have the columns of a signal table, and nothing else. -#}
{% macro signal_tables(prefix) -%}
    {%- set feeds = [] -%}
    {%- if is_building() -%}
        {%- for row in run_query(
            'select distinct feed from ' ~ lakehouse_table('bronze', 'shapes') ~ ' where source_name = ' ~ text_literal(prefix)
            ~ " and array_sort(transform(fields, field -> lower(field.name))) = array('data', 'id', 'type') order by feed"
        ) -%}
            {%- do feeds.append(row[0]) -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return(feeds) }}
{%- endmacro %}


{% macro snapshots_query(prefix, asked_in) -%}
with

{{ notice_steps(prefix) }},

{{ request_steps(prefix, asked_in) }},

asked_by_table as (

    select by_table.snapshot_id, by_table.collection, max_by(asks.id, struct(asks.at, asks.id)) as asked_id
    from by_table
    inner join asks
        on array_contains(by_table.ids, asks.id) and array_contains(asks.collections, by_table.collection)
    group by by_table.snapshot_id, by_table.collection

),

signalled as (

    select
        by_table.*,
        coalesce(asked_id, first_id) as signal_id
    from by_table
    left join asked_by_table using (snapshot_id, collection)

),

answered as (

    select
        signalled.*,
        ask.at as asked_at,
        coalesce({{ is_filtered('ask.filtered', 'signalled.collection') }}, false) as is_filtered
    from signalled
    left join (
        select
            id, max_by(filtered, at) as filtered, max(at) as at
        from asks
        where id is not null
        group by id
    ) as ask on signalled.signal_id = ask.id

)

select
    snapshot_id,
    kind,
    signal_id,
    collection,
    case
        when skipped_at is not null then 'skipped'
        when aborted_at is not null then 'aborted'
        when completed_at is not null then 'completed'
        when paused_at > coalesce(resumed_at, timestamp'0001-01-01') then 'paused'
        when scan is not null then 'scanned'
        when size(progressed) > 0 then 'in_progress'
        else 'started'
    end as state,
    is_filtered,
    asked_at,
    started_at,
    size(progressed) as chunks,
    scan.at as scanned_at,
    scan.status as scan_status,
    scan.rows_scanned,
    paused_at,
    resumed_at,
    completed_at,
    aborted_at,
    skipped_at,
    batch_id,
    landed_at
from answered
union all
select
    sha2({{ exact_json('struct(id, at, is_of_kafka, kind, collections)') }}, 256) as snapshot_id,
    kind,
    id as signal_id,
    collection,
    'asked' as state,
    {{ is_filtered('filtered', 'collection') }} as is_filtered,
    at as asked_at,
    cast(null as timestamp) as started_at,
    0 as chunks,
    cast(null as timestamp) as scanned_at,
    cast(null as string) as scan_status,
    cast(null as bigint) as rows_scanned,
    cast(null as timestamp) as paused_at,
    cast(null as timestamp) as resumed_at,
    cast(null as timestamp) as completed_at,
    cast(null as timestamp) as aborted_at,
    cast(null as timestamp) as skipped_at,
    batch_id,
    landed_at
from asks
lateral view explode(if(size(collections) > 0, collections, array(cast(null as string)))) exploded as collection
where not exists (select 1 from by_snapshot where array_contains(by_snapshot.ids, asks.id))
{%- endmacro %}


{#- Steps up to `by_table`: what notifications tell of each snapshot and of each table in it. -#}
{% macro notice_steps(prefix) -%}
    {#- Of one millisecond what ends a snapshot is behind what happened in it, whatever partitions they came by. -#}
    {%- set by_clock -%}
        at asc nulls first, case when `type` in ('STARTED', 'SKIPPED') then 0 when `type` in ('COMPLETED', 'ABORTED') then 2 else 1 end, topic, `partition`, `offset`
    {%- endset -%}
    {%- set notice = {
        'id': 'string', 'aggregate_type': 'string', 'type': 'string', 'additional_data': 'map<string, string>',
        'timestamp': 'string'
    } -%}
notices as (

    select
        source_label, topic, `partition`, `offset`, content_hash, batch_id, landed_at,
        {{ unwrapped_fields(notice) }}
    from (
        select *, {{ read_wrapped(notice) }} as parsed
        from {{ lakehouse_table('bronze', 'records') }}
        where {{ is_of_channel(['notification'], prefix) }}
    ) as records

),

distinct_notices as (

    select
        topic, `partition`, `offset`, batch_id, landed_at,
        lower(regexp_replace(aggregate_type, ' *Snapshot$', '')) as kind,
        id,
        upper(`type`) as `type`,
        {{ instant_of('timestamp') }} as at,
        additional_data['scanned_collection'] as scanned,
        additional_data['current_collection_in_progress'] as current,
        additional_data['status'] as status,
        try_cast(additional_data['total_rows_scanned'] as bigint) as rows_scanned,
        upper(`type`) = 'ABORTED' and aggregate_type like 'Incremental%' and additional_data['data_collections'] is not null as is_part,
        filter(array_compact(flatten(array(
            coalesce(split(additional_data['data_collections'], ' *, *'), cast(array() as array<string>)),
            coalesce(split(additional_data['data_collection'], ' *, *'), cast(array() as array<string>)),
            array(additional_data['scanned_collection'], additional_data['current_collection_in_progress'])
        ))), name -> name != '') as collections
    from (
        select
            *,
            {{ delivery_of(exact_json(
                'struct(id, aggregate_type, `type`, timestamp, map_entries(additional_data) as data)'
            )) }} as delivery
        from notices
    ) as ranked
    where delivery = 1 and aggregate_type like '%Snapshot'

),

since_start as (

    select
        *,
        count_if(`type` in ('STARTED', 'SKIPPED')) over (
            partition by kind order by {{ by_clock }} rows unbounded preceding
        ) as start
    from distinct_notices

),

ended as (

    select
        *,
        `type` in ('COMPLETED', 'SKIPPED') or (
            `type` = 'ABORTED'
            {#- None of its tables is left, of those that were told of. #}
            and (not is_part or size(array_except(
                flatten(collect_set(collections) over by_clock),
                flatten(collect_set(if(is_part, collections, array_compact(array(scanned)))) over by_clock)
            )) = 0)
        ) as ends
    from since_start
    window by_clock as (partition by kind, start order by {{ by_clock }} rows unbounded preceding)

),

begun as (

    select
        *,
        `type` in ('STARTED', 'SKIPPED')
            or coalesce(lag(ends) over by_clock and not is_part, true) as begins
    from ended
    window by_clock as (partition by kind order by {{ by_clock }})

),

numbered as (

    select
        *,
        sum(if(begins, 1, 0)) over (
            partition by kind order by {{ by_clock }} rows unbounded preceding
        ) as number
    from begun

),

by_snapshot as (

    select
        kind,
        number,
        {%- for name, type in {
            'started': 'STARTED', 'completed': 'COMPLETED', 'skipped': 'SKIPPED', 'paused': 'PAUSED', 'resumed': 'RESUMED'
        }.items() %}
        max(if(`type` = '{{ type }}', at, null)) as {{ name }}_at,
        {%- endfor %}
        sha2({{ exact_json('struct(kind, min(struct(at, topic, `partition`, `offset`)) as first)') }}, 256) as snapshot_id,
        collect_set(if(kind = 'incremental', id, null)) as ids,
        array_distinct(flatten(collect_list(collections))) as collections,
        collect_list(struct(
            `type`, at, topic, `partition`, `offset`, id, scanned, current, status, rows_scanned, is_part, collections
        )) as notices,
        max(batch_id) as batch_id,
        max(landed_at) as landed_at
    from numbered
    group by kind, number

),

by_table as (

    select
        by_snapshot.*,
        collection,
        filter(notices, notice -> notice.`type` = 'IN_PROGRESS' and notice.current = collection) as progressed,
        array_max(filter(
            transform(notices, notice -> if(
                notice.`type` = 'TABLE_SCAN_COMPLETED' and notice.scanned = collection,
                struct(notice.at, notice.status, notice.rows_scanned), null
            )),
            notice -> notice is not null
        )) as scan,
        array_max(transform(notices, notice -> if(
            notice.`type` = 'ABORTED' and (not notice.is_part or array_contains(notice.collections, collection)), notice.at, null
        ))) as aborted_at,
        {#- The first that tells of it: the id changes when another signal comes. #}
        if(kind = 'incremental', array_min(transform(
            filter(notices, notice -> collection is null or array_contains(notice.collections, collection)),
            notice -> struct(notice.at, notice.topic, notice.`partition`, notice.`offset`, notice.id)
        )).id, null) as first_id
    from by_snapshot
    lateral view explode(if(size(collections) > 0, array_sort(collections), array(cast(null as string)))) exploded as collection

)
{%- endmacro %}


{#- Steps up to `asks`: who asked for a snapshot, over Kafka or by a row of a signal table, each request once. -#}
{% macro request_steps(prefix, asked_in) -%}
    {%- set signal = 'id: string, `type`: string, data: string' -%}
    {%- set clocks = clock_fields() -%}
    {%- set row = dict(clocks, **{'after': 'map<string, string>', 'source': 'struct<' ~ clocks | join(': string, ') ~ ': string>'}) -%}
    {%- set column = 'transform_keys(after, (name, value) -> lower(name))' -%}
    {%- set request_type = 'struct<`data-collections`: array<string>, `additional-conditions`: string,'
        ~ ' `additional-condition`: string, `type`: string>' -%}
signals as (

    select batch_id, landed_at, timestamp as at, signal.id, signal.`type`, signal.data, true as is_of_kafka
    from (
        select *, {{ read_json(record_text('value'), 'struct<' ~ signal ~ '>') }} as signal
        from {{ lakehouse_table('bronze', 'records') }}
        where {{ is_of_channel(['signal'], prefix) }}
    ) as records
    union all
    select
        batch_id, landed_at, timestamp_micros({{ source_time() }}) as at,
        {{ column }}['id'] as id, {{ column }}['type'] as `type`, {{ column }}['data'] as data, false
    from (
        select batch_id, landed_at, {{ unwrapped_fields(row) }}
        from (
            select *, {{ read_wrapped(row) }} as parsed
            from {{ lakehouse_table('bronze', 'records') }}
            where {{ asked_in }}
        ) as records
    ) as rows_of_tables

),

asks as (

    select
        id,
        at,
        is_of_kafka,
        coalesce(lower(request.type), 'incremental') as kind,
        request.`data-collections` as collections,
        {#- The tables that conditions are of; NULL where one can be of any, as the one of Debezium up to 2.x is. #}
        case
            when nullif(request.`additional-conditions`, '[]') is not null then coalesce(
                transform(
                    {{ read_json('request.`additional-conditions`', 'array<struct<`data-collection`: string>>') }},
                    one -> {{ plain_name('one.`data-collection`') }}
                ),
                array(cast(null as string))
            )
            when request.`additional-condition` is not null then array(cast(null as string))
            else {{ text_array([]) }}
        end as filtered,
        min(batch_id) as batch_id,
        min(landed_at) as landed_at
    from (
        select *, {{ read_json('data', request_type) }} as request
        from signals
        where `type` = 'execute-snapshot'
    ) as asking
    group by all

)
{%- endmacro %}


{#- Expression: whether conditions of these tables leave out rows of a table. -#}
{% macro is_filtered(filtered, collection) -%}
    exists({{ filtered }}, name -> coalesce(name = {{ plain_name(collection) }}, true))
{%- endmacro %}


{#- Expression: a table's name as it compares; NULL of a pattern, and of none. -#}
{% macro plain_name(collection) -%}
    {%- set unescaped = 'replace(' ~ collection ~ ", '\\\\.', '.')" -%}
    if(translate({{ unescaped }}, '\\*+?()[]{}|^$', '') = {{ unescaped }}, lower({{ unescaped }}), null)
{%- endmacro %}


{#-
  The model of snapshots that a history believes about which of them are complete (R16); none where its source isn't
  declared with `snapshot_notifications`.
-#}
{% macro snapshots_of(changes) -%}
    {%- set its_source = source_with(changes, 'snapshot_notifications') -%}
    {{ return(its_source ~ '_snapshots' if its_source else none) }}
{%- endmacro %}


{#-
  The scans of a table that notifications tell of as ended well (R16). By the connector's clock, which stamps reads too, a scan
  and the reads that it made fall together; one that read more rows than are here is not complete here yet. A run asks once a
  table.

  Returns: [[when the snapshot began, when the scan ended, rows]], times in milliseconds; empty where the source isn't
  declared so.
-#}
{% macro scans_of(changes) -%}
    {%- if changes in graph.tidemark.scans -%}{{ return(graph.tidemark.scans[changes]) }}{%- endif -%}
    {%- set scans = [] -%}
    {%- if snapshots_of(changes) -%}
        {%- for feed in feeds_of([changes]) if feed.collections -%}
            {%- for row in run_query(
                'select unix_millis(started_at), unix_millis(scanned_at), rows_scanned from '
                ~ relation_of(snapshots_of(changes)) ~ " where kind = 'initial' and scan_status = 'SUCCEEDED'"
                ~ ' and rows_scanned > 0 and started_at is not null and not is_filtered and collection in ('
                ~ text_list(feed.collections) ~ ') order by started_at, scanned_at'
            ) -%}
                {%- do scans.append([row[0] | int, row[1] | int, row[2] | int]) -%}
            {%- endfor -%}
        {%- endfor -%}
    {%- endif -%}
    {%- do graph.tidemark.scans.update({changes: scans}) -%}
    {{ return(scans) }}
{%- endmacro %}
