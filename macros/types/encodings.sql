{#-
  What an encoding means for a column: which macro reads it, whether a record's schema tells it, whether it was declared.
  They are spelled as spark_jobs/landing/shapes.py spells them.
-#}

{#-
  The readings of a kind of type: macros that make an expression of a value's text plain. `encoding` and the declared `type`
  are known when SQL is written.
-#}
{% macro readings(kind) -%}
    {{ return({
        'number': {
            'org.apache.kafka.connect.data.Decimal': decimal_digits,
            'io.debezium.data.VariableScaleDecimal': variable_decimal_digits,
            'io.debezium.data.Bits': bits_digits,
            'bigint unsigned': unsigned_digits, 'int unsigned': unsigned_digits,
            'boolean': boolean_digits,
            'io.debezium.time.MicroDuration': double_digits,
            'io.debezium.time.Interval': interval_microseconds,
            'int8': itself, 'int16': itself, 'int32': whole_digits, 'int64': whole_digits,
            'float': number_digits, 'float32': number_digits, 'double': double_digits, 'float64': double_digits,
            'string': text_digits, '': any_number_digits,
        },
        'text': {
            'org.apache.kafka.connect.data.Decimal': decimal_digits,
            'io.debezium.data.VariableScaleDecimal': variable_decimal_digits,
            'bigint unsigned': unsigned_digits, 'int unsigned': unsigned_digits,
            'io.debezium.time.Time': time_of_milliseconds,
            'org.apache.kafka.connect.data.Time': time_of_milliseconds,
            'io.debezium.time.MicroTime': time_of_microseconds,
            'io.debezium.time.NanoTime': time_of_nanoseconds,
            'io.debezium.time.IsoTime': time_of_iso,
            'io.debezium.time.ZonedTime': time_in_utc,
            'io.debezium.time.Date': iso_of_days,
            'org.apache.kafka.connect.data.Date': iso_of_days,
            'io.debezium.time.IsoDate': date_without_zone,
            'io.debezium.time.Timestamp': iso_of_milliseconds,
            'org.apache.kafka.connect.data.Timestamp': iso_of_milliseconds,
            'io.debezium.time.MicroTimestamp': iso_of_microseconds,
            'io.debezium.time.NanoTimestamp': iso_of_nanoseconds,
            'io.debezium.time.IsoTimestamp': time_of_iso,
        },
        'moment': {
            'io.debezium.time.Date': microseconds_of_days,
            'org.apache.kafka.connect.data.Date': microseconds_of_days,
            'io.debezium.time.IsoDate': date_without_zone,
            'io.debezium.time.Timestamp': microseconds_of_milliseconds,
            'org.apache.kafka.connect.data.Timestamp': microseconds_of_milliseconds,
            'io.debezium.time.MicroTimestamp': itself,
            'io.debezium.time.NanoTimestamp': microseconds_of_nanoseconds,
            'io.debezium.time.IsoTimestamp': time_of_iso,
            'io.debezium.time.ZonedTimestamp': itself,
            '': moment_without_unit,
        },
        'date': {
            'io.debezium.time.IsoDate': date_without_zone,
            'io.debezium.time.Timestamp': date_of_milliseconds,
            'org.apache.kafka.connect.data.Timestamp': date_of_milliseconds,
            'io.debezium.time.MicroTimestamp': date_of_microseconds,
            'io.debezium.time.NanoTimestamp': date_of_nanoseconds,
            'io.debezium.time.IsoTimestamp': date_of_iso,
            'io.debezium.time.Date': days_or_infinite, 'org.apache.kafka.connect.data.Date': days_or_infinite,
            'string': date_of_text, '': date_at_midnight,
        },
        'binary': {
            'bytes': itself, 'io.debezium.data.Bits': itself,
            'base64': itself, 'base64-url-safe': base64_of_url_safe, 'hex': base64_of_hex,
            'string': base64_of_any, '': base64_of_any,
        },
    }[kind]) }}
{%- endmacro %}


{#-
  The macro that brings a value of a kind out of an encoding: the encoding's own, else that of records without a schema
  where the encoding says no more than JSON, else `itself`; what counts something else is no day and no moment, what counts
  time is no number, whose unit a change of mode would change, and what a schema calls no bytes is none.
-#}
{% macro reading(kind, encoding) -%}
    {%- set readings_by_encoding = readings(kind) -%}
    {%- set name = encoding.split(':')[0] -%}
    {%- if name in readings_by_encoding -%}
        {{ return(readings_by_encoding[name]) }}
    {%- endif -%}
    {%- if '' in readings_by_encoding and is_undescribed(encoding, kind) -%}
        {{ return(readings_by_encoding['']) }}
    {%- endif -%}
    {%- if kind == 'binary' and not encoding.endswith(':bytes') -%}
        {{ return(told_as_text) }}
    {%- endif -%}
    {%- if kind == 'number' and counts_time(name) -%}
        {{ return(told_as_text) }}
    {%- endif -%}
    {{ return(no_time if kind in ('moment', 'date') else itself) }}
{%- endmacro %}


{% macro itself(text, encoding=none, type=none) -%}
    {{ text }}
{%- endmacro %}


{#- What a schema calls something else than the type: told as text would be. -#}
{% macro told_as_text(text, encoding, type=none) -%}
    {{ marked(reading('text', encoding)(text, encoding, 'string')) }}
{%- endmacro %}


{#-
  Which of the kinds of `readings` a Spark type is of; none where JSON's own text is plain. It is asked a thousand times for
  a table, so of no other macro.
-#}
{% macro kind_of(type) -%}
    {{ return('number' if type.startswith('decimal') else {
        'tinyint': 'number', 'smallint': 'number', 'int': 'number', 'integer': 'number', 'bigint': 'number',
        'float': 'number', 'double': 'number', 'string': 'text', 'timestamp': 'moment', 'timestamp_ntz': 'moment',
        'date': 'date', 'binary': 'binary'
    }.get(type)) }}
{%- endmacro %}


{#-
  The encodings that a column can declare, for records whose schema says no more than JSON does: those that a value
  itself doesn't tell. A decimal's scale follows a colon.
-#}
{% macro declarable_encodings() -%}
    {{ return([
        'org.apache.kafka.connect.data.Decimal:<scale>', 'io.debezium.data.VariableScaleDecimal', 'bigint unsigned',
        'int unsigned', 'io.debezium.data.Bits',
        'io.debezium.time.Date', 'org.apache.kafka.connect.data.Date',
        'io.debezium.time.Time', 'io.debezium.time.MicroTime', 'io.debezium.time.NanoTime',
        'org.apache.kafka.connect.data.Time',
        'io.debezium.time.Timestamp', 'io.debezium.time.MicroTimestamp', 'io.debezium.time.NanoTimestamp',
        'org.apache.kafka.connect.data.Timestamp', 'io.debezium.time.Interval', 'base64', 'base64-url-safe', 'hex'
    ]) }}
{%- endmacro %}


{#-
  Whether a record's schema says no more of a value than JSON does: it names a literal type, or a semantic one that nobody
  here knows. Bytes are always base64, and no number or BOOLEAN is. What is unsigned says which number it is, and not what
  that counts.
-#}
{% macro is_undescribed(encoding, kind) -%}
    {%- set name = encoding.split(':')[0] -%}
    {%- if name in ('', 'string') -%}
        {{ return(true) }}
    {%- elif name in ('boolean', 'int8', 'int16', 'int32', 'int64', 'float', 'float32', 'double', 'float64') -%}
        {{ return(kind != 'binary') }}
    {%- elif name in ('bigint unsigned', 'int unsigned') -%}
        {{ return(kind not in ('number', 'text', 'binary')) }}
    {%- endif -%}
    {%- for one in ['number', 'text', 'moment', 'date', 'binary'] if name in readings(one) -%}
        {{ return(false) }}
    {%- endfor -%}
    {{ return(name not in plain_encodings() and not encoding.endswith(':bytes')) }}
{%- endmacro %}


{#- The other encodings that shapes.py knows: every type takes their values as they stand. -#}
{% macro plain_encodings() -%}
    {{ return([
        'bytes', 'map', 'struct', 'array',
        'io.debezium.time.NanoDuration', 'io.debezium.time.Year',
        'io.debezium.data.Json', 'io.debezium.data.Xml', 'io.debezium.data.Uuid', 'io.debezium.data.Ltree',
        'io.debezium.data.Enum', 'io.debezium.data.EnumSet', 'io.debezium.data.TsVector', 'io.debezium.data.Tsvector',
        'io.debezium.data.FloatVector', 'io.debezium.data.DoubleVector', 'io.debezium.data.SparseVector',
        'io.debezium.data.SparseDoubleVector', 'io.debezium.data.geometry.Point', 'io.debezium.data.geometry.Geometry',
        'io.debezium.data.geometry.Geography'
    ]) }}
{%- endmacro %}


{#-
  What a record's encoding means for a column: the declared one where the record doesn't tell. Where nothing does, a decimal
  can have any precision.
-#}
{% macro effective_encoding(encoding, spec) -%}
    {#- Of BIGINT UNSIGNED what came with 32 bits was INTEGER UNSIGNED then. -#}
    {%- if encoding == 'int32' and spec.encoding == 'bigint unsigned' -%}
        {{ return('int unsigned') }}
    {%- endif -%}
    {#- Digits without a schema count what the schemas of others tell, as those of deletes do. -#}
    {%- if not encoding and told_time(spec) -%}
        {{ return(told_time(spec)) }}
    {%- endif -%}
    {#- A decimal in its own form would be bytes. -#}
    {%- set is_text = encoding == 'string' and is_decimal(spec.encoding or '') -%}
    {%- if not spec.encoding or is_text or not is_undescribed(encoding, kind_of(spec.type)) -%}
        {{ return(encoding) }}
    {%- endif -%}
    {%- set is_wide = not encoding and spec.encoding.startswith('org.apache.kafka.connect.data.Decimal:') -%}
    {{ return(spec.encoding ~ (':wide' if is_wide else '')) }}
{%- endmacro %}


{#-
  What records that have no shape are read as: the one encoding that schemas have told of the column, where they have told one
  alone and none is declared for records that don't tell; else ''.

  Args:
      encodings: those that the column's records came in
-#}
{% macro shapeless_encoding(spec, encodings) -%}
    {%- set of_schemas = [] -%}
    {%- for one in encodings if not is_undescribed(one, kind_of(spec.type)) -%}
        {%- do of_schemas.append(one) -%}
    {%- endfor -%}
    {{ return(of_schemas[0] if of_schemas | length == 1 and not spec.encoding else '') }}
{%- endmacro %}


{#- What counts time in a text column, where the schemas of its records tell that alone, and none is declared; else ''. -#}
{% macro told_time(spec) -%}
    {%- set told = shapeless_encoding(spec, spec.encodings or []) if kind_of(spec.type) == 'text' else '' -%}
    {{ return(told if counts_time(told) else '') }}
{%- endmacro %}


{#- Whether all records of a column are read alike, those too that have no shape. -#}
{% macro has_one_encoding(spec) -%}
    {%- set encodings = spec.encodings or [] -%}
    {{ return(encodings | length == 1 and (not spec.encoding or is_undescribed(encodings[0], kind_of(spec.type)))) }}
{%- endmacro %}


{#- Whether an encoding counts units of time: text of a column that is declared so, such as ISO 8601, tells itself. -#}
{% macro counts_time(encoding) -%}
    {%- set packages = '(io.debezium.time|org.apache.kafka.connect.data)' -%}
    {{ return(modules.re.match(packages ~ '.(Date|(Micro|Nano)?Time(stamp)?)$', encoding) is not none) }}
{%- endmacro %}


{#- Whether an encoding, or that of an array's elements, is a decimal in its own form. -#}
{% macro is_decimal(encoding) -%}
    {{ return(encoding.removeprefix('array:').split(':')[0] in (
        'org.apache.kafka.connect.data.Decimal', 'io.debezium.data.VariableScaleDecimal'
    )) }}
{%- endmacro %}


{#- Whether a schema describes a value's fields, as that of a point does: their bytes are base64 then. -#}
{% macro is_struct(encoding) -%}
    {{ return(encoding not in ('map', 'io.debezium.data.Json') and not is_undescribed(encoding, none)) }}
{%- endmacro %}


{#- Whether records of a text column hold maps: their fields have no order, and JSON is given the same. -#}
{% macro has_maps(spec) -%}
    {{ return(kind_of(spec.type) == 'text' and 'map' in (spec.encodings or [])) }}
{%- endmacro %}


{#-
  Whether a value is read otherwise for what other records of the column came in: then what was read before those came is
  read again (G2).
-#}
{% macro rests_on_encodings(spec) -%}
    {%- set is_mixed = (spec.encodings or []) | length > 1 -%}
    {{ return(is_mixed and kind_of(spec.type) == 'text' and (has_maps(spec) or has_decimals(spec) or told_time(spec) != '')) }}
{%- endmacro %}


{#- Whether records of a column hold decimals in their own form: JSON then tells base64 from a number. -#}
{% macro has_decimals(spec) -%}
    {%- for seen in spec.encodings or [''] if is_decimal(effective_encoding(seen, spec)) -%}
        {{ return(true) }}
    {%- endfor -%}
    {{ return(false) }}
{%- endmacro %}
