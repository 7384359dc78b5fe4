{#-
  What changes models ask of bronze: which fields their records have, and what has landed since the last run. A question
  costs as much for one feed as for a hundred: before a run it is asked of all feeds at once, and by a model only where
  that was not done.

  A run reads what had landed when it began: a landing beside it could bring records of a shape that it hasn't seen.
-#}


{#-
  Before a run: ask for all of its changes models. `graph.tidemark` has the answers: `landed`, the last landing, `fields` by
  feed, and `news`.
-#}
{% macro ask_bronze() -%}
    {%- set landed = run_query('select max(batch_id) from ' ~ lakehouse_table('bronze', 'records'))[0][0] -%}
    {%- do graph.tidemark.update({'landed': -1 if landed is none else landed | int}) -%}
    {%- set fields = {} -%}
    {%- set asked = {} -%}
    {%- for node in graph.nodes.values() if node.unique_id in selected_resources -%}
        {%- set source = source_of(node) -%}
        {%- if source -%}
            {%- set after = graph.tidemark.progress.get(node.unique_id, {'batch_id': -1}).batch_id -%}
            {%- set connector = source_options(source.name).connector -%}
            {%- do fields.update({source.feed: []}) -%}
            {%- do asked.setdefault([after, connector] | string, {'after': after, 'connector': connector, 'feeds': []})
                .feeds.append(source.feed) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if fields -%}
        {%- for row in run_query(fields_of(fields)) -%}{%- do fields[row[0]].append(row) -%}{%- endfor -%}
    {%- endif -%}
    {%- set news = {} -%}
    {%- for one in asked.values() -%}
        {%- for feed in one.feeds -%}
            {%- do news.update({[feed, one.after, one.connector] | string: [none] + [0] * (3 + connectors() | length)}) -%}
        {%- endfor -%}
        {%- set found = run_query(
            'select feed, ' ~ news_counts(one.connector) ~ news_of(one.feeds, one.after) ~ ' group by feed'
        ) -%}
        {%- for row in found.rows -%}
            {%- do news.update({[row[0], one.after, one.connector] | string: row.values()[1:]}) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- do graph.tidemark.update({'fields': fields, 'news': news}) -%}
{%- endmacro %}


{#- The source that a changes model reads, as {name, feed}; none of another model. -#}
{% macro source_of(node) -%}
    {%- set declared = ((node.config.meta or {}).get('tidemark') or {}).get('source') -%}
    {%- for source in graph.sources.values() if declared and source.source_name ~ '.' ~ source.name == declared -%}
        {{ return({'name': source.source_name, 'feed': feed_of(source.source_name, source.name)}) }}
    {%- endfor -%}
    {{ return(none) }}
{%- endmacro %}


{#- The fields that a feed's records have, as the rows of `fields_of`. -#}
{% macro fields_seen(feed) -%}
    {%- set known = (graph.get('tidemark') or {}).get('fields', {}).get(feed) -%}
    {{ return(run_query(fields_of([feed])) if known is none else known) }}
{%- endmacro %}


{#-
  Query: the fields of feeds: feed, name, type, the encodings as JSON, the number of shapes that have it, and the landing of
  the first; with a NULL for a name, of all shapes.
-#}
{% macro fields_of(feeds) -%}
    select
        feed,
        field.name,
        max_by(field.spark_type, batch_id),
        to_json(collect_set(coalesce(field.encoding, ''))),
        count(distinct shape_id),
        min(batch_id)
    from (
        select
            feed,
            explode(concat(fields, array(null))) as field,
            shape_id,
            batch_id
        from {{ lakehouse_table('bronze', 'shapes') }}
        where feed in ({{ text_list(feeds) }})
    ) as shape
    group by feed, field.name
    order by feed, min(batch_id), field.name
{%- endmacro %}


{#- What has landed of a feed since a landing, as `news_counts` has it. -#}
{% macro landed_news(feed, after, connector) -%}
    {{ return(
        graph.tidemark.news.get([feed, after, connector] | string)
        or run_query('select ' ~ news_counts(connector) ~ news_of([feed], after))[0]
    ) }}
{%- endmacro %}


{#- The end of a query: the records of feeds that have landed since a landing. -#}
{% macro news_of(feeds, after) %}
    from {{ lakehouse_table('bronze', 'records') }}
    where feed in ({{ text_list(feeds) }}) and batch_id > {{ after }} and batch_id <= {{ graph.tidemark.landed }}
{%- endmacro %}


{#-
  Expression list: the last landing, and how many records wait for their commit, are reads, are there at all, and were written
  by each known connector.

  Args:
      connector: the one that is declared
-#}
{% macro news_counts(connector) -%}
    max(batch_id), count_if({{ waits_for_commit(connector) }}), count_if(op = 'r'), count(*), {{ connector_counts() }}
{%- endmacro %}
