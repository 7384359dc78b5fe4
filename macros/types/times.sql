{#-
  Times, dates and moments. Those of day become HH:MM:SS.ffffff, with more digits where six don't do. MySQL's run from
  -838:59:59.
-#}

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


{#-
  TimezoneConverter writes one time with another offset in summer than in winter. Connectors write such times in UTC, and
  those stay as they come.
-#}
{% macro time_in_utc(text, encoding=none, type=none) -%}
    if(
        {{ text }} rlike '^[0-9:.]+[-+][0-9:]+$',
        coalesce(
            concat(
                date_format(try_cast(concat('1970-01-02T', {{ text }}) as timestamp), 'HH:mm:ss'),
                regexp_extract({{ text }}, '[.][0-9]+', 0),
                'Z'
            ),
            {{ text }}
        ),
        {{ text }}
    )
{%- endmacro %}


{#-
  PostgreSQL's connector writes an infinite date as what an int keeps of the days of a far one: snapshots of what the driver
  has for it, a day later where Java runs east of UTC, streams of a date of the connector's own, which older versions put
  in the wrong era. PostgreSQL has no date of any of these numbers.
-#}
{% macro infinite_days(text) -%}
    case
        when {{ text }} in ('-622191234', '-622191233', '-2147472692', '2146033979') then 'infinity'
        when {{ text }} in ('-625821272', '-625821271', '-2147472691') then '-infinity'
    end
{%- endmacro %}


{% macro iso_of_days(text, encoding=none, type=none) -%}
    coalesce({{ infinite_days(text) }}, cast(date_add(date'1970-01-01', try_cast({{ text }} as int)) as string), {{ text }})
{%- endmacro %}


{% macro days_or_infinite(text, encoding=none, type=none) -%}
    coalesce({{ infinite_days(text) }}, {{ text }})
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
    if({{ is_whole(text) }}, {{ marked(text) }}, {{ date_at_midnight(text) }})
{%- endmacro %}


{#- What is neither a day nor a moment, such as a time of day: its number is told as text would be. -#}
{% macro no_time(text, encoding, type=none) -%}
    if({{ is_whole(text) }}, {{ told_as_text(text, encoding) }}, {{ text }})
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
    coalesce({{ iso_of_microseconds(thousandfold(text)) }}, {{ text }})
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
    coalesce({{ thousandfold(text) }}, {{ marked(text) }})
{%- endmacro %}


{#- NULL beyond a bigint. -#}
{% macro thousandfold(text) -%}
    cast(try_multiply(try_cast({{ text }} as bigint), 1000) as string)
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
    if({{ is_whole(text) }}, {{ marked(text) }}, {{ date_without_zone(text) }})
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
