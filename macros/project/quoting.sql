{#- Expression: an identifier, whatever is in it. The one helper through which names from events reach SQL. -#}
{% macro quoted(identifier) -%}
    `{{ identifier | replace('`', '``') }}`
{%- endmacro %}


{#- Expression: a text literal, whatever is in it. -#}
{% macro text_literal(value) -%}
    '{{ value | string | replace('\\', '\\\\') | replace("'", "\\'") }}'
{%- endmacro %}


{#- Expression list: text literals. -#}
{% macro text_list(values) -%}
    {% for value in values %}{{ text_literal(value) }}{{ ', ' if not loop.last }}{% endfor %}
{%- endmacro %}


{#- Query: a list as rows of one column. It comes as one text: Spark takes seconds to read hundreds of literals. -#}
{% macro list_as_rows(list, name, type) -%}
    select explode(from_json({{ text_literal(tojson(list)) }}, {{ text_literal(type) }})) as {{ name }}
{%- endmacro %}


{#- Expression: an array of text literals. -#}
{% macro text_array(values) -%}
    {%- if values -%}
        array({{ text_list(values) }})
    {%- else -%}
        cast(array() as array<string>)
    {%- endif -%}
{%- endmacro %}


{#- Expression: columns as one struct: beside it a query may have names of its own, whatever those are called. -#}
{% macro struct_of_columns(columns, relation=none) -%}
    named_struct(
        {%- for column in columns -%}
            {{ text_literal(column) }}, {{ relation ~ '.' if relation }}{{ quoted(column) }}{{ ', ' if not loop.last }}
        {%- endfor -%}
    )
{%- endmacro %}


{#-
  Expression: a struct with a field for each column, whose value the block of a call writes:
  `{% call(spec) struct_by_column(columns) %}row.{{ quoted(spec.name) }}{% endcall %}`. Of no columns it is NULL, of a type that
  no table can hold.
-#}
{% macro struct_by_column(columns) -%}
    {%- if columns -%}
    named_struct(
        {%- for spec in columns %}
        {{ text_literal(spec.name) }}, {{ caller(spec) }}{{ ',' if not loop.last }}
        {%- endfor %}
    )
    {%- else -%}
    cast(null as struct<none: string>)
    {%- endif -%}
{%- endmacro %}


{#- Expression: a value as JSON text that says all of it: what is NULL, and times to the microsecond. -#}
{% macro exact_json(value) -%}
    to_json({{ value }}, map(
        'ignoreNullFields', 'false',
        'timestampFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
        'timestampNTZFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
    ))
{%- endmacro %}
