{#-
  Make or remake a table as a query says, in one commit: readers see the old one until the new one is there.
  Descriptions are written here alone, so that a run with nothing new writes nothing (G3).
-#}
{% macro create_as(target, sql, layer, partitions, columns=[]) -%}
    {%- set location = lakehouse(layer) ~ '/' ~ target.identifier -%}
    {%- call statement('main') %}
        create or replace table {{ target }}
        using delta
        {%- if partitions %}
        partitioned by ({{ partitions | join(', ') }})
        {%- endif %}
        location {{ text_literal(location) }}
        {%- if needs_column_mapping(columns) %}
        tblproperties ('delta.columnMapping.mode' = 'name')
        {%- endif %}
        comment {{ text_literal(model.description) }}
        as
        {{ sql }}
    {% endcall -%}
{%- endmacro %}


{#-
  Whether a name can't stand in a Parquet file as it is. Only then are columns mapped: readers such as deltalake's
  `to_pyarrow_table` see nothing but NULL in mapped tables.
-#}
{% macro needs_column_mapping(columns) -%}
    {%- set odd = [] -%}
    {%- for column in columns if modules.re.search('[ ,;{}()\n\t=]', column.name) -%}
        {%- do odd.append(column.name) -%}
    {%- endfor -%}
    {{ return(odd | length > 0) }}
{%- endmacro %}


{#- A query's rows held for the rest of a model's run, because they are looked at more than once. -#}
{% macro stage(sql) -%}
    {%- set name = 'staged_' ~ local_md5(model.unique_id ~ invocation_id)[:12] -%}
    {%- do run_query('cache table ' ~ name ~ ' as ' ~ sql) -%}
    {{ return(name) }}
{%- endmacro %}


{% macro unstage(name) -%}
    {%- do run_query('uncache table if exists ' ~ name) -%}
    {%- do run_query('drop view if exists ' ~ name) -%}
{%- endmacro %}


{#- Tell dbt, and through it the progress table, what a model did. -#}
{% macro say(message, batch_id) -%}
    {%- do store_raw_result(name='main', message=message, code=batch_id | string, rows_affected=none) -%}
{%- endmacro %}
