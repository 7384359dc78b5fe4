{#- Layers are schemas: bronze, silver, gold, ops, under their own names and not behind the target's. -#}
{% macro generate_schema_name(custom_schema_name, node) -%}
    {{ (custom_schema_name or target.schema) | trim }}
{%- endmacro %}
