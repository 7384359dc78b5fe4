{#- The folder or URL of a layer's tables. -#}
{% macro lakehouse(layer) -%}
    {{ lakehouse_folder() }}/{{ layer_schema(layer) }}
{%- endmacro %}


{#- That of all layers: TIDEMARK_LAKEHOUSE, or `lakehouse`; a relative one starts at the project. -#}
{% macro lakehouse_folder() -%}
    {%- set at = namespace(place=modules.re.sub('/+$', '', env_var('TIDEMARK_LAKEHOUSE', '') or 'lakehouse')) -%}
    {%- if '://' not in at.place -%}
        {%- if not at.place.startswith('/') -%}
            {#- Of what dbt tells a macro this alone says where the project is, as it was typed. -#}
            {%- set at.place = invocation_args_dict.project_dir ~ '/' ~ at.place -%}
        {%- endif -%}
        {%- if not at.place.startswith('/') -%}{%- set at.place = env_var('PWD') ~ '/' ~ at.place -%}{%- endif -%}
        {%- set at.place = plain_path(at.place) -%}
    {%- endif -%}
    {{ return(at.place) }}
{%- endmacro %}


{#- A path that begins with `/`, without `.` and `..`, as catalogs spell it. -#}
{% macro plain_path(path) -%}
    {%- set parts = [] -%}
    {%- for part in path.split('/') if part not in ['', '.'] -%}
        {%- if part == '..' -%}{%- do parts.pop() -%}{%- else -%}{%- do parts.append(part) -%}{%- endif -%}
    {%- endfor -%}
    {{ return('/' ~ parts | join('/')) }}
{%- endmacro %}


{#- Where a table of a layer is. -#}
{% macro location_of(layer, name) -%}
    {{ lakehouse(layer) }}/{{ name }}
{%- endmacro %}


{#- Relation: a table of the lakehouse by its location, for tables that the catalog needn't know. -#}
{% macro lakehouse_table(layer, name) -%}
    delta.{{ quoted(location_of(layer, name)) }}
{%- endmacro %}


{#- Statement: give the catalog a table of the lakehouse, unless it has it. -#}
{% macro make_known(relation, layer, name) -%}
    create table if not exists {{ relation }} using delta location {{ text_literal(location_of(layer, name)) }}
{%- endmacro %}
