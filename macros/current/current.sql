{#-
  The current state of one captured table: one row per living key, the open versions of its history.

  Args:
      history: the name of the table's history model
-#}
{% macro current(history) -%}
    {%- do check_options('current', dict(kwargs, history=history)) -%}
    {%- do config(meta={'tidemark': {'history': history}}) -%}
    {%- set versions = read(history) -%}
    {%- if execute -%}
        {%- set declared = history_declaration(history) -%}
        {%- set names = declared.column_names -%}
        {%- set table = as_history_has_it(history, declaration_of(declared.changes)) -%}
        {%- set scope = history_scope('silver', relation_of(declared.changes), table, declared, history=history) -%}
{{ decision(dict(scope, history=versions | string)) }}
select
    {%- for spec in table.columns %}
    {{ quoted(spec.name) }},
    {%- endfor %}
    {%- for name in current_columns() %}
    {{ own(name, names) }}{{ ',' if not loop.last }}
    {%- endfor %}
from {{ versions }} as stored
where {{ own('is_current', names) }}{{ ' and false' if scope.case == 'nothing' }}
    {%- endif -%}
{%- endmacro %}


{#- A table with the columns that its history has: what is new of the log, or of another type, comes with a run of both (R8). -#}
{% macro as_history_has_it(history, table) -%}
    {%- set built = last_build(model_node(history).unique_id).get('columns') if is_building() else none -%}
    {{ return(dict(table, columns=as_built(table.columns, built)) if built else table) }}
{%- endmacro %}


{#- The own columns of a current state: when the row's state began, and the change it is from. -#}
{% macro current_columns() -%}
    {{ return([
        'valid_from', 'unresolved_columns', 'exact_values', 'position', 'transaction_id', 'topic', 'partition', 'offset',
        'version_id'
    ]) }}
{%- endmacro %}


{#- What the history model that this model is, or is built from, declared. -#}
{% macro history_declaration(history) -%}
    {{ return(model_node(history).config.meta.tidemark) }}
{%- endmacro %}
