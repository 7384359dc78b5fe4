{#- Expression: an identifier, whatever is in it. The one helper through which names from events reach SQL. -#}
{% macro quoted(identifier) -%}
    `{{ identifier | replace('`', '``') }}`
{%- endmacro %}


{#- Expression: a text literal, whatever is in it. -#}
{% macro text_literal(value) -%}
    '{{ value | string | replace('\\', '\\\\') | replace("'", "\\'") }}'
{%- endmacro %}


{#- Expression: an array of text literals. -#}
{% macro text_array(values) -%}
    {%- if values -%}
        array({% for value in values %}{{ text_literal(value) }}{{ ', ' if not loop.last }}{% endfor %})
    {%- else -%}
        cast(array() as array<string>)
    {%- endif -%}
{%- endmacro %}


{#- Expression list: the columns of a key, quoted. -#}
{% macro key_columns(key) -%}
    {% for column in key %}{{ quoted(column) }}{{ ', ' if not loop.last }}{% endfor %}
{%- endmacro %}
