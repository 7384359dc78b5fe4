{#-
  Before a run: give the catalog what the locations hold, so that a new or lost catalog needs no repair.
  Every statement here is skipped where the catalog has the table already.
-#}
{% macro tidemark_start() -%}
    {%- if execute and flags.WHICH in ('run', 'build', 'test', 'source', 'freshness', 'retry', 'compile', 'show', 'generate') -%}
        {%- for schema in ['bronze', 'silver', 'gold', 'ops'] -%}
            {%- do run_query('create schema if not exists ' ~ schema) -%}
        {%- endfor -%}
        {%- do run_query(
            'create table if not exists bronze.records using delta location '
            ~ text_literal(lakehouse('bronze') ~ '/records')
        ) -%}
        {%- do run_query(
            'create table if not exists ' ~ progress_table()
            ~ " (model string comment 'Unique id of the dbt model',"
            ~ " batch_id bigint comment 'The last landing it holds',"
            ~ " state string comment 'What its next run compares with, as JSON', run_id string, recorded_at timestamp)"
            ~ ' using delta'
        ) -%}
    {%- endif -%}
{%- endmacro %}
