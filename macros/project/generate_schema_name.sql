{#-
  Layers are schemas: bronze, silver, gold, ops, under their own names where the target's schema is `default`. Any other
  is the name of an environment, and stands before its layers (`dev_gold`); bronze it has none, but reads the first one's.
-#}
{% macro generate_schema_name(custom_schema_name, node) -%}
    {{ layer_schema(custom_schema_name | trim) if custom_schema_name else target.schema }}
{%- endmacro %}


{#- The schema, and the folder, of a layer. -#}
{% macro layer_schema(layer) -%}
    {{ return(layer if layer == 'bronze' or target.schema == 'default' else target.schema ~ '_' ~ layer) }}
{%- endmacro %}
