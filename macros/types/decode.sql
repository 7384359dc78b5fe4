{#-
  Decoding is in two steps, so that a long expression is spelled once: `plain_text` brings a value out of its encoding
  into plain text, `decode` casts plain text to the Spark type, or to NULL where the type can't hold it: `exact_texts`
  are what the caller keeps then. Nothing is rounded. Owns R6.

  Plain text is by kind of type: of a number its digits, of a moment its microseconds since 1970 or ISO 8601, of a date
  its days since 1970 or ISO 8601, of binary base64, of an array JSON with texts. One value has one plain text in every
  mode of a connector, so a mode that changes in the middle of a topic makes no version (R12). What no type may take,
  though a cast would, is `marked`.
-#}

{#-
  Expression: the plain text of a value. Only what the column's records came in is spelled.

  Args:
      text, json: expressions of the value; `json` is read where the column `has_decimals`
      encoding: expression of the record's encoding, '' without a schema; read where the column has several
      spec: the column, with `encodings`, those that its records came in
-#}
{% macro plain_text(text, json, encoding, spec) -%}
    {%- set encodings_of = {} -%}
    {%- set met = spec.encodings or [''] -%}
    {#- No shape tells of a delete without a schema. -#}
    {%- for seen in (met if has_one_encoding(spec) else met + ['']) | unique(case_sensitive=true) | sort(reverse=true) -%}
        {%- set plain = never_lost(text, plain_of(text, json, seen, spec), spec) -%}
        {%- do encodings_of.setdefault(plain, []).append(text_literal(seen)) -%}
    {%- endfor -%}
    {%- if encodings_of | length == 1 -%}
        {{ encodings_of.keys() | first }}
    {%- else -%}
    case
        {%- for plain, encodings in encodings_of.items() %}
        {{ 'else' if loop.last else 'when ' ~ encoding ~ ' in (' ~ encodings | join(', ') ~ ') then' }} {{ plain }}
        {%- endfor %}
    end
    {%- endif -%}
{%- endmacro %}


{#- Expression: a value's plain text, or what it is told as where it is none of its encoding: no type takes that then. -#}
{% macro never_lost(text, plain, spec) -%}
    {%- if plain == text -%}
        {{ text }}
    {%- else -%}
        coalesce({{ plain }}, {{ text if kind_of(spec.type) == 'text' else marked(text) }})
    {%- endif -%}
{%- endmacro %}


{% macro plain_of(text, json, seen, spec) -%}
    {%- set kind = kind_of(spec.type) -%}
    {%- set encoding = effective_encoding(seen, spec) -%}
    {%- set value = whole_json(text) if encoding == 'io.debezium.data.Json' or is_undescribed(encoding, none) else text -%}
    {%- if has_maps(spec) and encoding in ('map', 'io.debezium.data.Json') -%}
        {{ sorted_map(text) }}
    {%- elif kind == 'text' and encoding.startswith('array:') -%}
        {{ plain_array(text, encoding, 'string') }}
    {%- elif kind -%}
        {%- set plain = reading(kind, encoding)(json if is_decimal(encoding) else text, encoding, spec.type) -%}
        {%- set is_its =
            is_whole(text) if kind in ('text', 'moment', 'date') and counts_time(encoding)
            else "startswith(" ~ text ~ ", '{')" if encoding == 'io.debezium.data.VariableScaleDecimal' -%}
        {%- if encoding != seen and is_its -%}
            if({{ is_its }}, {{ plain }}, {{ reading(kind, seen)(text, seen, spec.type) }})
        {%- else -%}
            {{ plain }}
        {%- endif -%}
    {%- elif is_array(spec.type) -%}
        {{ plain_array(value, seen, item_type(spec.type), spec.encoding) }}
    {%- elif is_nested(spec.type) -%}
        {{ plain_nested(value, spec.type, plain_described if is_struct(encoding) else plain_undescribed) }}
    {%- else -%}
        {{ text if spec.type == 'boolean' else value }}
    {%- endif -%}
{%- endmacro %}


{#- Expression: plain text as a value of the Spark type, NULL where the type can't hold it. -#}
{% macro decode(text, type) -%}
    {%- if type == 'string' -%}
        {{ text }}
    {%- elif type == 'boolean' -%}
        try_cast({{ text }} as boolean)
    {%- elif is_integral(type) -%}
        {#- A cast would round 1.5: only digits, and zeros behind them, are a whole number. A double of eight digits or more has
            an exponent, and is every whole number up to 2^53. -#}
        case
            when {{ text }} rlike '^[-+]?[0-9]+$' then try_cast({{ text }} as {{ type }})
            when {{ text }} rlike '^[-+]?[0-9]+[.]0*$' then try_cast(split_part({{ text }}, '.', 1) as {{ type }})
            when {{ text }} rlike '^-?[0-9][.][0-9]{1,16}E[0-9]{1,2}$' and abs(try_cast({{ text }} as double)) < 9007199254740992
                and try_cast({{ text }} as decimal(38, 18)) % 1 = 0
                then try_cast(try_cast({{ text }} as decimal(38, 18)) as {{ type }})
        end
    {%- elif is_floating(type) -%}
        {#- A number that the type has no room for would be cast to infinity. -#}
        case
            when {{ text }} rlike '^[-+.0-9eE]+$' and abs(try_cast({{ text }} as {{ type }})) < cast('Infinity' as {{ type }})
                or {{ text }} rlike '^[-+]?(Infinity|NaN)$'
                then try_cast({{ text }} as {{ type }})
        end
    {%- elif type.startswith('decimal') -%}
        {{ decode_decimal(text, type) }}
    {%- elif type == 'date' -%}
        {{ decode_date(text) }}
    {%- elif type in ('timestamp', 'timestamp_ntz') -%}
        {{ decode_timestamp(text, type) }}
    {%- elif type == 'binary' -%}
        try_to_binary({{ text }}, 'base64')
    {%- elif is_array(type) -%}
        {{ decode_array(text, item_type(type)) }}
    {%- elif is_nested(type) -%}
        {{ decode_nested(text, type) }}
    {%- endif -%}
{%- endmacro %}


{#-
  Expression: a map of column → plain text, with texts as people read them: moments and dates of any year in ISO 8601,
  others as they stand.
-#}
{% macro exact_texts(plain_texts, columns) -%}
    {%- set names = {} -%}
    {%- for spec in columns -%}
        {%- do names.setdefault(kind_of(spec.type), []).append(spec.name) -%}
    {%- endfor -%}
    {%- set days = 'array_contains(' ~ text_array(names.get('date')) ~ ', name)' -%}
    {%- set moments = 'array_contains(' ~ text_array(names.get('moment')) ~ ', name)' -%}
    transform_values({{ plain_texts }}, (name, text) -> case
        when {{ moments }} and {{ is_whole('text') }} then {{ iso_of_microseconds('text') }}
        when {{ days }} and {{ is_whole('text') }} then {{ iso_of_days('text') }}
        else {{ unmarked('text') }}
    end)
{%- endmacro %}


{#-
  Expression: text that no type takes, behind a mark; and the text that it was. Of an array, a map or a struct, which is
  JSON then, each value can be marked. Elsewhere in a text the letter is the source's own.
-#}
{% macro marked(text) -%}
    concat('\uFFFF', {{ text }})
{%- endmacro %}


{% macro unmarked(text) -%}
    regexp_replace({{ text }}, '^\uFFFF|(?<=")\uFFFF', '')
{%- endmacro %}
