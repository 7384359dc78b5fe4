{#-
  Values of documents, which are Extended JSON: text in which a wrapper names what JSON has no type for, in two spellings
  (`{"$date": 0}` and `{"$date": "1970-01-01T00:00:00Z"}`, `{"$binary": "…", "$type": "00"}` and
  `{"$binary": {"base64": "…", "subType": "00"}}`). They become plain text for `decode`, as macros/types/decode.sql has it (R6).

  A field's JSON is as variants write it: no spaces, the fields of a nested document in the order of names.
-#}


{#- Expression: JSON text of an object as a map of field → JSON text; NULL where it is none. -#}
{% macro document_fields(text) -%}
    transform_values(
        try_variant_get(try_parse_json({{ text }}), '$', 'map<string,variant>'), (field, value) -> to_json(value)
    )
{%- endmacro %}


{#- Expression: the text of a document from its fields, in the order of names. -#}
{% macro document_json(fields) -%}
    concat('{', array_join(transform(
        array_sort(map_keys({{ fields }})), field -> concat({{ json_name('field') }}, ':', {{ fields }}[field])
    ), ','), '}')
{%- endmacro %}


{#- Expression: a name as JSON writes it. -#}
{% macro json_name(name) -%}
    regexp_extract(to_json(array({{ name }})), '(?s)^.(.*).$', 1)
{%- endmacro %}


{#- Expression: a struct of plain texts, one field a column, from a document's fields; NULL for columns of the key. -#}
{% macro document_texts(fields, columns, key) -%}
    {% call(spec) struct_by_column(columns) -%}
        {%- if spec.name in key -%} cast(null as string)
        {%- elif spec.field == '$' and spec.type == 'string' -%} {{ document_json(fields) }}
        {%- elif spec.field == '$' -%} {{ plain_value(document_json(fields), spec.type) }}
        {%- else -%} {{ plain_value(fields ~ '[' ~ text_literal(spec.field) ~ ']', spec.type) }}
        {%- endif -%}
    {%- endcall %}
{%- endmacro %}


{#- Expression: an image of the row: the key, and every other column in its type. -#}
{% macro document_row(texts, columns, key, key_row) -%}
    {% call(spec) struct_by_column(columns) -%}
        {%- set name = quoted(spec.name) -%}
        {{ key_row ~ '.' ~ name if spec.name in key else decode(texts ~ '.' ~ name, spec.type) }}
    {%- endcall %}
{%- endmacro %}


{#- Expression: the plain text of a field's JSON, which is JSON where no variant holds it; NULL where it has none, or null. -#}
{% macro plain_value(json, type) -%}
    {{ never_lost(
        'nullif(' ~ json ~ ", 'null')", bound('value', 'try_parse_json(' ~ json ~ ')', plain_variant(type)), {'type': type}
    ) }}
{%- endmacro %}


{#- Expression in `value`, a variant: its plain text. -#}
{% macro plain_variant(type) -%}
    {%- set kind = kind_of(type) -%}
    {%- set text = 'cast(value as string)' -%}
    {%- set decimal = wrapped(['numberDecimal']) -%}
    {%- set number = 'coalesce(' ~ wrapped(['numberLong', 'numberInt', 'numberDouble']) ~ ', ' ~ decimal ~ ')' -%}
    {%- if kind == 'number' -%}
        {%- set digits = any_number_digits if is_floating(type) else number_digits -%}
        {%- set plain = digits('number', none, type) -%}
        {%- if is_floating(type) -%}
            {%- set plain = 'if(' ~ decimal ~ ' is null, ' ~ plain ~ ', ' ~ text_digits('number', none, type) ~ ')' -%}
        {%- endif -%}
        {{ bound('number', 'coalesce(' ~ number ~ ', ' ~ text ~ ')', plain) }}
    {%- elif kind == 'moment' -%}
        case
            when {{ date_of_document() }} rlike '^-?[0-9]+$' then {{ microseconds_of_milliseconds(date_of_document()) }}
            when {{ wrapped(['timestamp']) }} is not null
                then concat(try_variant_get(value, '$["$timestamp"].t', 'string'), '000000')
            else coalesce({{ date_of_document() }}, {{ moment_without_unit(text) }})
        end
    {%- elif kind == 'date' -%}
        {{ bound(
            'date',
            'coalesce(' ~ date_of_document() ~ ', ' ~ text ~ ')',
            'case when ' ~ date_of_document() ~ " rlike '^-?[0-9]+$' then " ~ date_of_milliseconds('date')
            ~ ' when ' ~ date_of_document() ~ ' is not null then ' ~ date_of_iso('date')
            ~ ' when ' ~ is_whole('date') ~ ' then ' ~ marked('date') ~ ' else ' ~ date_at_midnight('date') ~ ' end'
        ) }}
    {%- elif kind == 'binary' -%}
        coalesce(
            {{ binary_of_document() }},
            base64(try_to_binary(replace(coalesce({{ wrapped(['uuid', 'oid']) }}), '-', ''), 'hex')),
            {{ marked(text) }}
        )
    {%- elif kind == 'text' -%}
        coalesce(
            {{ wrapped(['oid', 'uuid', 'symbol']) }},
            {{ number }},
            {{ iso_of_document() }},
            {{ binary_of_document() }},
            {{ text }}
        )
    {%- elif is_array(type) -%}
        coalesce(
            to_json(transform(
                try_variant_get(value, '$', 'array<variant>'),
                value -> {{ plain_variant(item_type(type)) }}
            )),
            {{ marked(text) }}
        )
    {%- elif is_nested(type) -%}
        {{ plain_members(type, plain_variant) }}
    {%- else -%}
        {{ text }}
    {%- endif -%}
{%- endmacro %}


{#- Expression list: what wrappers of those names hold in `value`, as text. -#}
{% macro wrapped(names) -%}
    {%- for name in names -%}
        try_variant_get(value, '$["${{ name }}"]', 'string'){{ ', ' if not loop.last }}
    {%- endfor -%}
{%- endmacro %}


{#- Expression: what `$binary` holds in `value`, base64. -#}
{% macro binary_of_document() -%}
    coalesce(try_variant_get(value, '$["$binary"].base64', 'string'), {{ wrapped(['binary']) }})
{%- endmacro %}


{#- Expression: what `$date` holds in `value`: milliseconds since 1970, or ISO 8601. -#}
{% macro date_of_document() -%}
    coalesce(try_variant_get(value, '$["$date"]["$numberLong"]', 'string'), {{ wrapped(['date']) }})
{%- endmacro %}


{% macro iso_of_document() -%}
    {{ bound(
        'date',
        date_of_document(),
        "if(date like '%Z', concat(" ~ time_of_iso('date') ~ ", 'Z'), coalesce(concat("
        ~ iso_of_microseconds(thousandfold('date')) ~ ", 'Z'), date))"
    ) }}
{%- endmacro %}
