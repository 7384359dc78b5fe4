{#-
  Decoding is in two steps, so that a long expression is spelled once: `plain_text` brings a value out of its encoding
  into plain text, `decode` casts plain text to the Spark type, or to NULL where the type can't hold it: `exact_texts`
  are what the caller keeps then. Nothing is rounded. Owns R6.

  Encodings are spelled as spark_jobs/landing/shapes.py spells them.
  Plain text is by kind of type: of a number its digits, of a moment its microseconds since 1970 or ISO 8601, of a date
  its days since 1970 or ISO 8601, of binary base64, of an array JSON with texts. One value has one plain text in every
  mode of a connector, so a mode that changes in the middle of a topic makes no version (R12). What no type may take,
  though a cast would, is `held_back`.
-#}
{% macro readings(kind) -%}
    {{ return({
        'number': {
            'org.apache.kafka.connect.data.Decimal': decimal_digits,
            'io.debezium.data.VariableScaleDecimal': variable_decimal_digits,
            'io.debezium.data.Bits': bits_digits,
            'bigint unsigned': unsigned_digits,
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
            'bigint unsigned': unsigned_digits,
            'io.debezium.time.Time': time_of_milliseconds,
            'org.apache.kafka.connect.data.Time': time_of_milliseconds,
            'io.debezium.time.MicroTime': time_of_microseconds,
            'io.debezium.time.NanoTime': time_of_nanoseconds,
            'io.debezium.time.IsoTime': time_of_iso,
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
            'io.debezium.time.Date': itself, 'org.apache.kafka.connect.data.Date': itself,
            'string': date_of_text, '': date_at_midnight,
        },
        'binary': {
            'base64': itself, 'base64-url-safe': base64_of_url_safe, 'hex': base64_of_hex,
            'string': base64_of_any, '': base64_of_any,
        },
    }[kind]) }}
{%- endmacro %}


{#-
  The encodings that a column can declare, for records whose schema says no more than JSON does: those that a value
  itself doesn't tell. A decimal's scale follows a colon.
-#}
{% macro declarable_encodings() -%}
    {{ return([
        'org.apache.kafka.connect.data.Decimal:<scale>', 'io.debezium.data.VariableScaleDecimal', 'bigint unsigned',
        'io.debezium.data.Bits',
        'io.debezium.time.Date', 'org.apache.kafka.connect.data.Date',
        'io.debezium.time.Time', 'io.debezium.time.MicroTime', 'io.debezium.time.NanoTime',
        'org.apache.kafka.connect.data.Time',
        'io.debezium.time.Timestamp', 'io.debezium.time.MicroTimestamp', 'io.debezium.time.NanoTimestamp',
        'org.apache.kafka.connect.data.Timestamp', 'io.debezium.time.Interval', 'base64', 'base64-url-safe', 'hex'
    ]) }}
{%- endmacro %}


{#- Which of the kinds of `readings` a Spark type is of; none where JSON's own text is plain. -#}
{% macro kind_of(type) -%}
    {%- if type.startswith('decimal') or is_integral(type) or is_floating(type) -%}
        {{ return('number') }}
    {%- endif -%}
    {{ return({
        'string': 'text', 'timestamp': 'moment', 'timestamp_ntz': 'moment', 'date': 'date', 'binary': 'binary'
    }.get(type)) }}
{%- endmacro %}


{#-
  The macro that brings a value of a kind out of an encoding: the encoding's own, else that of records without a schema
  where the encoding says no more than JSON, else `itself`; what counts something else is no day and no moment.
-#}
{% macro reading(kind, encoding) -%}
    {%- set known = readings(kind) -%}
    {%- set name = encoding.split(':')[0] -%}
    {%- if name in known -%}
        {{ return(known[name]) }}
    {%- endif -%}
    {%- if '' in known and is_untold(encoding, kind) -%}
        {{ return(known['']) }}
    {%- endif -%}
    {{ return(no_time if kind in ('moment', 'date') else itself) }}
{%- endmacro %}


{#-
  Whether a record's schema says no more of a value than JSON does: it names a literal type, or a semantic one that nobody
  here knows. Bytes are always base64. BIGINT UNSIGNED says which number it is, and not what that counts.
-#}
{% macro is_untold(encoding, kind) -%}
    {%- set name = encoding.split(':')[0] -%}
    {%- if name in (
        '', 'string', 'boolean', 'int8', 'int16', 'int32', 'int64', 'float', 'float32', 'double', 'float64'
    ) -%}
        {{ return(true) }}
    {%- elif name == 'bigint unsigned' -%}
        {{ return(kind not in ('number', 'text')) }}
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
        'io.debezium.time.ZonedTime', 'io.debezium.time.NanoDuration', 'io.debezium.time.Year',
        'io.debezium.data.Json', 'io.debezium.data.Xml', 'io.debezium.data.Uuid', 'io.debezium.data.Ltree',
        'io.debezium.data.Enum', 'io.debezium.data.EnumSet', 'io.debezium.data.TsVector', 'io.debezium.data.Tsvector',
        'io.debezium.data.FloatVector', 'io.debezium.data.DoubleVector', 'io.debezium.data.SparseVector',
        'io.debezium.data.SparseDoubleVector', 'io.debezium.data.geometry.Point', 'io.debezium.data.geometry.Geometry',
        'io.debezium.data.geometry.Geography'
    ]) }}
{%- endmacro %}


{#- What a record's encoding means for a column: the declared one where the record doesn't tell. -#}
{% macro effective_encoding(encoding, spec) -%}
    {#- A decimal in its own form would be bytes. -#}
    {%- set is_text = encoding == 'string' and is_decimal(spec.encoding or '') -%}
    {{ return(spec.encoding if spec.encoding and is_untold(encoding, kind_of(spec.type)) and not is_text else encoding) }}
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
    {{ return(is_mixed and kind_of(spec.type) == 'text' and (has_maps(spec) or has_decimals(spec))) }}
{%- endmacro %}


{#- Whether records of a column hold decimals in their own form: JSON then tells base64 from a number. -#}
{% macro has_decimals(spec) -%}
    {%- for seen in spec.encodings or [''] if is_decimal(effective_encoding(seen, spec)) -%}
        {{ return(true) }}
    {%- endfor -%}
    {{ return(false) }}
{%- endmacro %}


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
    {%- for seen in (met if met | length == 1 else met + ['']) | unique(case_sensitive=true) | sort(reverse=true) -%}
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
        coalesce({{ plain }}, {{ text if kind_of(spec.type) == 'text' else held_back(text) }})
    {%- endif -%}
{%- endmacro %}


{% macro plain_of(text, json, seen, spec) -%}
    {%- set kind = kind_of(spec.type) -%}
    {%- set encoding = effective_encoding(seen, spec) -%}
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
        {{ plain_array(text, seen, item_type(spec.type), spec.encoding) }}
    {%- elif is_nested(spec.type) -%}
        {{ plain_nested(text, spec.type, plain_told if is_struct(encoding) else plain_untold) }}
    {%- else -%}
        {{ text }}
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
    {%- elif type.startswith('map') or type.startswith('struct') -%}
        {{ read_json(text, type) }}
    {%- else -%}
        {{ exceptions.raise_compiler_error(
            model.name ~ ": the declared type '" ~ type ~ "' is none that Tidemark decodes. Declare one of string,"
            ~ " boolean, tinyint, smallint, int, bigint, float, double, decimal(p,s), date, timestamp,"
            ~ " timestamp_ntz, binary, array<…>, map<…> or struct<…>."
        ) }}
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
        else {{ released('text') }}
    end)
{%- endmacro %}


{#-
  Expression: text that no type takes, behind a mark; and the text that it was. Of an array, a map or a struct, which is
  JSON then, each value can be marked. Elsewhere in a text the letter is the source's own.
-#}
{% macro held_back(text) -%}
    concat('\uFFFF', {{ text }})
{%- endmacro %}


{% macro released(text) -%}
    regexp_replace({{ text }}, '^\uFFFF|(?<=")\uFFFF', '')
{%- endmacro %}


{% macro is_integral(type) -%}
    {{ return(type in ('tinyint', 'smallint', 'int', 'integer', 'bigint')) }}
{%- endmacro %}


{% macro is_floating(type) -%}
    {{ return(type in ('float', 'double')) }}
{%- endmacro %}


{#- Readings: expressions of a value's text; `encoding` and the declared `type` are known when SQL is written. -#}
{% macro itself(text, encoding=none, type=none) -%}
    {{ text }}
{%- endmacro %}


{#- Numbers. -#}
{% macro boolean_digits(text, encoding=none, type=none) -%}
    case {{ text }} when 'true' then '1' when 'false' then '0' else {{ text }} end
{%- endmacro %}


{#-
  Without a schema a number can be anything's: a floating one's own digits are 17 at most, or 9, which can be told as the
  double that they are, and never without a point; and MySQL's BOOLEAN is 1 in a snapshot and `true` in the stream.
-#}
{% macro any_number_digits(text, encoding=none, type=none) -%}
    {%- if type.startswith('decimal') -%}
        if(startswith({{ text }}, '{'), {{ variable_decimal_digits(text, encoding, type) }}, {{ number_digits(text) }})
    {%- elif type == 'double' -%}
        if({{ is_whole(text) }}, {{ whole_digits(text, encoding, type) }}, {{ digits_for(named_number(text), type, 17) }})
    {%- elif type == 'float' -%}
        case
            when {{ is_whole(text) }} then {{ whole_digits(text, encoding, type) }}
            when cast(try_cast({{ text }} as float) as double) = try_cast({{ text }} as double)
                then {{ digits_for(named_number(text), 'double', 17) }}
            else {{ digits_for(named_number(text), type, 9) }}
        end
    {%- else -%}
        {{ boolean_digits(text) }}
    {%- endif -%}
{%- endmacro %}


{#- A double: a float holds those that are its own, or have no more digits than it tells. -#}
{% macro double_digits(text, encoding=none, type=none) -%}
    {{ any_number_digits(text, encoding, type) if type == 'float' else number_digits(text, encoding, type) }}
{%- endmacro %}


{#- A decimal as text, as connectors write it in their mode `string`. -#}
{% macro text_digits(text, encoding=none, type=none) -%}
    {{ digits_for(number_digits(text), type) }}
{%- endmacro %}


{#- A whole number that a floating type would round is held back. -#}
{% macro whole_digits(text, encoding=none, type=none) -%}
    {%- if is_floating(type or '') -%}
        if(try_cast(try_cast({{ text }} as {{ type }}) as decimal(38, 0)) = try_cast({{ text }} as decimal(38, 0)), {{ text }}, {{ held_back(text) }})
    {%- else -%}
        {{ text }}
    {%- endif -%}
{%- endmacro %}


{#- What is no number, by its one name. -#}
{% macro named_number(text) -%}
    case {{ text }}
        when 'NAN' then 'NaN' when 'POSITIVE_INFINITY' then 'Infinity' when 'NEGATIVE_INFINITY' then '-Infinity'
        else {{ text }}
    end
{%- endmacro %}


{#- A number as JSON or text writes it: an exponent becomes zeros. -#}
{% macro number_digits(text, encoding=none, type=none) -%}
    {%- if is_floating(type or '') -%}
        {{ text }}
    {%- else -%}
    {%- set fraction = "regexp_extract(" ~ text ~ ", '[.]([0-9]*)', 1)" -%}
    {%- set exponent = "try_cast(regexp_extract(" ~ text ~ ", '[eE]([-+]?[0-9]{1,3})$', 1) as int)" -%}
    case
        when {{ text }} rlike '^[-+]?[0-9]+([.][0-9]*)?[eE][-+]?[0-9]{1,3}$' then {{ scaled_digits(
            "regexp_replace(" ~ text ~ ", '[eE].*|[.+]', '')", 'length(' ~ fraction ~ ') - ' ~ exponent
        ) }}
        else {{ named_number(text) }}
    end
    {%- endif -%}
{%- endmacro %}


{#-
  Big-endian two's complement in base64, the scale in the schema. A converter with `decimal.format=NUMERIC` writes a
  number instead: in JSON base64 is in quotes.
-#}
{% macro decimal_digits(json, encoding, type) -%}
    {%- set base64 = "trim(both '\"' from " ~ json ~ ")" -%}
    {%- set scale = encoding.split(':')[1] -%}
    {%- set unscaled = unscaled_digits(base64, encoding.endswith(':wide')) -%}
    {#- Without its scale a number is not known. Base64 that stays says so, since it can look like a number. -#}
    {%- set digits = scaled_digits(unscaled, scale | int) if modules.re.match('-?[0-9]+$', scale) else 'null' -%}
    {%- set unread = "concat('base64:', if(try_to_binary(" ~ base64 ~ ", 'base64') is null, null, " ~ base64 ~ '))' -%}
    {%- set told = 'coalesce(' ~ digits ~ ', ' ~ unread ~ ', ' ~ base64 ~ ')' -%}
    {%- set number = bound('number', json, number_digits('number')) -%}
    {{ digits_for('if(startswith(' ~ json ~ ", '\"'), " ~ told ~ ', ' ~ number ~ ')', type) }}
{%- endmacro %}


{% macro variable_decimal_digits(json, encoding, type) -%}
    {%- set digits = scaled_digits(
        unscaled_digits("get_json_object(" ~ json ~ ", '$.value')", encoding != ''),
        "try_cast(get_json_object(" ~ json ~ ", '$.scale') as int)"
    ) -%}
    {%- set told = 'coalesce(' ~ digits ~ ', ' ~ json ~ ')' -%}
    {{ bound('number', told, digits_for('number', type)) if is_floating(type) else told }}
{%- endmacro %}


{#- Digits that a floating type would round are held back: of a decimal's it holds any 15, or 6. -#}
{% macro digits_for(digits, type, most=none) -%}
    {%- if is_floating(type) -%}
        if(
            length(regexp_replace({{ digits }}, '^[-+0.]*|[^0-9eE]|0*([eE].*)?$', '')) <= {{ most or (15 if type == 'double' else 6) }},
            {{ digits }},
            {{ held_back(digits) }}
        )
    {%- else -%}
        {{ digits }}
    {%- endif -%}
{%- endmacro %}


{#- MySQL's BIGINT UNSIGNED in the mode `long`: values from 2^63 arrive as negative ones. -#}
{% macro unsigned_digits(text, encoding=none, type=none) -%}
    {%- set digits -%}
    if(
        startswith({{ text }}, '-'),
        cast(try_cast({{ text }} as decimal(20, 0)) + 18446744073709551616bd as string),
        {{ text }}
    )
    {%- endset -%}
    {{ exact_digits(digits, type) }}
{%- endmacro %}


{#- Up to 64 bits, the lowest byte first; PostgreSQL's connector writes none where all are zero. -#}
{% macro bits_digits(text, encoding=none, type=none) -%}
    {%- set bytes = "hex(try_to_binary(" ~ text ~ ", 'base64'))" -%}
    {%- set digits -%}
    if(
        length({{ bytes }}) <= 16,
        conv(concat('0', array_join(reverse(regexp_extract_all({{ bytes }}, '(..)')), '')), 16, 10),
        {{ text }}
    )
    {%- endset -%}
    {{ exact_digits(digits, type) }}
{%- endmacro %}


{#- The digits of a whole number, which a floating type can round. -#}
{% macro exact_digits(digits, type) -%}
    {{ bound('whole', digits, whole_digits('whole', none, type)) if is_floating(type or '') else digits }}
{%- endmacro %}


{#-
  An interval as PostgreSQL's and Oracle's connectors count it in their numeric mode: a month has 365.25 / 12 days.
  Where it isn't of that form it stays as it is; NULL where it has digits behind the microseconds.
-#}
{% macro interval_microseconds(text, encoding=none, type=none) -%}
    {%- set of_date = {'Y': 31557600000000, 'M': 2629800000000, 'D': 86400000000} -%}
    {%- set of_day = {'H': 3600000000, 'M': 60000000, 'S': 1000000} -%}
    case
        when not startswith({{ text }}, 'P') then {{ text }}
        when not {{ has_nanoseconds(text) }} then cast(try_cast(
            {%- for unit, size in of_date.items() %}
            {{ '+ ' if not loop.first }}{{ interval_part("split_part(" ~ text ~ ", 'T', 1)", unit) }} * {{ size }}
            {%- endfor %}
            {%- for unit, size in of_day.items() %}
            + {{ interval_part("split_part(" ~ text ~ ", 'T', 2)", unit) }} * {{ size }}
            {%- endfor %}
            as bigint) as string)
    end
{%- endmacro %}


{#- Expression: a part of an interval, 0 where it has none; NULL where that is no number, or one of ten digits. -#}
{% macro interval_part(text, unit) -%}
    try_cast(coalesce(nullif(regexp_extract({{ text }}, '(-?[0-9.]+){{ unit }}', 1), ''), '0') as decimal(18, 9))
{%- endmacro %}


{#-
  The whole number in base64 of its bytes, as text; NULL where that is none. `is_wide` reads numbers of more than 16
  bytes too, up to 512.
-#}
{% macro unscaled_digits(base64, is_wide) -%}
    {%- set size = 'greatest(32, cast(ceil(length(hex) / 8) * 8 as int))' if is_wide else '32' -%}
    {%- set inverted = "if(hex >= '8', translate(hex, '0123456789ABCDEF', 'FEDCBA9876543210'), hex)" -%}
    {%- set digits = 'coalesce(' ~ short_digits() ~ ', ' ~ long_digits() ~ ')' if is_wide else short_digits() -%}
    {%- set by_sign = bound('bits', 'lpad(' ~ inverted ~ ', ' ~ size ~ ", '0')", digits) -%}
    {{ bound(
        'hex',
        "hex(try_to_binary(" ~ base64 ~ ", 'base64'))",
        'case when length(hex) between 1 and ' ~ (1024 if is_wide else 32) ~ ' then ' ~ by_sign ~ ' end'
    ) }}
{%- endmacro %}


{#- Expression: one that reads another several times by a name, so that it is spelled and computed once. -#}
{% macro bound(name, value, expression) -%}
    transform(array({{ value }}), {{ name }} -> {{ expression }})[0]
{%- endmacro %}


{#-
  Digits of the number `hex`, whose `bits` are inverted and 32 digits wide where it is negative: -1 - bits. NULL where they
  are more than 38, or more bits.
-#}
{% macro short_digits() -%}
    case when length(bits) = 32 then cast(
        try_add(
            try_multiply(
                try_add(
                    try_multiply(
                        cast(conv(left(bits, 16), 16, 10) as decimal(38, 0)), cast(18446744073709551616 as decimal(38, 0))
                    ),
                    cast(conv(right(bits, 16), 16, 10) as decimal(38, 0))
                ),
                if(hex >= '8', -1bd, 1bd)
            ),
            if(hex >= '8', -1bd, 0bd)
        ) as string
    ) end
{%- endmacro %}


{#-
  The same by long multiplication, however wide: limbs of nine digits, the lowest first, take in four bytes at a time.
-#}
{% macro long_digits() -%}
    concat(if(hex >= '8', '-', ''), ltrim('0', aggregate(
        transform(
            sequence(1, length(bits), 8),
            start -> cast(conv(substr(bits, start, 8), 16, 10) as bigint)
                + if(hex >= '8' and start + 7 = length(bits), 1, 0)
        ),
        array(0L),
        (limbs, number) -> aggregate(
            limbs,
            named_struct('done', cast(array() as array<bigint>), 'carry', number),
            (sum, limb) -> named_struct(
                'done', array_append(sum.done, (limb * 4294967296 + sum.carry) % 1000000000),
                'carry', (limb * 4294967296 + sum.carry) div 1000000000
            ),
            sum -> concat(sum.done, array(sum.carry % 1000000000, sum.carry div 1000000000))
        ),
        limbs -> array_join(transform(reverse(limbs), limb -> lpad(cast(limb as string), 9, '0')), '')
    )))
{%- endmacro %}


{#-
  Digits with the decimal point put `scale` places from the right, a number or an expression; below 0 it adds zeros.
  NULL for a scale that no database has.
-#}
{% macro scaled_digits(digits, scale) -%}
    {%- set shifted = "if(unscaled.digits = '0', '0', concat(unscaled.digits, repeat('0', -unscaled.scale)))" -%}
    {%- set pointed -%}
        regexp_replace(
            concat(
                if(startswith(unscaled.digits, '-'), '-', ''),
                lpad(
                    ltrim('-', unscaled.digits),
                    greatest(length(ltrim('-', unscaled.digits)), unscaled.scale + 1), '0'
                )
            ),
            concat('([0-9]{', cast(unscaled.scale as string), '})$'),
            '.$1'
        )
    {%- endset -%}
    {%- set unscaled = "struct(" ~ digits ~ " as digits, " ~ scale ~ " as scale)" -%}
    {%- if scale is not number -%}
        {{ bound('unscaled', unscaled, 'case when unscaled.scale between -999 and 0 then ' ~ shifted
            ~ ' when unscaled.scale between 1 and 20000 then ' ~ pointed ~ ' end') }}
    {%- elif scale == 0 -%}
        {{ digits }}
    {%- elif scale < -999 or scale > 20000 -%}
        cast(null as string)
    {%- else -%}
        {{ bound('unscaled', unscaled, pointed if scale > 0 else shifted) }}
    {%- endif -%}
{%- endmacro %}


{#- A decimal that needs more digits than its type has is NULL; zeros behind the point don't count. -#}
{% macro decode_decimal(text, type) -%}
    {%- set size = modules.re.findall('[0-9]+', type) -%}
    {%- set scale = size[1] if size | length > 1 else '0' -%}
    case
        when {{ text }} rlike '^[-+]?[0-9]*([.][0-9]{0,{{ scale }}}0*)?$' then try_cast({{ text }} as {{ type }})
    end
{%- endmacro %}


{#- Times. Those of day become HH:MM:SS.ffffff, with more digits where six don't do. MySQL's run from -838:59:59. -#}
{% macro time_of_milliseconds(text, encoding=none, type=none) -%}
    {{ time_of_day(text, 1000) }}
{%- endmacro %}


{% macro time_of_microseconds(text, encoding=none, type=none) -%}
    {{ time_of_day(text, 1000000) }}
{%- endmacro %}


{% macro time_of_nanoseconds(text, encoding=none, type=none) -%}
    {{ time_of_day(text, 1000000000) }}
{%- endmacro %}


{#- Text that is no whole number stays as it is. -#}
{% macro time_of_day(text, units_per_second) -%}
    {%- set units = "try_cast(ltrim('-', " ~ text ~ ') as bigint)' -%}
    {%- set width = units_per_second | string | length - 1 -%}
    {%- set fraction = 'lpad(cast(' ~ units ~ ' % ' ~ units_per_second ~ ' as string), ' ~ width ~ ", '0')" -%}
    {%- set digits = 6 if width <= 6 else "greatest(6, length(rtrim('0', " ~ fraction ~ ')))' -%}
    coalesce(
        concat(
            if(startswith({{ text }}, '-'), '-', ''),
            if({{ units }} < {{ 36000 * units_per_second }}, '0', ''),
            cast({{ units }} div {{ 3600 * units_per_second }} as string),
            date_format(timestamp_seconds({{ units }} div {{ units_per_second }} % 3600), ':mm:ss.'),
            rpad({{ fraction }}, {{ digits }}, '0')
        ),
        {{ text }}
    )
{%- endmacro %}


{#- The time ends a moment too. -#}
{% macro time_of_iso(text, encoding=none, type=none) -%}
    if(
        {{ text }} rlike '[0-9]Z?$',
        regexp_replace(
            concat(rtrim('Z', {{ text }}), if({{ text }} like '%.%', '000000', '.000000')),
            '([.][0-9]{6}(?:[0-9]*[1-9])?)0*$', '$1'
        ),
        {{ text }}
    )
{%- endmacro %}


{#- Dates and moments. -#}
{% macro iso_of_days(text, encoding=none, type=none) -%}
    coalesce(cast(date_add(date'1970-01-01', try_cast({{ text }} as int)) as string), {{ text }})
{%- endmacro %}


{% macro date_without_zone(text, encoding=none, type=none) -%}
    regexp_replace({{ text }}, '^([-+]?[0-9]+-[0-9]{2}-[0-9]{2})Z$', '$1')
{%- endmacro %}


{#- ISO 8601 of a date, or of a moment at midnight, as the date. -#}
{% macro date_at_midnight(text, encoding=none, type=none) -%}
    regexp_replace({{ text }}, '^([-+]?[0-9]+-[0-9]{2}-[0-9]{2})(T00:00:00([.]0+)?)?Z?$', '$1')
{%- endmacro %}


{#- Digits in a text count no days. -#}
{% macro date_of_text(text, encoding=none, type=none) -%}
    if({{ is_whole(text) }}, {{ held_back(text) }}, {{ date_at_midnight(text) }})
{%- endmacro %}


{#- What is neither a day nor a moment, such as a time of day: its number is told as text would be. -#}
{% macro no_time(text, encoding, type=none) -%}
    if({{ is_whole(text) }}, {{ held_back(reading('text', encoding)(text, encoding, 'string')) }}, {{ text }})
{%- endmacro %}


{% macro date_of_iso(text, encoding=none, type=none) -%}
    {{ date_at_midnight(time_of_iso(text)) }}
{%- endmacro %}


{#- PostgreSQL's connector writes an infinite timestamp as one of two numbers. -#}
{% macro iso_of_microseconds(text, encoding=none, type=none) -%}
    {%- set number = 'try_cast(' ~ text ~ ' as bigint)' -%}
    case {{ number }}
        when 9223372036825200000 then 'infinity'
        when -9223372036832400000 then '-infinity'
        else coalesce(date_format(timestamp_micros({{ number }}), "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"), {{ text }})
    end
{%- endmacro %}


{% macro iso_of_milliseconds(text, encoding=none, type=none) -%}
    {{ iso_of_microseconds(microseconds_of_milliseconds(text)) }}
{%- endmacro %}


{% macro iso_of_nanoseconds(text, encoding=none, type=none) -%}
    {%- set number = 'try_cast(' ~ text ~ ' as bigint)' -%}
    coalesce({{ infinite_nanoseconds(text) }}, concat(
        {{ iso_of_microseconds('floor(' ~ number ~ ' / 1000bd)') }},
        rtrim('0', lpad(cast(pmod({{ number }}, 1000) as string), 3, '0'))
    ))
{%- endmacro %}


{#-
  An infinite timestamp in nanoseconds, NULL where it is none: an end of a bigint, or, from older connectors, what a bigint
  keeps of a thousand times one of the two numbers above.
-#}
{% macro infinite_nanoseconds(text) -%}
    case
        when {{ text }} in ('9223372036854775807', '-29575808000') then 'infinity'
        when {{ text }} in ('-9223372036854775808', '22375808000') then '-infinity'
    end
{%- endmacro %}


{% macro microseconds_of_days(text, encoding=none, type=none) -%}
    coalesce(cast(try_multiply(try_cast({{ text }} as bigint), 86400000000) as string), {{ iso_of_days(text) }})
{%- endmacro %}


{% macro microseconds_of_milliseconds(text, encoding=none, type=none) -%}
    concat({{ text }}, '000')
{%- endmacro %}


{#- Spark keeps microseconds: a moment with digits behind them stays ISO 8601, which the type can't hold. -#}
{% macro microseconds_of_nanoseconds(text, encoding=none, type=none) -%}
    if(
        {{ text }} like '%000' and {{ infinite_nanoseconds(text) }} is null,
        left({{ text }}, length({{ text }}) - 3),
        {{ iso_of_nanoseconds(text) }}
    )
{%- endmacro %}


{#- A whole number without a unit is no moment yet: the declaration has to name its encoding. -#}
{% macro moment_without_unit(text, encoding=none, type=none) -%}
    if({{ is_whole(text) }}, {{ held_back(text) }}, {{ date_without_zone(text) }})
{%- endmacro %}


{% macro date_of_milliseconds(text, encoding=none, type=none) -%}
    {{ date_of(text, 86400000, iso_of_milliseconds(text)) }}
{%- endmacro %}


{% macro date_of_microseconds(text, encoding=none, type=none) -%}
    {{ date_of(text, 86400000000, iso_of_microseconds(text)) }}
{%- endmacro %}


{% macro date_of_nanoseconds(text, encoding=none, type=none) -%}
    {{ date_of(text, 86400000000000, iso_of_nanoseconds(text)) }}
{%- endmacro %}


{#- A moment at midnight is a date; another can't be one. -#}
{% macro date_of(text, units_per_day, iso) -%}
    {%- set number = 'try_cast(' ~ text ~ ' as bigint)' -%}
    if({{ number }} % {{ units_per_day }} = 0, cast({{ number }} div {{ units_per_day }} as string), {{ iso }})
{%- endmacro %}


{% macro is_whole(text) -%}
    {{ text }} rlike '^[-+]?[0-9]+$'
{%- endmacro %}


{#- Whether there are digits behind the microseconds, other than zeros. -#}
{% macro has_nanoseconds(text) -%}
    {{ text }} rlike '[.][0-9]{6}[0-9]*[1-9]'
{%- endmacro %}


{#- Spark's readers agree on the years 0001 to 9999. -#}
{% macro decode_date(text) -%}
    case
        when {{ is_whole(text) }} then case
            when try_cast({{ text }} as bigint) between -719162 and 2932896
                then date_add(date'1970-01-01', try_cast({{ text }} as int))
        end
        when {{ text }} rlike '^(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}$' then try_cast({{ text }} as date)
    end
{%- endmacro %}


{% macro decode_timestamp(text, type) -%}
    case
        when {{ is_whole(text) }} then case
            when try_cast({{ text }} as bigint) between -62135596800000000 and 253402300799999999
                then cast(timestamp_micros(try_cast({{ text }} as bigint)) as {{ type }})
        end
        when {{ text }} rlike '^(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}([T ]|$)' and not {{ has_nanoseconds(text) }}
            and try_cast({{ text }} as timestamp) between timestamp'0001-01-01' and timestamp'9999-12-31 23:59:59.999999'
            {#- Through the session's time zone, UTC: a cast to one without a zone drops the offset. -#}
            then cast(try_cast({{ text }} as timestamp) as {{ type }})
    end
{%- endmacro %}


{#- Binary. -#}
{% macro base64_of_url_safe(text, encoding=none, type=none) -%}
    translate({{ text }}, '-_', '+/')
{%- endmacro %}


{% macro base64_of_hex(text, encoding=none, type=none) -%}
    coalesce(base64(try_to_binary({{ text }}, 'hex')), {{ text }})
{%- endmacro %}


{#- Base64 of either alphabet, where nothing names it. Text of hexadecimal digits alone could be both, and is left. -#}
{% macro base64_of_any(text, encoding=none, type=none) -%}
    if({{ text }} rlike '^([0-9a-f]{2})+$', {{ held_back(text) }}, {{ base64_of_url_safe(text) }})
{%- endmacro %}


{#- Arrays, maps. -#}
{% macro is_array(type) -%}
    {{ return(type.startswith('array<')) }}
{%- endmacro %}


{% macro item_type(type) -%}
    {{ return(type[6:-1] | trim) }}
{%- endmacro %}


{#-
  Structs and maps. Their plain text is JSON with a plain text for each field, and one field that doesn't fit keeps the
  whole from its type. Types with parts that `decode` doesn't know are left to Spark's reader.
-#}
{% macro is_nested(type) -%}
    {{ return(type.startswith(('struct<', 'map<string,')) and is_decodable(type)) }}
{%- endmacro %}


{#- Whether every part of a type is one that `decode` knows. -#}
{% macro is_decodable(type) -%}
    {%- if not type.startswith(('struct<', 'map<', 'array<')) -%}
        {{ return(kind_of(type) is not none or type == 'boolean') }}
    {%- endif -%}
    {%- for field in fields_of_type(type) if not is_decodable(field.type) -%}
        {{ return(false) }}
    {%- endfor -%}
    {{ return(true) }}
{%- endmacro %}


{#- The fields of a struct type as {name, type}; key and value of a map, and an array's element, without names. -#}
{% macro fields_of_type(type) -%}
    {%- set found = [] -%}
    {%- set walk = namespace(depth=0, is_quoted=false, part='') -%}
    {%- for letter in type[type.index('<') + 1:-1] ~ ',' -%}
        {%- if letter == '`' -%}{%- set walk.is_quoted = not walk.is_quoted -%}{%- endif -%}
        {%- if not walk.is_quoted -%}
            {%- set walk.depth = walk.depth + {'<': 1, '(': 1, '>': -1, ')': -1}.get(letter, 0) -%}
        {%- endif -%}
        {%- if letter != ',' or walk.depth or walk.is_quoted -%}
            {%- set walk.part = walk.part ~ letter -%}
        {%- elif type.startswith('struct<') -%}
            {%- set told = modules.re.findall('(?s)^(?:`((?:[^`]|``)*)`|([^:` ]+)) *:? *(.*)$', walk.part | trim)[0] -%}
            {%- do found.append({'name': told[0].replace('``', '`') or told[1], 'type': told[2]}) -%}
            {%- set walk.part = '' -%}
        {%- else -%}
            {%- do found.append({'name': none, 'type': walk.part | trim}) -%}
            {%- set walk.part = '' -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(found) }}
{%- endmacro %}


{#- Whether a schema describes a value's fields, as that of a point does: their bytes are base64 then. -#}
{% macro is_struct(encoding) -%}
    {{ return(encoding not in ('map', 'io.debezium.data.Json') and not is_untold(encoding, none)) }}
{%- endmacro %}


{% macro plain_nested(json, type, plain=plain_untold) -%}
    {{ bound('value', 'try_parse_json(' ~ json ~ ')', plain_members(type, plain)) }}
{%- endmacro %}


{#- Expression in `value`, a variant: the plain text of a struct or a map; `plain` is the macro for a field's own. -#}
{% macro plain_members(type, plain) -%}
    {%- set fields = fields_of_type(type) -%}
    coalesce(
        to_json(transform_values(try_variant_get(value, '$', 'map<string,variant>'), (field, value) ->
            {%- if fields[0].name is none %}
            {{ plain(fields[1].type) }}
            {%- else %}
            case field
                {%- for one in fields %}
                when {{ text_literal(one.name) }} then {{ plain(one.type) }}
                {%- endfor %}
                else cast(value as string)
            end
            {%- endif %}
        )),
        {{ held_back('cast(value as string)') }}
    )
{%- endmacro %}


{#- Expression in `value`, a variant that no schema tells of: its plain text. -#}
{% macro plain_untold(type) -%}
    {%- set text = 'cast(value as string)' -%}
    {%- if is_nested(type) -%}
        {{ plain_members(type, plain_untold) }}
    {%- else -%}
        {{ never_lost(text, plain_of(text, none, '', {'type': type, 'encodings': ['']}), {'type': type}) }}
    {%- endif -%}
{%- endmacro %}


{#- The same of a value whose fields a schema describes. -#}
{% macro plain_told(type) -%}
    {%- if is_nested(type) -%}
        {{ plain_members(type, plain_told) }}
    {%- else -%}
        {{ 'cast(value as string)' if type == 'binary' else plain_untold(type) }}
    {%- endif -%}
{%- endmacro %}


{% macro decode_nested(text, type) -%}
    {%- set fields = fields_of_type(type) -%}
    {%- if fields[0].name is none -%}
        {%- set held = 'transform_values(texts, (name, item) -> ' ~ decode('item', fields[1].type) ~ ')' -%}
        {%- set lost = 'exists(map_keys(texts), name -> texts[name] is not null and held[name] is null)' -%}
    {%- else -%}
        {%- set parts, losses = [], [] -%}
        {%- for one in fields -%}
            {%- set item = 'texts[' ~ text_literal(one.name) ~ ']' -%}
            {%- do parts.append(text_literal(one.name) ~ ', ' ~ decode(item, one.type)) -%}
            {%- do losses.append(item ~ ' is not null and held.' ~ quoted(one.name) ~ ' is null') -%}
        {%- endfor -%}
        {%- set held = 'named_struct(' ~ parts | join(', ') ~ ')' -%}
        {%- set lost = losses | join(' or ') -%}
    {%- endif -%}
    {{ bound(
        'texts', read_json(text, 'map<string,string>'),
        'if(texts is null, null, ' ~ bound('held', held, 'if(' ~ lost ~ ', null, held)') ~ ')'
    ) }}
{%- endmacro %}


{#-
  JSON with a plain text for each element; elements that are plain as they stand are left, and so are whole numbers without
  a schema, of which no array is a BOOLEAN's.

  Args:
      declared: how elements are encoded where their schema doesn't tell
-#}
{% macro plain_array(json, encoding, type, declared='') -%}
    {%- set of_items = encoding[6:] if encoding.startswith('array:') else '' -%}
    {%- set item = 'cast(item as string)' -%}
    {%- set is_left = not declared and (is_array(type) or is_integral(type) and not of_items) -%}
    {%- set plain = item if is_left
        else plain_of(item, "nullif(to_json(item), 'null')", of_items, {'type': type, 'encoding': declared}) -%}
    {%- if plain == item -%}
        {{ json }}
    {%- else -%}
        to_json(transform({{ read_json(json, 'array<variant>') }}, item -> coalesce({{ plain }}, {{ item }})))
    {%- endif -%}
{%- endmacro %}


{#- An array of which one element doesn't fit is none. -#}
{% macro decode_array(text, type) -%}
    {%- set items = read_json(text, 'array<string>') -%}
    if(
        exists({{ items }}, item -> item is not null and {{ decode('item', type) }} is null),
        null,
        transform({{ items }}, item -> {{ decode('item', type) }})
    )
{%- endmacro %}


{#- An hstore as JSON text or as a map of its own: in one order of its keys. -#}
{% macro sorted_map(text) -%}
    {%- set entries = 'map_entries(' ~ read_json(text, 'map<string,string>') ~ ')' -%}
    coalesce(to_json(map_from_entries(array_sort({{ entries }}))), {{ text }})
{%- endmacro %}
