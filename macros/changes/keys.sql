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


{#- The type that a record's key, or one that a header names, is read with: with the schema beside it, or without. -#}
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
        {{ struct_of_columns(columns | selectattr('name', 'in', key) | map(attribute='field') | list, parsed) }}
    {%- else -%}
        cast(null as string)
    {%- endif -%}
{%- endmacro %}


{#- Expression: the names of a key's fields, as `key_row` has them. -#}
{% macro key_names(text) -%}
    coalesce(map_keys({{ read_json(text, 'struct<payload: map<string, string>>') }}.payload), json_object_keys({{ text }}))
{%- endmacro %}


{#-
  Expression: the key, from the record's key and, where that lacks a column, from the row: from `after`, NULL included, and
  where that has it not, from a `before` that can be believed (`tells_key`).
-#}
{% macro key_struct(columns, key, tells_key) -%}
    if(op = 't', null, {% call(spec) struct_by_column(columns | selectattr('name', 'in', key or []) | list) -%}
        {{ of_key('coalesce(key_typed.' ~ quoted(spec.name) ~ ', ' ~ of_row('typed', spec, tells_key) ~ ')', spec.type) }}
    {%- endcall %})
{%- endmacro %}


{#- Expression: a value as a key has it. `0.0` and `-0.0` are one number, and would be two texts. -#}
{% macro of_key(value, type) -%}
    {{ value }}{{ ' + cast(0 as ' ~ type ~ ')' if type in ('float', 'double') }}
{%- endmacro %}


{#-
  Condition: whether a key's columns in `before` are the source's (R19). Where it is not the whole row, its columns beside
  the record's own key are NULL or invented (PostgreSQL, REPLICA IDENTITY DEFAULT).
-#}
{% macro tells_key(is_whole) -%}
    ({{ is_whole }} or is_named_by_before)
{%- endmacro %}


{#-
  Condition: whether nothing but `before` says of which columns the record's key is: it has none, or one plain value
  (ExtractField), which `before` has in the only column of the declared key.
-#}
{% macro is_named_by_before(columns, key) -%}
    (
        record_key is null
        {%- for spec in columns if spec.name in key and key | length == 1 %}
        {%- set form = row_form(columns) %}
        or coalesce({{ field_text(field_of('envelope.before', spec, form), spec, form) }} in (
            record_key, get_json_object(record_key, '$'), get_json_object(record_key, '$.payload')
        ), false)
        {%- endfor %}
    )
{%- endmacro %}


{#- Expression: what a row says of a column of the key, in its images as `text` or `typed`. -#}
{% macro of_row(form, spec, tells_key) -%}
    case
        when {{ is_in_after(spec) }} then after_{{ form }}.{{ quoted(spec.name) }}
        when {{ tells_key }}{{ ' and not array_contains(unavailable_before, ' ~ text_literal(spec.name) ~ ')' if can_be_left_out(spec) }}
            then before_{{ form }}.{{ quoted(spec.name) }}
    end
{%- endmacro %}


{#- Condition: whether `after` has a value for a column, be it NULL. -#}
{% macro is_in_after(spec) -%}
    has_after and not array_contains(unavailable_columns, {{ text_literal(spec.name) }})
    {{- ' and not array_contains(absent_columns, ' ~ text_literal(spec.name) ~ ')' if not spec.is_always_there }}
{%- endmacro %}


{#-
  Condition: whether neither the record's own key nor its row tells a value of any column of the declared key (R8), or of one
  where the record's has a placeholder (R7).
-#}
{% macro is_key_missing(columns, key, tells_key) -%}
    {%- set missing = [] -%}
    {%- for spec in columns if spec.name in key -%}
        {%- do missing.append(
            'key_text.' ~ quoted(spec.name) ~ ' is null and ' ~ of_row('text', spec, tells_key) ~ ' is null'
        ) -%}
    {%- endfor -%}
    op != 't' and (
        {{ missing | join(' and ') }}
        {%- if missing | length > 1 %}
        or size(unavailable_key) > 0 and ({{ missing | join(' or ') }})
        {%- endif %}
    )
{%- endmacro %}


{#- Condition: whether a column of the key has a text that its type can't hold, in the record's key or else in the row. -#}
{% macro is_key_undecoded(spec, documents, tells_key) -%}
    {{ is_undecoded('key_text', 'key_typed', spec) }}
    {%- if not documents %}
    or key_text.{{ quoted(spec.name) }} is null and case
        when {{ is_in_after(spec) }} then {{ is_undecoded('after_text', 'after_typed', spec) }}
        when {{ tells_key }} then {{ is_undecoded('before_text', 'before_typed', spec) }}
        else false
    end
    {%- endif -%}
{%- endmacro %}


{#-
  Condition: whether a change has no key of its own, and a `before` with all of the declared one. A source that logs some
  columns alone leaves others NULL there, which `after` has.
-#}
{% macro is_in_before_alone(columns, key) -%}
    (
        is_unkeyed and has_before and size(unavailable_before) = 0
        {%- for spec in columns if spec.name in key %}
        and (before_typed.{{ quoted(spec.name) }} is not null or after_typed.{{ quoted(spec.name) }} is null)
        {%- endfor %}
    )
{%- endmacro %}


{#-
  Expression: the key that `before` names, as JSON text, where it can be believed and is another than the change's: a
  change of key written as one `u` (R14). An update of a table without a key brings a `before` from REPLICA IDENTITY FULL
  or its like alone: nothing else would say which row it is about. Rows tell no key where `after` has another than the
  record: connectors mask and cut columns of rows, and not those of keys. A row that had no value in the key was no one's.
-#}
{% macro key_before(is_whole, columns, key) -%}
    {%- set before = key_left(columns, key, 'before_typed', 'key_typed') -%}
    if(
        op = 'u' and ({{ is_whole }} or {{ is_in_before_alone(columns, key) }})
            and {{ has_key_left(columns, key, 'before_typed', 'key_typed') }}
            and not {{ before }} <=> {{ key_struct(columns, key, tells_key(is_whole)) }}
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
  Expression: the key that a row had by `before`, of a change that the record's key is beside.

  Args are expressions: the image before the change, and the key that tells the columns that rows leave out.
-#}
{% macro key_left(columns, key, before, of_record) -%}
    {% call(spec) struct_by_column(columns | selectattr('name', 'in', key) | list) -%}
        {{ value_left(spec, before, of_record) }}
    {%- endcall %}
{%- endmacro %}


{#- Condition: whether that key has a value. -#}
{% macro has_key_left(columns, key, before, of_record) -%}
    (
        {%- for spec in columns if spec.name in key -%}
            {{ ' or ' if not loop.first }}{{ value_left(spec, before, of_record) }} is not null
        {%- endfor -%}
    )
{%- endmacro %}


{#- Expression: a column of it. -#}
{% macro value_left(spec, before, of_record) -%}
    {%- set column = quoted(spec.name) -%}
    {%- set told -%}
    {%- if spec.get('is_always_there') -%}
        {{ before }}.{{ column }}
    {%- else -%}
        if(
            array_contains(absent_columns, {{ text_literal(spec.name) }}),
            {{ of_record }}.{{ column }}, {{ before }}.{{ column }}
        )
    {%- endif -%}
    {%- endset -%}
    {{ of_key(told, spec.type) }}
{%- endmacro %}


{#-
  Expression: the key that a header names, as a row; NULL where there is no header, or where it lacks a declared column that
  isn't the record's own: then it links to no key (R14).
-#}
{% macro linked_row(text, columns, key) -%}
    {%- set columns_of_key = columns | selectattr('name', 'in', key) | list -%}
    {%- set fields = columns_of_key | map(attribute='field') | list -%}
    {%- set of_record = columns_of_key | rejectattr('encodings') | map(attribute='field') | list -%}
    {%- set told = key_names(text) -%}
    {%- if of_record -%}
        {%- set own = 'array_intersect(' ~ key_names('record_key') ~ ', ' ~ text_array(of_record) ~ ')' -%}
        {%- set told = 'concat(' ~ told ~ ', coalesce(' ~ own ~ ', array()))' -%}
    {%- endif -%}
    if(
        size(array_except({{ text_array(fields) }}, {{ told }})) = 0,
        {{ bound('parsed', read_row(text, key_ddl(columns, key), columns), key_row('parsed', text, columns, key)) }},
        null
    )
{%- endmacro %}


{#-
  Expression: such a key with the columns' types. What no row has, and the header has not, a transform has put into the key
  (a router of topics its mark of the table), and the record's own key tells it.
-#}
{% macro linked_struct(link, columns, key) -%}
    {% call(spec) struct_by_column(columns | selectattr('name', 'in', key) | list) -%}
        {%- set text = link ~ '_texts.' ~ quoted(spec.name) -%}
        {%- set told = text if spec.encodings else 'coalesce(' ~ text ~ ', key_text.' ~ quoted(spec.name) ~ ')' -%}
        {{ of_key(decode(told, spec.type), spec.type) }}
    {%- endcall %}
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


{#- Expression: the key that a row has, as the log has it: its columns in the table's order. -#}
{% macro key_of(table, row=none) -%}
    {{ struct_of_columns(table.columns | map(attribute='name') | select('in', table.key) | list, row) }}
{%- endmacro %}


{#- Expression: a key as JSON text, the form in which rows name the keys of other rows. -#}
{% macro key_text(key) -%}
    {{ exact_json(key) }}
{%- endmacro %}
