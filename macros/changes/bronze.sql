{#-
  What changes models ask of bronze: which fields their records have, and what has landed since the last run. A question
  costs as much for one feed as for a hundred: before a run it is asked of all feeds at once, and by a model only where
  that was not done.

  Logs hold what had landed when a run began: a landing beside it could bring records of a shape that it hasn't seen.
-#}


{#-
  Before a run: ask for all of its changes models, and leave the answers in `graph.tidemark` (`empty_memory`). News are
  asked of models that have looked at one of the last landings (`looked_at`): the files that others have to look through
  are those of their feed alone.
-#}
{% macro ask_bronze() -%}
    {%- set landed = run_query('select max(batch_id) from ' ~ lakehouse_table('bronze', 'records'))[0][0] -%}
    {%- do graph.tidemark.update({'landed': -1 if landed is none else landed | int}) -%}
    {%- set fields = {} -%}
    {%- set feeds_by_connector = {} -%}
    {%- set asked_by = {} -%}
    {%- for node in graph.nodes.values() if node.unique_id in selected_resources -%}
        {%- set dbt_source = source_of(node) -%}
        {%- if dbt_source and dbt_source.feed -%}
            {%- if not dbt_source.documents -%}{%- do fields.update({dbt_source.feed: []}) -%}{%- endif -%}
            {%- set progress = {} if flags.FULL_REFRESH else graph.tidemark.progress.get(node.unique_id, {}) -%}
            {%- set after = looked_at(progress) -%}
            {%- if after >= graph.tidemark.landed - 100 -%}
                {%- set connector = source_options(dbt_source.name).connector -%}
                {%- do feeds_by_connector.setdefault(connector, {}).update({dbt_source.feed: after}) -%}
                {%- do asked_by.update({node.unique_id: [dbt_source.feed, after, connector] | string}) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if fields -%}
        {%- for row in run_query(fields_of(fields)) -%}{%- do fields[row[0]].append(row) -%}{%- endfor -%}
    {%- endif -%}
    {%- set news = {} -%}
    {%- set nothing = {'last_batch': none, 'resting_on_reads': 0, 'reads': 0, 'records': 0} -%}
    {%- for one in connectors() -%}{%- do nothing.update({one.names[0]: 0}) -%}{%- endfor -%}
    {%- for connector, feeds in feeds_by_connector.items() -%}
        {%- for feed, after in feeds.items() -%}
            {%- do news.update({[feed, after, connector] | string: nothing}) -%}
        {%- endfor -%}
        {%- for row in run_query('select feed, ' ~ news_counts(connector) ~ news_of(feeds) ~ ' group by feed').rows -%}
            {%- do news.update({[row['feed'], feeds[row['feed']], connector] | string: row}) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- set waiting = {} -%}
    {%- for id, asked_as in asked_by.items() if asked_as in news -%}
        {%- do waiting.update({id: news[asked_as]['records']}) -%}
    {%- endfor -%}
    {%- do graph.tidemark.update({'fields': fields, 'news': news, 'waiting': waiting}) -%}
{%- endmacro %}


{#- The source that a changes model reads, as {name, feed, documents}; none of another model. -#}
{% macro source_of(node) -%}
    {%- set declared = declared_by(node) -%}
    {%- set table = source_table(declared.get('source')) -%}
    {{ return(
        {'name': table.source_name, 'feed': declared_feed(table), 'documents': declared.documents} if table else none
    ) }}
{%- endmacro %}


{#- The feed that a dbt source reads, from its meta. Empty while dbt only parses. -#}
{% macro feed_of(source_name, table) -%}
    {%- set node = source_table(source_name ~ '.' ~ table) -%}
    {{ return((declared_feed(node) or no_feed(source_name, table, 'no feed')) if node else '') }}
{%- endmacro %}


{#- The feed that a node of dbt's graph, a source's table, says in its meta; nothing where it says none. -#}
{% macro declared_feed(node) -%}
    {{ return(node.meta.get('feed') or node.config.get('meta', {}).get('feed')) }}
{%- endmacro %}


{#- Stop where a source's table names no records in bronze: its log would be empty. -#}
{% macro no_feed(source_name, table, what, instead='') -%}
    {%- set feeds = run_query('select distinct feed from ' ~ lakehouse_table('bronze', 'shapes')).columns[0].values() -%}
    {{ exceptions.raise_compiler_error(
        model.name ~ ': the table ' ~ source_name ~ '.' ~ table ~ ' of the dbt sources has ' ~ what ~ ' in its `meta`: its records in'
        ~ ' bronze are found by it. Write `config: {meta: {feed: '
        ~ (nearest_name(source_name ~ '__' ~ table, feeds) or '…') ~ '}}`, or another that the column `feed` of bronze.shapes has'
        ~ instead ~ '.'
    ) }}
{%- endmacro %}


{#- The fields that a feed's records have, as the rows of `fields_of`. -#}
{% macro fields_seen(feed) -%}
    {%- set fields = memory().get('fields', {}).get(feed) -%}
    {{ return(run_query(fields_of([feed])) if fields is none else fields) }}
{%- endmacro %}


{#-
  Query: the fields of feeds: feed, name, the types that schemas give as a JSON list, the encodings, each with a landing that
  brought it, as JSON rows, the number of shapes that have it, the landing of the first, and the connectors that wrote them as
  a JSON list; with a NULL for a name, of all shapes.
-#}
{% macro fields_of(feeds) -%}
    select
        feed,
        field.name,
        to_json(collect_set(if(field.encoding is null, null, field.spark_type))),
        to_json(collect_set(struct(coalesce(field.encoding, '') as encoding, batch_id))),
        count(distinct shape_id),
        min(batch_id),
        to_json(collect_set(coalesce(connector, '')))
    from (
        select
            feed,
            explode(concat(fields, array(null))) as field,
            shape_id,
            batch_id,
            connector
        from {{ lakehouse_table('bronze', 'shapes') }}
        where feed in ({{ text_list(feeds) }})
    ) as shape
    group by feed, field.name
    order by feed, min(batch_id), field.name
{%- endmacro %}


{#-
  The last landing up to which nothing is new to a log: the last that it holds, or one that was looked at since and brought it
  nothing (`logs_left`).

  Args:
      progress: what the log's model wrote down last
-#}
{% macro looked_at(progress) -%}
    {{ return([progress.get('batch_id', -1), progress.get('looked_at', -1)] | max) }}
{%- endmacro %}


{#-
  Of logs that had nothing to do in a run, what is written down of them: that they were looked at up to its last landing. So a
  quiet table is asked about with all others, in each run, and not by itself. It goes into the commit that tells what others did,
  and has one of its own where there was none for fifty landings: what lands may be of no table.

  Args:
      moved: whether there is such a commit
-#}
{% macro logs_left(moved) -%}
    {%- set left, waits = {}, namespace(long=false) -%}
    {%- for id in graph.tidemark.untouched if id in graph.tidemark.progress -%}
        {%- set last = graph.tidemark.progress[id] -%}
        {%- if looked_at(last) < graph.tidemark.landed -%}
            {%- do left.update({id: {'state': dict(last, looked_at=graph.tidemark.landed)}}) -%}
            {%- set waits.long = waits.long or looked_at(last) < graph.tidemark.landed - 50 -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(left if moved or waits.long else {}) }}
{%- endmacro %}


{#- What has landed of a feed since a landing: `news_counts` by their names. -#}
{% macro landed_news(feed, after, connector) -%}
    {{ return(
        graph.tidemark.news.get([feed, after, connector] | string)
        or run_query('select ' ~ news_counts(connector) ~ news_of({feed: after}))[0]
    ) }}
{%- endmacro %}


{#-
  The end of a query: the records of feeds that have landed since, and before the run.

  Args:
      feeds: feed → the last landing that is known of it
-#}
{% macro news_of(feeds) %}
    from {{ lakehouse_table('bronze', 'records') }}
    where feed in ({{ text_list(feeds) }})
        and {{ landed_since(feeds.values() | min, graph.tidemark.landed) }}
    {%- if feeds.values() | unique | list | length > 1 %}
        and batch_id > map(
            {%- for feed, after in feeds.items() -%}
                {{ text_literal(feed) }}, {{ after }}{{ ', ' if not loop.last }}
            {%- endfor -%}
        )[feed]
    {%- endif %}
{%- endmacro %}


{#-
  Expression list: the last landing, and how many records can rest on a read, are reads, are there at all, and were
  written by each known connector.

  Args:
      connector: the one that is declared
-#}
{% macro news_counts(connector) -%}
    max(batch_id) as last_batch,
    count_if({{ waits_for_read(connector) }}) as resting_on_reads,
    count_if(op = 'r') as reads,
    count(*) as records,
    {{ connector_counts() }}
{%- endmacro %}
