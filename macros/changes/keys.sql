{#- Keys: how a record tells its own, and those that it is linked to (R8, R14). -#}


{#- Stop where a key is declared of what is no column of the table, of one twice, or of one that has no order. -#}
{% macro check_key(key, columns) -%}
    {%- do check_columns('key', key, columns | map(attribute='name') | list) -%}
    {%- if key | unique(case_sensitive=true) | list | length < key | length -%}
        {{ exceptions.raise_compiler_error(model.name ~ ': key names a column twice: ' ~ key | join(', ') ~ '.') }}
    {%- endif -%}
    {%- for spec in columns if spec.name in key and ('map<' in spec.type or 'variant' in spec.type) -%}
        {{ exceptions.raise_compiler_error(
            model.name ~ ': key: ' ~ spec.name ~ ' is ' ~ spec.type ~ ', of which Spark compares no two. Declare it as string,'
            ~ ' or another key.'
        ) }}
    {%- endfor -%}
{%- endmacro %}


{% macro key_ddl(columns, key) -%}
    {%- if is_case_sensitive(columns) -%}
        struct<payload: map<string, variant>>
    {%- elif key -%}
        {%- set row = row_ddl(columns, key) -%}
        struct<payload: {{ row }}{{ ', ' ~ row[7:-1] if not has_payload(columns, key) }}>
    {%- else -%}
        struct<payload: string>
    {%- endif -%}
{%- endmacro %}


{#- Whether a column of the key is named as what a schema stands beside: a key without one is then that of the row. -#}
{% macro has_payload(columns, key) -%}
    {%- for spec in columns if spec.name in key and folded(spec.field) == 'payload' -%}{{ return(true) }}{%- endfor -%}
    {{ return(false) }}
{%- endmacro %}


{#-
  Expression: the row that a key is, the record's own or one that a header names: without the schema that JsonConverter puts
  beside an object.

  Args:
      parsed: an expression of it, read as `key_ddl` says
      text: the same as text
-#}
{% macro key_row(parsed, text, columns, key) -%}
    if({{ parsed }}.payload is null, {{ struct_of(parsed, text, columns, key) }}, {{ parsed }}.payload)
{%- endmacro %}


{#- Expression: a key without a schema beside it. -#}
{% macro struct_of(parsed, text, columns, key) -%}
    {%- if is_case_sensitive(columns) or has_payload(columns, key) -%}
        {#- No type has both a payload and all names that there can be: it is read again. -#}
        {{ read_row(text, row_ddl(columns, key), columns) }}
    {%- elif key -%}
        named_struct(
            {%- for spec in columns if spec.name in key -%}
                {{ text_literal(spec.field) }}, {{ parsed }}.{{ quoted(spec.field) }}{{ ', ' if not loop.last }}
            {%- endfor -%}
        )
    {%- else -%}
        cast(null as string)
    {%- endif -%}
{%- endmacro %}


{#- Expression: the names of a key's fields, as `key_row` has them. -#}
{% macro key_names(text) -%}
    coalesce(map_keys({{ read_json(text, 'struct<payload: map<string, string>>') }}.payload), json_object_keys({{ text }}))
{%- endmacro %}


{#-
  Expression: the key, from the record's key and, where that lacks a column, from the row: from `after`, NULL included, and from
  `before` where that has it not.
-#}
{% macro key_struct(columns, key) -%}
    {%- if key -%}
    if(op = 't', null, named_struct(
        {%- for spec in columns if spec.name in key %}
            {{ text_literal(spec.name) }}, coalesce(
                key_typed.{{ quoted(spec.name) }},
                if({{ is_told_by_after(spec) }}, after_typed.{{ quoted(spec.name) }}, before_typed.{{ quoted(spec.name) }})
            )
            {{- ',' if not loop.last }}
        {%- endfor %}
        ))
    {%- else -%}
    cast(null as struct<none: string>)
    {%- endif -%}
{%- endmacro %}


{#- Condition: whether `after` has a value for a column, be it NULL. -#}
{% macro is_told_by_after(spec) -%}
    has_after and not array_contains(unavailable_columns, {{ text_literal(spec.name) }})
    {{- ' and not array_contains(absent_columns, ' ~ text_literal(spec.name) ~ ')' if not spec.is_always_there }}
{%- endmacro %}


{#-
  Condition: whether nothing tells a column of the declared key: the record's own key has other fields alone, and its row
  has none of them (R8). A column that is there and NULL is told.
-#}
{% macro is_key_untold(columns, key) -%}
    {%- set fields = columns | selectattr('name', 'in', key) | map(attribute='field') | list -%}
    op != 't'
    {%- for name in key %}
    and key_text.{{ quoted(name) }} is null
    {%- endfor %}
    and (not has_after and not has_before or size(array_except({{ text_array(key) }}, absent_columns)) = 0)
    and not coalesce(arrays_overlap({{ key_names('record_key') }}, {{ text_array(fields) }}), false)
{%- endmacro %}


{#- Condition: whether a column of the key has a text that its type can't hold, in the record's key or else in the row. -#}
{% macro is_key_undecoded(spec, documents) -%}
    {{ is_undecoded('key_text', 'key_typed', spec) }}
    {%- if not documents %}
    or key_text.{{ quoted(spec.name) }} is null and if(
        {{ is_told_by_after(spec) }},
        {{ is_undecoded('after_text', 'after_typed', spec) }},
        {{ is_undecoded('before_text', 'before_typed', spec) }}
    )
    {%- endif -%}
{%- endmacro %}


{#-
  Expression: the key that `before` names, as JSON text, where it is the whole row and another key than the change's: a
  change of key written as one `u` (R14). Of a column that its rows leave out only the record's key tells; and rows tell
  no key where `after` has another than the record: connectors mask and cut columns of rows, and not those of keys.
-#}
{% macro key_before(is_whole, columns, key) -%}
    {%- set before -%}
        named_struct(
            {%- for spec in columns if spec.name in key -%}
                {{ text_literal(spec.name) }},
                {%- if spec.is_always_there %} before_typed.{{ quoted(spec.name) }}
                {%- else %} if(
                    array_contains(absent_columns, {{ text_literal(spec.name) }}),
                    key_typed.{{ quoted(spec.name) }}, before_typed.{{ quoted(spec.name) }}
                )
                {%- endif %}
                {{- ', ' if not loop.last }}
            {%- endfor -%}
        )
    {%- endset -%}
    if(
        op = 'u' and {{ is_whole }} and not {{ before }} <=> {{ key_struct(columns, key) }}
        {%- for spec in columns if spec.name in key %}
            {%- set of_record = 'key_typed.' ~ quoted(spec.name) %}
            and ({{ of_record }} is null or {{ of_record }} <=> after_typed.{{ quoted(spec.name) }}
            {{- ' or array_contains(absent_columns, ' ~ text_literal(spec.name) ~ ')' if not spec.is_always_there }})
        {%- endfor %},
        {{ key_text(before) }},
        null
    )
{%- endmacro %}


{#-
  Expression: the key that a header names, as a row; NULL where there is no header, or where it lacks a declared column:
  then it links to no key (R14).
-#}
{% macro linked_row(text, columns, key) -%}
    {%- set fields = columns | selectattr('name', 'in', key) | map(attribute='field') | list -%}
    if(
        size(array_except({{ text_array(fields) }}, {{ key_names(text) }})) = 0,
        {{ bound('parsed', read_row(text, key_ddl(columns, key), columns), key_row('parsed', text, columns, key)) }},
        null
    )
{%- endmacro %}


{#- Expression: such a key as JSON text; NULL where a column of it can't be decoded: that names no row. -#}
{% macro linked_key(link, columns, key) -%}
    if(
        {% for spec in columns if spec.name in key -%}
            {{ 'or ' if not loop.first }}{{ is_undecoded(link ~ '_texts', link ~ '_typed', spec) }}
        {% endfor -%},
        null, {{ key_text(link ~ '_typed') }}
    )
{%- endmacro %}


{#- Expression: a key as JSON text, the form in which rows name the keys of other rows. -#}
{% macro key_text(key) -%}
    {{ exact_json(key) }}
{%- endmacro %}
