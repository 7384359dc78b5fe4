{#- The folder or URL of a layer's tables: TIDEMARK_LAKEHOUSE, or `lakehouse/` in the project. -#}
{% macro lakehouse(layer) -%}
    {{ env_var('TIDEMARK_LAKEHOUSE', flags.PROJECT_DIR ~ '/lakehouse') }}/{{ layer_schema(layer) }}
{%- endmacro %}


{#- Relation: a table of the lakehouse by its location, for tables that the catalog needn't know. -#}
{% macro lakehouse_table(layer, name) -%}
    delta.{{ quoted(lakehouse(layer) ~ '/' ~ name) }}
{%- endmacro %}
