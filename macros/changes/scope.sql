{#- The feed that a dbt source reads, from its meta. Empty while dbt only parses. -#}
{% macro feed_of(source_name, table) -%}
    {%- if execute -%}
        {%- for node in graph.sources.values() if node.source_name == source_name and node.name == table -%}
            {{ return(node.meta.get('feed') or node.config.get('meta', {}).get('feed')) }}
        {%- endfor -%}
    {%- endif -%}
    {{ return('') }}
{%- endmacro %}


{#-
  What this run of a changes model has to read, decided here alone:
      full      the table is new or refreshed: every record
      nothing   no landing since the last run: no record
      some      the landings since the last run
      rederive  every record, and then what differs is written: a change's position or number depends on records
                that came in another landing (S in R4, tables without a key in R3)
-#}
{% macro changes_scope(records, feed, key) -%}
    {%- if not is_building() or is_first_build() -%}
        {{ return({'case': 'full', 'after': -1, 'batch_id': newest_batch()}) }}
    {%- endif -%}
    {%- set after = last_batch_of(model.unique_id) -%}
    {%- set found = run_query(
        'select count(*), max(batch_id), count_if(op != ' ~ "'r' and decode(value, 'utf-8') rlike "
        ~ text_literal('"sequence" *: *"\\[null') ~ '), count_if(op = ' ~ "'r'), min(`offset`) from " ~ records
        ~ ' where feed = ' ~ text_literal(feed) ~ " and kind in ('change', 'truncate') and batch_id > " ~ after
    )[0] -%}
    {%- if found[0] == 0 -%}
        {{ return({'case': 'nothing', 'after': 9223372036854775807, 'batch_id': none}) }}
    {%- elif not key or found[2] or (found[3] and is_out_of_order(records, feed, after, found[4])) -%}
        {{ return({'case': 'rederive', 'after': -1, 'batch_id': found[1]}) }}
    {%- endif -%}
    {{ return({'case': 'some', 'after': after, 'batch_id': found[1]}) }}
{%- endmacro %}


{#- Whether records landed before stand behind the given offset. -#}
{% macro is_out_of_order(records, feed, after, offset) -%}
    {{ return(run_query(
        'select 1 from ' ~ records ~ ' where feed = ' ~ text_literal(feed) ~ ' and batch_id <= ' ~ after
        ~ ' and `offset` > ' ~ offset ~ ' limit 1'
    ) | length > 0) }}
{%- endmacro %}


{#- Whether dbt builds tables now; otherwise the query stands alone, as unit tests and readers want it. -#}
{% macro is_building() -%}
    {{ return(execute and flags.WHICH in ('run', 'build', 'retry') and not flags.EMPTY and model.resource_type == 'model') }}
{%- endmacro %}


{% macro is_first_build() -%}
    {{ return(load_relation(this) is none or should_full_refresh()) }}
{%- endmacro %}


{% macro newest_batch() -%}
    {{ return(run_query('select max(batch_id) from bronze.records')[0][0] if is_building() else none) }}
{%- endmacro %}


{#- The first line of a compiled model: what was decided, for the materialization and for the reader. -#}
{% macro decision(scope) -%}
    -- tidemark: {{ tojson(scope) }}
{%- endmacro %}


{#- The decision in a compiled model. -#}
{% macro decided(sql) -%}
    {{ return(fromjson(modules.re.findall('-- tidemark: (.*)', sql)[0])) }}
{%- endmacro %}
