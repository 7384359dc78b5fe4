{#- Numbers: the digits of each encoding, exact, and the decimal that they are. -#}

{% macro is_integral(type) -%}
    {{ return(type in ('tinyint', 'smallint', 'int', 'integer', 'bigint')) }}
{%- endmacro %}


{% macro is_floating(type) -%}
    {{ return(type in ('float', 'double')) }}
{%- endmacro %}


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
        if({{ is_whole(text) }}, {{ whole_digits(text, encoding, type) }}, {{ own_digits(text, type, 17) }})
    {%- elif type == 'float' -%}
        case
            when {{ is_whole(text) }} then {{ whole_digits(text, encoding, type) }}
            when cast(try_cast({{ text }} as float) as double) = try_cast({{ text }} as double)
                then {{ own_digits(text, 'double', 17) }}
            else {{ own_digits(text, type, 9) }}
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


{#- A whole number that a floating type would round is marked. -#}
{% macro whole_digits(text, encoding=none, type=none) -%}
    {%- if is_floating(type or '') -%}
        if(try_cast(try_cast({{ text }} as {{ type }}) as decimal(38, 0)) = try_cast({{ text }} as decimal(38, 0)), {{ text }}, {{ marked(text) }})
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
    {%- set exponent = "try_cast(regexp_extract(" ~ text ~ ", '[eE]([-+]?[0-9]{1,6})$', 1) as int)" -%}
    case
        when {{ text }} rlike '^[-+]?[0-9]+([.][0-9]*)?[eE][-+]?[0-9]{1,6}$' then {{ scaled_digits(
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
    {%- set from_base64 = 'coalesce(' ~ digits ~ ', ' ~ unread ~ ', ' ~ base64 ~ ')' -%}
    {%- set number = bound('number', json, number_digits('number')) -%}
    {{ digits_for('if(startswith(' ~ json ~ ", '\"'), " ~ from_base64 ~ ', ' ~ number ~ ')', type) }}
{%- endmacro %}


{% macro variable_decimal_digits(json, encoding, type) -%}
    {%- set digits = scaled_digits(
        unscaled_digits("get_json_object(" ~ json ~ ", '$.value')", true),
        "try_cast(get_json_object(" ~ json ~ ", '$.scale') as int)"
    ) -%}
    {{ digits_for('coalesce(' ~ digits ~ ', ' ~ json ~ ')', type) }}
{%- endmacro %}


{#- Digits that a floating type would round are marked. -#}
{% macro digits_for(digits, type) -%}
    {%- set unrounded = 'if(' ~ is_rounded('digits', type) ~ ', ' ~ marked('digits') ~ ', digits)' -%}
    {{ bound('digits', digits, unrounded) if is_floating(type) else digits }}
{%- endmacro %}


{#- The same of digits that can be the type's own, which are `most` then. -#}
{% macro own_digits(text, type, most) -%}
    if({{ is_rounded(text, type, most) }}, {{ marked(text) }}, {{ named_number(text) }})
{%- endmacro %}


{#-
  Condition: a floating type would round the digits. Of a decimal's it holds any 15, or 6, but of numbers too near to 0, which
  it has fewer for: of those it holds its own text. Their texts are long or have a minus: behind an `if`, since Spark computes
  both sides of an `or`.
-#}
{% macro is_rounded(digits, type, most=none) -%}
    {%- set least = '2.2250738585072014E-308D' if type == 'double' else '1.17549435E-38D' -%}
    {%- set other = ' and ' ~ digits ~ ' != cast(try_cast(' ~ digits ~ ' as ' ~ type ~ ') as string)' if most else '' -%}
    length(regexp_replace({{ digits }}, '^[-+0.]*|[^0-9eE]|0*([eE].*)?$', '')) > {{ most or (15 if type == 'double' else 6) }}
    {{- ' or if(length(' ~ digits ~ ') > 38 or contains(' ~ digits ~ ", '-')," }}
    {{- ' abs(try_cast(' ~ digits ~ ' as double)) < ' ~ least ~ ' and ' ~ digits ~ " rlike '^[-+0.]*[1-9]'" ~ other ~ ', false)' }}
{%- endmacro %}


{#-
  MySQL's BIGINT UNSIGNED in the mode `long`: values from 2^63 arrive as negative ones. So do those from 2^31 of an INTEGER
  UNSIGNED before Debezium 3.6.1.
-#}
{% macro unsigned_digits(text, encoding=none, type=none) -%}
    {%- set range = '4294967296bd' if encoding == 'int unsigned' else '18446744073709551616bd' -%}
    {%- set digits -%}
    if(
        startswith({{ text }}, '-'),
        cast(try_cast({{ text }} as decimal(20, 0)) + {{ range }} as string),
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
  Where it isn't of that form, or has digits behind the microseconds, it stays as it is.
-#}
{% macro interval_microseconds(text, encoding=none, type=none) -%}
    {%- set of_date = {'Y': 31557600000000, 'M': 2629800000000, 'D': 86400000000} -%}
    {%- set of_day = {'H': 3600000000, 'M': 60000000, 'S': 1000000} -%}
    {%- set form = '^P(?=.)(-?[0-9]+Y)?(-?[0-9]+M)?(-?[0-9]+D)?'
        ~ '(T(?=.)(-?[0-9]+H)?(-?[0-9]+M)?(-?[0-9]+([.][0-9]{1,6}0*)?S)?)?$' -%}
    case
        when {{ text }} rlike '{{ form }}' then cast(try_cast(
            {%- for unit, size in of_date.items() %}
            {{ '+ ' if not loop.first }}{{ interval_part("split_part(" ~ text ~ ", 'T', 1)", unit) }} * {{ size }}
            {%- endfor %}
            {%- for unit, size in of_day.items() %}
            + {{ interval_part("split_part(" ~ text ~ ", 'T', 2)", unit) }} * {{ size }}
            {%- endfor %}
            as bigint) as string)
        else {{ text }}
    end
{%- endmacro %}


{#- Expression: a part of an interval, 0 where it has none; NULL where it has more digits than a bigint's microseconds. -#}
{% macro interval_part(text, unit) -%}
    try_cast(coalesce(nullif(regexp_extract({{ text }}, '(-?[0-9.]+){{ unit }}', 1), ''), '0') as decimal(22, 9))
{%- endmacro %}


{#-
  The whole number in base64 of its bytes, as text; NULL where that is none. `is_wide` reads numbers of more than 16
  bytes too, up to 512.
-#}
{% macro unscaled_digits(base64, is_wide) -%}
    {%- set size = 'greatest(32, cast(ceil(length(hex) / 8) * 8 as int))' if is_wide else 'greatest(32, length(hex))' -%}
    {%- set inverted = "if(hex >= '8', translate(hex, '0123456789ABCDEF', 'FEDCBA9876543210'), hex)" -%}
    {%- set digits = 'coalesce(' ~ short_digits() ~ ', ' ~ long_digits() ~ ')' if is_wide else short_digits() -%}
    {%- set by_sign = bound('bits', 'lpad(' ~ inverted ~ ', ' ~ size ~ ", '0')", on_one_line(digits)) -%}
    {{ bound(
        'hex',
        "hex(try_to_binary(" ~ base64 ~ ", 'base64'))",
        'case when length(hex) between 1 and 1024 then ' ~ by_sign ~ ' end'
    ) }}
{%- endmacro %}


{#-
  Digits of the number `hex`, whose `bits` are inverted where it is negative (-1 - bits), and 32 digits wide at least. NULL
  where it has more than 38, or other bits before the last 128.
-#}
{% macro short_digits() -%}
    case when length(bits) = 32 or length(ltrim('0', bits)) <= 32 then cast(
        try_add(
            try_multiply(
                try_add(
                    try_multiply(
                        cast(conv(substr(bits, -32, 16), 16, 10) as decimal(38, 0)), 18446744073709551616bd
                    ),
                    cast(conv(substr(bits, -16), 16, 10) as decimal(38, 0))
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
            concat('([0-9]{', unscaled.scale, '})$'),
            '.$1'
        )
    {%- endset -%}
    {%- set pointed = on_one_line(pointed) -%}
    {%- set unscaled = "struct(" ~ digits ~ " as digits, " ~ scale ~ " as scale)" -%}
    {%- if scale is not number -%}
        {{ bound('unscaled', unscaled, 'case when unscaled.scale between -131072 and 0 then ' ~ shifted
            ~ ' when unscaled.scale between 1 and 20000 then ' ~ pointed ~ ' end') }}
    {%- elif scale == 0 -%}
        {{ digits }}
    {%- elif scale < -131072 or scale > 20000 -%}
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


{#- An expression that statements hold for each column, without the spaces that it is written with. -#}
{% macro on_one_line(expression) -%}
    {{ expression.split() | join(' ') }}
{%- endmacro %}
