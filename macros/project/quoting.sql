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


{#- Expression list: columns by their names, each behind `of`. -#}
{% macro names_of(columns, of='') -%}
    {%- for column in columns %}{{ of }}{{ quoted(column.name) }}{{ ', ' if not loop.last }}{% endfor -%}
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


{#- Expression: one that reads another several times by a name, so that it is spelled and computed once. -#}
{% macro bound(name, value, expression) -%}
    transform(array({{ value }}), {{ name }} -> {{ expression }})[0]
{%- endmacro %}


{#-
  A name as Spark compares it, which is letter by letter: those are one that are alike in upper case (`ı` and `i`) or in
  lower (`İ` and `i`, `ẞ` and `ß`). What is several letters in upper case (`SS`) is none.
-#}
{% macro folded(name) -%}
    {#- Nearly all names, sooner. -#}
    {%- if name.isascii() -%}{{ return(name | lower) }}{%- endif -%}
    {%- set letters = [] -%}
    {%- for letter in name | replace('\u0130', 'i') -%}
        {%- set capital = letter.upper() if letter.upper() | length == 1 else letter.title() if letter.title() | length == 1 else letter -%}
        {%- do letters.append(capital.lower() if capital.lower() | length == 1 else capital) -%}
    {%- endfor -%}
    {{ return(letters | join) }}
{%- endmacro %}


{#- Names as Spark compares them. -#}
{% macro folded_names(names) -%}
    {%- set names = names | list -%}
    {%- if (names | join).isascii() -%}{{ return(names | map('lower') | list) }}{%- endif -%}
    {%- set as_compared = [] -%}
    {%- for name in names -%}{%- do as_compared.append(folded(name)) -%}{%- endfor -%}
    {{ return(as_compared) }}
{%- endmacro %}
