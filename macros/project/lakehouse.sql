{#- The folder or URL of a layer's tables: TIDEMARK_LAKEHOUSE, or `lakehouse`; a relative one starts at the project. -#}
{% macro lakehouse(layer) -%}
    {%- set place = modules.re.sub('/+$', '', env_var('TIDEMARK_LAKEHOUSE', '') or 'lakehouse') -%}
    {%- set is_whole = '://' in place or place.startswith('/') -%}
    {{ place if is_whole else flags.PROJECT_DIR ~ '/' ~ place }}/{{ layer_schema(layer) }}
{%- endmacro %}


{#- Relation: a table of the lakehouse by its location, for tables that the catalog needn't know. -#}
{% macro lakehouse_table(layer, name) -%}
    delta.{{ quoted(lakehouse(layer) ~ '/' ~ name) }}
{%- endmacro %}
