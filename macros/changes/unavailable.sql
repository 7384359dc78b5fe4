{#- Values that an event leaves out as unchanged, and what stands in their place (R7). -#}


{#- The placeholders of a source: the declared one, and Debezium's own, which what came before another was set still has. -#}
{% macro placeholders(declared) -%}
    {{ return([declared, option_schema()['source'].placeholder.default] | unique(case_sensitive=true) | list) }}
{%- endmacro %}


{#-
  The placeholder as each type writes it, as a list of expressions: text, base64, hexadecimal, a list of one of these or of
  a UUID, its bytes as numbers, a map of itself (R7). Behind `hex:` stand the digits of its bytes, and the connector makes its
  text of them.
-#}
{% macro placeholder_texts(placeholder) -%}
    {%- set numbers = [] -%}
    {%- if placeholder.startswith('hex:') -%}
        {%- set bytes = 'unhex(' ~ text_literal(placeholder[4:]) ~ ')' -%}
        {%- set text = 'make_valid_utf8(cast(' ~ bytes ~ ' as string))' -%}
        {%- for start in range(4, placeholder | length, 2) -%}
            {%- do numbers.append(placeholder[start:start + 2] | int(base=16)) -%}
        {%- endfor -%}
    {%- else -%}
        {%- set text = text_literal(placeholder) -%}
        {%- set bytes = 'encode(' ~ text ~ ", 'utf-8')" -%}
        {%- do numbers.extend(placeholder.encode('utf-8')) -%}
    {%- endif -%}
    {%- set codes = [] -%}
    {#- Java's bytes have a sign. -#}
    {%- for number in numbers -%}{%- do codes.append(number - 256 if number > 127 else number) -%}{%- endfor -%}
    {%- set base64 = 'base64(' ~ bytes ~ ')' -%}
    {%- set digits = 'lower(hex(' ~ bytes ~ '))' -%}
    {%- set pair = 'to_json(map(' ~ text ~ ', ' ~ text ~ '))' -%}
    {%- set texts = [text, base64, 'translate(' ~ base64 ~ ", '+/', '-_')", digits] -%}
    {%- set lists = [] -%}
    {%- for one in texts + [uuid_of_name(bytes)] -%}{%- do lists.append('to_json(array(' ~ one ~ '))') -%}{%- endfor -%}
    {{ return(texts + lists + [text_literal('[' ~ codes | join(',') ~ ']'), pair]) }}
{%- endmacro %}


{#- Expression: the UUID that Java names bytes with, of version 3. -#}
{% macro uuid_of_name(bytes) -%}
    {%- set digits = 'md5(' ~ bytes ~ ')' -%}
    {%- set variant = "substring('89ab', cast(conv(substring(" ~ digits ~ ', 17, 1), 16, 10) as int) % 4 + 1, 1)' -%}
    concat(
        substring({{ digits }}, 1, 8), '-', substring({{ digits }}, 9, 4), '-3', substring({{ digits }}, 14, 3), '-',
        {{ variant }}, substring({{ digits }}, 18, 3), '-', substring({{ digits }}, 21, 12)
    )
{%- endmacro %}


{#-
  Whether values of a column can be left out: those of variable length, which are stored aside. A CLOB can hold a moment or a
  number, and be declared as one.
-#}
{% macro can_be_left_out(spec) -%}
    {%- for seen in spec.encodings or [''] if seen in ('', 'string', 'bytes') -%}{{ return(true) }}{%- endfor -%}
    {{ return(modules.re.match('string|binary|decimal|array|map|struct', spec.type) is not none) }}
{%- endmacro %}


{#-
  Expression: the names of the columns whose value the event leaves out as unchanged (R7). Mostly there is none, which one
  look at all texts tells.

  Args:
      only: the names of the columns that are asked of the row, which is read as all columns are; all where none
-#}
{% macro unavailable_columns(row, columns, absent, only=none) -%}
    {%- set texts, form = {}, row_form(columns) -%}
    {%- for spec in columns if can_be_left_out(spec) and (only is none or spec.name in only) -%}
        {%- do texts.update({text_literal(spec.name): read_text(field_of(row, spec, form), spec, form)}) -%}
    {%- endfor -%}
    {%- set none_of_them = 'cast(array() as array<string>)' -%}
    {%- if texts -%}
    if(
        arrays_overlap(array({{ texts.values() | join(', ') }}), array({{ absent | join(', ') }})),
        map_keys(map_filter(
            map({% for name, text in texts.items() %}{{ name }}, {{ text }}{{ ', ' if not loop.last }}{% endfor %}),
            (name, value) -> value in ({{ absent | join(', ') }})
        )),
        {{ none_of_them }}
    )
    {%- else -%}
    {{ none_of_them }}
    {%- endif -%}
{%- endmacro %}


{#-
  Expression: the same with the columns that leave an unchanged value out as NULL: those of an update, or of a change of key,
  whose row carries them. Where `before` has the value, the connector could have written it: then NULL is the new value.
-#}
{% macro unavailable_with_nulls(row, before, columns, absent) -%}
    {%- set placeholders = unavailable_columns(row, columns, absent) -%}
    {%- set silent = columns | selectattr('null_is_unchanged', 'true') | list -%}
    {%- if silent -%}
    {%- set form = row_form(columns) -%}
    concat({{ placeholders }}, if(
        {{ row }} is not null and (op = 'u' or op = 'c' and previous_key_text is not null),
        array_compact(array(
            {%- for spec in silent %}
            if(
                {{ read_text(field_of(row, spec, form), spec, form) }} is null
                and {{ read_text(field_of(before, spec, form), spec, form) }} is null
                {%- if not spec.is_always_there %}
                and not coalesce(array_contains(shapes.absent_columns, {{ text_literal(spec.name) }}), false)
                {%- endif -%}
                , {{ text_literal(spec.name) }}, null
            )
            {{- ',' if not loop.last }}
            {%- endfor %}
        )),
        {{ text_array([]) }}
    ))
    {%- else -%}
    {{ placeholders }}
    {%- endif -%}
{%- endmacro %}
