{#- Stop with the nearest known name where an option is not one of those known. -#}
{% macro only_known_options(what, given, known) -%}
    {%- for name in given if name not in known -%}
        {%- set scores = [] -%}
        {%- for candidate in known -%}
            {%- set shared = namespace(count=0) -%}
            {%- for i in range(name | length - 1) if name[i:i + 2] in candidate -%}
                {%- set shared.count = shared.count + 1 -%}
            {%- endfor -%}
            {%- do scores.append([shared.count, candidate]) -%}
        {%- endfor -%}
        {{ exceptions.raise_compiler_error(
            model.name ~ ': ' ~ what ~ " has no option '" ~ name ~ "'. Did you mean '" ~ (scores | sort | last)[1]
            ~ "'? Known: " ~ known | join(', ') ~ '.'
        ) }}
    {%- endfor -%}
{%- endmacro %}


{#- Stop where an option's value is none of those known. -#}
{% macro only_known_values(what, option, value, known) -%}
    {%- if value not in known -%}
        {{ exceptions.raise_compiler_error(
            model.name ~ ': ' ~ what ~ ': ' ~ option ~ " is '" ~ value ~ "'; it takes " ~ known | join(' or ') ~ '.'
        ) }}
    {%- endif -%}
{%- endmacro %}
