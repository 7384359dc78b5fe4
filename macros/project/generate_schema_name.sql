{#-
  Layers are schemas: bronze, silver, gold, ops, under their own names where the target's schema is `default`. Any other
  schema names an environment and prefixes its layers (`dev_gold`). It has no bronze of its own: it reads the plain one.
-#}
{% macro generate_schema_name(custom_schema_name, node) -%}
    {{ layer_schema(custom_schema_name | trim) if custom_schema_name else target.schema }}
{%- endmacro %}


{#- The schema, and the folder, of a layer. -#}
{% macro layer_schema(layer) -%}
    {{ return(layer if layer == 'bronze' or target.schema == 'default' else target.schema ~ '_' ~ layer) }}
{%- endmacro %}


{#- Stop where a model has another schema than its layer's: its table's folder is the layer's, and is looked for in the schema's. -#}
{% macro only_in_layer(layer) -%}
    {%- if execute and model.resource_type == 'model' and model.schema != layer_schema(layer) -%}
        {{ exceptions.raise_compiler_error(
            model.name ~ ": its schema is '" ~ model.schema ~ "', and tables of its kind are in '" ~ layer_schema(layer)
            ~ "', where checks and readers look for them. Put it under models/" ~ layer ~ ' and leave `schema` out: `alias` gives'
            ~ ' its table another name. A `generate_schema_name` of your own has to give ' ~ layer_schema(layer) ~ '.'
        ) }}
    {%- endif -%}
{%- endmacro %}
