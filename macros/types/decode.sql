{#-
  Decoding is in two steps, so that a long expression is spelled once: `plain_text` brings a value out of its encoding
  into plain text, `decode` casts plain text to the Spark type, or to NULL where the type can't hold it: the
  caller keeps the exact text then. Nothing is rounded. Owns R6.

  The encodings are those of section 17 of the documents' facts. `encoding` is an expression: a semantic type of
  Debezium or Kafka Connect, or a literal type; NULL where the record had no schema: then the text's own form decides.
-#}
{% macro plain_text(text, encoding, spec) -%}
    {%- set kind = spec.type | lower | trim -%}
    {%- if kind == 'string' -%}
        {{ time_text(text, encoding, spec.encodings) }}
    {%- elif kind.startswith('decimal') -%}
        {{ decimal_text(text, encoding, spec.encodings) }}
    {%- elif kind in ('timestamp', 'timestamp_ntz') -%}
        {{ timestamp_text(text, encoding, spec.encodings) }}
    {%- else -%}
        {{ text }}
    {%- endif -%}
{%- endmacro %}


{#-
  Expression: the value of the first encoding that a record has, else the text as it stands.

  Args:
      encodings: what the column's records came in; none where that isn't known
      values: encoding, or the beginning of one with its colon → expression
-#}
{% macro by_encoding(text, encoding, encodings, values) -%}
    {%- set possible = {} -%}
    {%- for name, value in values.items() -%}
        {%- for seen in (encodings if encodings is not none else [name]) if seen == name or name.endswith(':') and seen.startswith(name) -%}
            {%- do possible.update({name: value}) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- if not possible -%}
        {{ text }}
    {%- else -%}
    case
        {%- for name, value in possible.items() %}
        when {{ 'startswith(' ~ encoding ~ ', ' ~ text_literal(name) ~ ')' if name.endswith(':') else encoding ~ ' = ' ~ text_literal(name) }}
            then {{ value }}
        {%- endfor %}
        else {{ text }}
    end
    {%- endif -%}
{%- endmacro %}


{% macro decode(text, type) -%}
    {%- set kind = type | lower | trim -%}
    {%- if kind == 'string' -%}
        {{ text }}
    {%- elif kind == 'boolean' -%}
        try_cast({{ text }} as boolean)
    {%- elif kind in ('tinyint', 'smallint', 'int', 'integer', 'bigint') -%}
        {#- Text like 1.0 or 1e3 would be cast, and so rounded: only digits are a whole number. -#}
        case when {{ text }} rlike '^[-+]?[0-9]+$' then try_cast({{ text }} as {{ kind }}) end
    {%- elif kind in ('float', 'double') -%}
        try_cast({{ text }} as {{ kind }})
    {%- elif kind.startswith('decimal') -%}
        {{ decode_decimal(text, kind) }}
    {%- elif kind == 'date' -%}
        {{ decode_date(text) }}
    {%- elif kind in ('timestamp', 'timestamp_ntz') -%}
        {{ decode_timestamp(text, kind) }}
    {%- elif kind == 'binary' -%}
        try_to_binary({{ text }}, 'base64')
    {%- elif kind.startswith('array') or kind.startswith('map') or kind.startswith('struct') -%}
        from_json({{ text }}, {{ text_literal(type) }}, map('mode', 'PERMISSIVE'))
    {%- else -%}
        {{ exceptions.raise_compiler_error(
            model.name ~ ": the declared type '" ~ type ~ "' is none that Tidemark decodes. Declare one of string,"
            ~ " boolean, tinyint, smallint, int, bigint, float, double, decimal(p,s), date, timestamp,"
            ~ " timestamp_ntz, binary, array<…>, map<…> or struct<…>."
        ) }}
    {%- endif -%}
{%- endmacro %}


{#- Times of day become HH:MM:SS.ffffff, as Spark 4.0 has no type for them; other text is itself. -#}
{% macro time_text(text, encoding, encodings) -%}
    {{ by_encoding(text, encoding, encodings, {
        'io.debezium.time.Time': time_of_day(text, 1000),
        'org.apache.kafka.connect.data.Time': time_of_day(text, 1000),
        'io.debezium.time.MicroTime': time_of_day(text, 1000000),
        'io.debezium.time.NanoTime': time_of_day(text, 1000000000)
    }) }}
{%- endmacro %}


{% macro time_of_day(text, units_per_second) -%}
    {%- set units = 'try_cast(' ~ text ~ ' as bigint)' -%}
    {%- set digits = (units_per_second | string | length) - 1 -%}
    concat(
        lpad(cast({{ units }} div {{ 3600 * units_per_second }} as string), 2, '0'),
        ':',
        lpad(cast({{ units }} div {{ 60 * units_per_second }} % 60 as string), 2, '0'),
        ':',
        lpad(cast({{ units }} div {{ units_per_second }} % 60 as string), 2, '0'),
        '.',
        rpad(lpad(cast({{ units }} % {{ units_per_second }} as string), {{ digits }}, '0'), 6, '0')
    )
{%- endmacro %}


{#-
  Decimals arrive as numbers, as text, as big-endian two's complement in base64 with the scale in the schema, or as
  {scale, value}. All become digits in text first, and are cast only where that loses nothing.
-#}
{% macro decimal_text(text, encoding, encodings) -%}
    {{ by_encoding(text, encoding, encodings, {
        'org.apache.kafka.connect.data.Decimal:': scaled_digits(
            unscaled_digits(text), 'try_cast(split_part(' ~ encoding ~ ", ':', 2) as int)"
        ),
        'io.debezium.data.VariableScaleDecimal': variable_decimal_text(text),
        '': "if(startswith(" ~ text ~ ", '{'), " ~ variable_decimal_text(text) ~ ', ' ~ text ~ ')'
    }) }}
{%- endmacro %}


{% macro variable_decimal_text(text) -%}
    {{ scaled_digits(
        unscaled_digits("get_json_object(" ~ text ~ ", '$.value')"),
        "try_cast(get_json_object(" ~ text ~ ", '$.scale') as int)"
    ) }}
{%- endmacro %}


{% macro decode_decimal(text, type) -%}
    {%- set size = modules.re.findall('[0-9]+', type) -%}
    {%- set scale = size[1] if size | length > 1 else '0' -%}
    case
        when {{ text }} rlike '^[-+]?[0-9]*([.][0-9]{0,{{ scale }}}0*)?$' then try_cast({{ text }} as {{ type }})
        when cast(try_cast({{ text }} as {{ type }}) as double) = try_cast({{ text }} as double)
            and {{ text }} rlike '[eE]'
            then try_cast({{ text }} as {{ type }})
    end
{%- endmacro %}


{#- The whole number in up to 16 bytes of base64, as text; NULL beyond 38 digits. -#}
{% macro unscaled_digits(text) -%}
    {%- set bytes = "try_to_binary(" ~ text ~ ", 'base64')" -%}
    {%- set wide = "case when length(" ~ bytes ~ ") between 1 and 16 then lpad(hex(" ~ bytes ~ "), 32, "
        ~ "if(hex(" ~ bytes ~ ") >= '8', 'F', '0')) end" -%}
    cast(
        try_add(
            try_multiply(
                cast(cast(conv(substr({{ wide }}, 1, 16), 16, -10) as bigint) as decimal(38, 0)),
                cast(18446744073709551616 as decimal(38, 0))
            ),
            cast(conv(substr({{ wide }}, 17, 16), 16, 10) as decimal(38, 0))
        ) as string
    )
{%- endmacro %}


{#- Digits with the decimal point put `scale` places from the right; a negative scale adds zeros. -#}
{% macro scaled_digits(digits, scale) -%}
    case
        when {{ scale }} <= 0 then concat({{ digits }}, repeat('0', -{{ scale }}))
        else regexp_replace(
            concat(
                if({{ digits }} like '-%', '-', ''),
                lpad(replace({{ digits }}, '-', ''), greatest(length(replace({{ digits }}, '-', '')), {{ scale }} + 1), '0')
            ),
            concat('([0-9]{', cast({{ scale }} as string), '})$'),
            '.$1'
        )
    end
{%- endmacro %}


{#- Days since 1970-01-01, or ISO text. Spark's dates end with the year 9999. -#}
{% macro decode_date(text) -%}
    case
        when {{ text }} rlike '^[-+]?[0-9]+$' and try_cast({{ text }} as bigint) between -719162 and 2932896
            then date_add(date'1970-01-01', try_cast({{ text }} as int))
        when not {{ text }} rlike '^[-+]?[0-9]+$' then try_cast({{ text }} as date)
    end
{%- endmacro %}


{#-
  Times by their encoding: milliseconds, microseconds or nanoseconds since 1970, which become microseconds, or ISO text
  with its zone. Whole numbers without a schema are taken as microseconds, which connectors write for most columns.
-#}
{% macro timestamp_text(text, encoding, encodings) -%}
    {{ by_encoding(text, encoding, encodings, {
        'io.debezium.time.Timestamp': 'concat(' ~ text ~ ", '000')",
        'org.apache.kafka.connect.data.Timestamp': 'concat(' ~ text ~ ", '000')",
        'io.debezium.time.NanoTimestamp':
            'if(' ~ text ~ " like '%000', left(" ~ text ~ ', length(' ~ text ~ ') - 3), concat(' ~ text ~ ", 'ns'))"
    }) }}
{%- endmacro %}


{#- Years 0001 to 9999 are what Spark and its readers agree on. -#}
{% macro decode_timestamp(text, type) -%}
    case
        when {{ text }} rlike '^[-+]?[0-9]+$' then case
            when try_cast({{ text }} as bigint) between -62135596800000000 and 253402300799999999
                then cast(timestamp_micros(try_cast({{ text }} as bigint)) as {{ type }})
        end
        when {{ text }} rlike '^[0-9]{4}-' and not {{ text }} rlike '[.][0-9]{6}[0-9]*[1-9]'
            then try_cast({{ text }} as {{ type }})
    end
{%- endmacro %}
