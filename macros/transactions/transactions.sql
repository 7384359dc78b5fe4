{#-
  The transactions that a source's histories don't show yet, so that every table has all of each that they show: a
  consistent cut (G7). Built where the source's option `consistent` says so; empty where everything is complete.

  Args:
      source_name: the dbt source
      changes: the names of all changes models of the source
-#}
{% macro transactions(source_name, changes) -%}
    {%- do check_options('transactions', dict(kwargs, source_name=source_name, changes=changes)) -%}
    {%- do config(enabled=source_options(source_name).consistent, meta={'tidemark': {'transactions_of': source_name}}) -%}
    {%- for name in changes -%}{%- do read(name) -%}{%- endfor -%}
    {%- if execute -%}
        {%- do only_all_changes(source_name, changes) -%}
        {%- set feeds = feeds_of(changes) -%}
        {%- set scope = transactions_scope(source_name, feeds) -%}
{{ decision(scope) }}
{{ held_transactions(source_name, feeds, scope.seen) }}
    {%- endif -%}
{%- endmacro %}


{#- Stop where a table of the source is not among those that a transaction is looked for in. -#}
{% macro only_all_changes(source_name, changes) -%}
    {%- for node in graph.nodes.values()
        if node.resource_type == 'model' and 'columns' in declared_by(node)
        and declared_by(node).source.startswith(source_name ~ '.') and node.name not in changes -%}
        {{ exceptions.raise_compiler_error(
            model.name ~ ': ' ~ node.name ~ ' is a changes model of ' ~ source_name ~ ' and not in the list `changes`.'
            ~ ' Add it in ' ~ model.original_file_path ~ ', so that its changes count (G7).'
        ) }}
    {%- endfor -%}
{%- endmacro %}


{#-
  What bronze knows of the tables of changes models.

  Returns: [{changes, relation, boundary, prefix, collections, committed, is_alone, has_one_time}]; `prefix` is the topic
  prefix, `boundary` an expression, the transaction that a BEGIN or an END names; `collections` are the names that END may
  give the table; `committed` is a condition, whether a change is of a transaction; the others are the connector's.
-#}
{% macro feeds_of(changes) -%}
    {%- set models = {} -%}
    {%- for name in changes -%}
        {%- set source_name, table = model_node(name).config.meta.tidemark.source.split('.', 1) -%}
        {%- do models.update({feed_of(source_name, table): {'name': name, 'connector': source_options(source_name).connector}}) -%}
    {%- endfor -%}
    {%- set feeds = [] -%}
    {%- set named = [] -%}
    {#- Deletes without a schema and truncates have no shape: of what has none the records themselves are asked. -#}
    {%- for table in (['shapes', 'records'] if is_building() else []) -%}
        {%- set unnamed = models | reject('in', named) | list -%}
        {%- for row in (run_query(
            'select feed, any_value(connector), any_value(source_name), any_value(db), any_value(schema), any_value(`table`) from '
            ~ lakehouse_table('bronze', table) ~ ' where feed in (' ~ text_list(unnamed) ~ ') group by feed'
        ) if unnamed else []) -%}
            {%- set of_model = models[row[0]] -%}
            {%- set connector = connector_of(row[1], of_model.connector)
                or {'boundary': 'boundary.id', 'collections': []} -%}
            {%- do named.append(row[0]) -%}
            {%- do feeds.append({
                'changes': of_model.name, 'relation': relation_of(of_model.name) | string, 'prefix': row[2],
                'boundary': connector.boundary,
                'collections': collections_of(connector, {'db': row[3], 'schema': row[4], 'table': row[5]}),
                'committed': 'transaction_id is not null' if connector.get('has_lone_changes') else 'not is_read',
                'is_alone': connector.get('is_alone'),
                'has_one_time': connector.get('has_one_time', false)
            }) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(feeds) }}
{%- endmacro %}


{#-
  Whether anything can have moved since the last run, and what that one had seen: `seen` is the last landing before it.
  Stops where the records can't make a cut.
-#}
{% macro transactions_scope(source_name, feeds) -%}
    {%- do only_in_layer('ops') -%}
    {%- set last = own_progress() -%}
    {%- set scope = {
        'case': 'nothing', 'seen': last.get('batch_id', -1), 'batch_id': none, 'layer': 'ops', 'state': {'columns': []}
    } -%}
    {%- if not is_building() or not feeds -%}
        {{ return(dict(scope, case='nothing' if is_empty() else 'full')) }}
    {%- endif -%}
    {%- set landed = [graph.tidemark.landed, 0] | max -%}
    {%- set logs = [] -%}
    {%- for one in feeds -%}{%- do logs.append(log_as_built(model_node(one.changes).unique_id)) -%}{%- endfor -%}
    {%- set options = source_options(source_name) -%}
    {%- do scope.state.update({
        'logs': local_md5(tojson([logs, options.given_up, options.transaction_topic], sort_keys=true))
    }) -%}
    {%- if landed == scope.seen and scope.state.logs == last.get('logs')
        and is_registered('ops') and not should_full_refresh()
        and not has_rows('select 1 from ' ~ this) -%}
        {{ return(scope) }}
    {%- endif -%}
    {%- set partitions = run_query(
        'select count(distinct `partition`) from ' ~ lakehouse_table('bronze', 'records') ~ ' where '
        ~ is_boundary(source_name, feeds)
    )[0][0] -%}
    {%- if partitions > 1 -%}
        {{ exceptions.raise_compiler_error(
            model.name ~ ': `consistent: true` was asked for ' ~ source_name ~ ', and topic '
            ~ transaction_topic(source_name, feeds) ~ ' has records in ' ~ partitions ~ ' partitions, so that nothing tells in'
            ~ ' which order transactions began. Give that topic one partition, and name it anew (`topic.transaction` at the'
            ~ ' connector, `transaction_topic` here), or take `consistent` out of `vars: tidemark: sources: ' ~ source_name ~ '`.'
        ) }}
    {%- elif not partitions and committed_changes(feeds) -%}
        {{ exceptions.raise_compiler_error(
            model.name ~ ': `consistent: true` was asked for ' ~ source_name ~ ', and no record of topic '
            ~ transaction_topic(source_name, feeds) ~ ' says which transactions are complete. Set '
            ~ '`provide.transaction.metadata=true` at the connector and land that topic (CloudEventsConverter makes tombstones'
            ~ ' of its records), or take `consistent` out of '
            ~ '`vars: tidemark: sources: ' ~ source_name ~ '`.'
        ) }}
    {%- endif -%}
    {{ return(dict(scope, case='full', batch_id=landed)) }}
{%- endmacro %}


{#- Whether the tables have changes of transactions. -#}
{% macro committed_changes(feeds) -%}
    {%- for one in feeds if has_rows('select 1 from ' ~ one.relation ~ ' where ' ~ one.committed) -%}
        {{ return(true) }}
    {%- endfor -%}
    {{ return(false) }}
{%- endmacro %}


{#- The topic in which a source tells BEGIN and END: by its option, or as the connector names it. -#}
{% macro transaction_topic(source_name, feeds) -%}
    {{ return(source_options(source_name).transaction_topic or ((feeds | first).prefix ~ '.transaction')) }}
{%- endmacro %}


{#- Condition: whether a record of bronze is a BEGIN or an END of the source. -#}
{% macro is_boundary(source_name, feeds) -%}
    {{ is_of_no_table() }} and kind = 'transaction' and topic = {{ text_literal(transaction_topic(source_name, feeds)) }}
{%- endmacro %}


{#-
  Query: from the first transaction on that isn't known to be complete, all of them. In the order of their BEGINs, which
  is that of their commits; positions of different tables need not compare.

  A transaction is complete when each table has the changes that its END counts; of several ENDs the greatest of a collection.
  What it counts of a table is waited for from the first transaction on that has a change there, since the table's topic can
  begin later than that of BEGIN and END; where a change from before the first BEGIN is there, such as a snapshot's read, it
  doesn't.

  That these counts are met proves nothing where BEGIN came twice before an END (a restart in its middle), and there are
  none where END never comes (MariaDB's DDL) or neither (MySQL's XA): such a one is complete in a run that began after a
  later one was landed. Changes from before the first BEGIN are from before the setting was made.

  What has no BEGIN, or none yet, stands in that order before what is behind it in one of its tables: where it is not known
  to be complete, neither does that show, nor what began later. A change that is all of its transaction (`is_alone`) waits
  for nothing.

  Args:
      seen: the last landing before the run that was before this one
-#}
{% macro held_transactions(source_name, feeds, seen) -%}
with

{{ announced_steps(source_name, feeds) }},

{{ arrived_step(feeds) }},

{{ landmark_steps(seen) }},

{{ judged_steps(source_name, feeds) }},

without_begin as (

    select cast(map(
        {%- for one in feeds %}
        {{ text_literal(one.changes) }}, min(positions[{{ text_literal(one.changes) }}]){{ ',' if not loop.last }}
        {%- endfor %}
    ) as map<string, string>) as hidden_from
    from judged
    where is_blocking and began is null

),

first_blocking as (

    select min(began) as began
    from judged
    cross join without_begin
    where is_blocking or exists(map_entries(positions), one -> coalesce(one.value >= hidden_from[one.key], false))

)

select
    transaction_id,
    began_at,
    judged.began as began_at_offset,
    has_ended,
    is_blocking,
    changes,
    lacking,
    positions
from judged
cross join first_blocking
where is_blocking or judged.began >= first_blocking.began
{%- endmacro %}


{#- Steps to `announced`: what the records of BEGIN and END say of each transaction. -#}
{% macro announced_steps(source_name, feeds) -%}
    {#- Numbers can be printed as texts. -#}
    {%- set boundary = {
        'status': 'string', 'id': 'string', 'ts_ms': 'string',
        'data_collections': 'array<struct<data_collection: string, event_count: string>>'
    } -%}
boundaries as (

    select
        `offset`,
        batch_id,
        boundary.status,
        {{ (feeds | first).boundary if feeds else 'boundary.id' }} as transaction_id,
        {{ instant_of('boundary.ts_ms') }} as at,
        boundary.data_collections
    from (
        select
            `offset`,
            batch_id,
            {{ unwrapped_fields(boundary) }}
        from (
            select `offset`, batch_id, {{ read_wrapped(boundary) }} as parsed
            from {{ lakehouse_table('bronze', 'records') }}
            where {{ is_boundary(source_name, feeds) if feeds else 'false' }}
                {{- ' and batch_id <= ' ~ graph.tidemark.landed if is_building() }}
        ) as records
    ) as boundary

),

timed as (

    select
        *,
        -- an id that comes again with another time is another transaction's; an END's own time can be that of what ends it
        {% if feeds and (feeds | first).has_one_time -%}
            last_value(if(status = 'BEGIN', at, null), true) over (partition by transaction_id order by `offset`)
        {%- else -%}
            cast(null as timestamp)
        {%- endif %} as committed_at
    from boundaries

),

announced as (

    select
        transaction_id,
        committed_at,
        min(`offset`) as began,
        min(at) as began_at,
        min(batch_id) as batch_id,
        bool_or(status = 'END') as has_ended,
        -- what a connector repeats behind an END takes nothing from that
        slice(
            transform(array_sort(collect_list(struct(`offset`, status))), one -> one.status), 1, 2
        ) = array('BEGIN', 'END') as is_counted_whole,
        -- of several ENDs each counts what came behind its own BEGIN: the greatest of a collection stands last, and stays
        map_from_entries(array_sort(transform(
            flatten(collect_list(if(status = 'END', data_collections, null))),
            one -> struct(
                coalesce(one.data_collection, ''), coalesce(try_cast(one.event_count as bigint), {{ unknown_count() }})
            )
        ))) as promised
    from timed
    group by transaction_id, committed_at

)
{%- endmacro %}


{#- Step: of each transaction what has arrived: how many changes, how many of each table, and where the first of these stands. -#}
{% macro arrived_step(feeds) -%}
arrived as (

    select
        transaction_id,
        committed_at,
        sum(changes) as changes,
        map_from_entries(collect_list(struct(model, changes))) as changes_of,
        map_from_entries(collect_list(struct(model, position))) as positions
    from (
        {%- for one in feeds %}
        select
            transaction_id,
            {{ "if(transaction_id is null, null, date_trunc('millisecond', changed_at))" if one.has_one_time
                else 'cast(null as timestamp)' }} as committed_at,
            {{ text_literal(one.changes) }} as model,
            count(*) as changes,
            min(position) as position
        from {{ one.relation }}
        {{- ' where not ' ~ one.is_alone if one.is_alone }}
        group by all
        {{ 'union all' if not loop.last }}
        {%- else %}
        select '' as transaction_id, cast(null as timestamp) as committed_at, '' as model, 0 as changes, '' as position
        where false
        {%- endfor %}
    ) as counts
    group by transaction_id, committed_at

)
{%- endmacro %}


{#-
  Steps to `transactions`, all that were announced or have arrived; to `landmarks`, one row: where the log of each table
  begins, from which transaction on it has changes, and the last position that the last run had seen; and to `last_seen`.
-#}
{% macro landmark_steps(seen) -%}
transactions as (

    select
        coalesce(announced.transaction_id, arrived.transaction_id) as transaction_id,
        began,
        began_at,
        batch_id,
        is_counted_whole,
        coalesce(has_ended, false) as has_ended,
        coalesce(promised, map()) as promised,
        coalesce(changes, 0) as changes,
        changes_of,
        coalesce(positions, map()) as positions
    from announced
    full outer join arrived
        on announced.transaction_id = arrived.transaction_id
        and coalesce(announced.committed_at = arrived.committed_at, true)

),

by_table as (

    select
        began,
        batch_id,
        explode(positions) as (model, position)
    from transactions

),

landmarks_of_tables as (

    select
        model,
        min(position) as begins_at,
        min(began) as began,
        min(if(began is null, null, position)) as first_position,
        max(if(batch_id <= {{ seen }}, position, null)) as seen_position
    from by_table
    group by model

),

landmarks as (

    select
        map_from_entries(collect_list(struct(model, struct(begins_at, began, seen_position)))) as of_table,
        min(first_position) as first_position,
        max(seen_position) as seen_position
    from landmarks_of_tables

),

last_seen as (

    select max(began) as seen_began
    from announced
    where batch_id <= {{ seen }}

)
{%- endmacro %}


{#- Steps to `judged`: of each transaction what it lacks of what its END counts, and whether it blocks those behind it. -#}
{% macro judged_steps(source_name, feeds) -%}
counted as (

    select
        transactions.*,
        landmarks.*,
        seen_began,
        map_from_entries(filter(
            transform(map_entries(aggregate(
                transform(
                    map_entries(promised),
                    one -> struct({{ model_of_collection(feeds) }} as model, one.value as changes)
                ),
                cast(map() as map<string, bigint>),
                -- each of MongoDB's shards counts its own, under its own name of the collection
                (sums, one) -> if(one.model is null, sums, map_concat(sums, map(
                    one.model, coalesce(try_add(coalesce(sums[one.model], 0), one.changes), {{ unknown_count() }})
                )))
            )), one -> struct(one.key as model, one.value - coalesce(changes_of[one.key], 0) as lacking)),
            one -> one.lacking > 0 and coalesce(
                of_table[one.model].begins_at < first_position or of_table[one.model].began <= began, false
            )
        )) as lacking
    from transactions
    cross join landmarks
    cross join last_seen
    -- changes that are in no transaction stand together as one without a name
    where transactions.began is not null or transactions.transaction_id is not null

),

judged as (

    select
        *,
        case
            when array_contains({{ text_array(source_options(source_name).given_up) }}, transaction_id) then false
            when began is null
                then not forall(map_entries(positions), one -> coalesce(one.value < greatest(
                    first_position,
                    of_table[one.key].seen_position,
                    -- a log that begins anew (R5) shows in each table by itself: positions compare within one
                    if({{ log_of_position('one.value') }} = {{ log_of_position('seen_position') }}, seen_position, null)
                ), false))
            when has_ended and size(lacking) > 0 then true
            else not is_counted_whole and not coalesce(began < seen_began, false)
        end as is_blocking
    from counted

)
{%- endmacro %}


{#-
  Expression: the changes model of the collection `one.key`; NULL where no model has the table, or where the name could be
  that of several (tables of one schema and name in two databases).
-#}
{% macro model_of_collection(feeds) -%}
    {%- set models = {} -%}
    {%- for one in feeds -%}
        {%- for name in one.collections -%}
            {%- do models.update({name: models.get(name, []) + [one.changes]}) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- set entries = [] -%}
    {%- for name, changes_models in models.items() if changes_models | length == 1 -%}
        {%- do entries.append(text_literal(name) ~ ', ' ~ text_literal(changes_models[0])) -%}
    {%- endfor -%}
    {%- set by_name = 'try_element_at(map(' ~ entries | join(', ') ~ '), ' -%}
    {%- if not entries -%}
        cast(null as string)
    {%- elif '*' in models | map('first') -%}
        coalesce({{ by_name }}one.key), {{ by_name }}regexp_replace(one.key, '^[^.]*', '*')))
    {%- else -%}
        {{ by_name }}one.key)
    {%- endif %}
{%- endmacro %}


{#- A count that can't be read is more than will ever arrive: that transaction is held back until it is given up. -#}
{% macro unknown_count() -%}
    9223372036854775807
{%- endmacro %}
