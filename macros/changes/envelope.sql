{#-
  Expression: a record's key or value as JSON: its bytes, or the plain form that landing put beside them. That its bytes are
  text landing has seen, but for an outbox's events.
-#}
{% macro record_text(part) -%}
    coalesce(plain_{{ part }}, cast({{ part }} as string))
{%- endmacro %}


{#-
  Expression: JSON text as a type says; of a name that an object has twice the last counts. The reader's own limits, 20
  million letters of a text and 1,000 digits of a number, would give the whole record up.
-#}
{% macro read_json(text, ddl) -%}
    from_json({{ text }}, {{ text_literal(ddl) }}, map('maxStringLen', '2147483647', 'maxNumLen', '200000'))
{%- endmacro %}


{#- Everything the events of any connector say about where and when: read by name, as text, absent ones NULL. -#}
{% macro envelope_ddl(columns, among, documents=false, source_fields=[]) -%}
    {%- set row = 'string' if documents else row_ddl(columns) -%}
    {%- set block -%}
        op: string, ts_ms: string, ts_us: string, ts_ns: string, source: {{ source_ddl(among, source_fields) }}, transaction: struct<id: string, total_order: string>, before: {{ row }}, after: {{ row }}
        {{- ', `updateDescription`: ' ~ description_ddl() if documents }}
    {%- endset -%}
    struct<payload: struct<{{ block }}>, {{ block }}>
{%- endmacro %}


{#- Expression: the envelope of a value without a schema around it. -#}
{% macro without_payload(value, documents=false) -%}
    named_struct(
        {%- for part in ['op', 'ts_ms', 'ts_us', 'ts_ns', 'source', 'transaction', 'before', 'after'] + (['updateDescription'] if documents else []) -%}
            '{{ part }}', {{ value }}.{{ part }}{{ ', ' if not loop.last }}
        {%- endfor -%}
    )
{%- endmacro %}


{#-
  Expression: when it happened in the source, in µs since 1970: the source block's time in its finest unit, else the
  envelope's; 0 is no time. Owns R10. That times are whole numbers within the years 1 to 9999 landing has seen.

  Args:
      envelope: the column that holds the envelope, where its fields are no columns
-#}
{% macro source_time(envelope=none) -%}
    {%- set own = envelope ~ '.' if envelope else '' -%}
    coalesce(
        {%- for clock in [own ~ 'source.', own] %}
        nullif(cast({{ clock }}ts_ns as bigint), 0) div 1000,
        nullif(cast({{ clock }}ts_us as bigint), 0),
        nullif(cast({{ clock }}ts_ms as bigint), 0) * 1000{{ ',' if not loop.last }}
        {%- endfor %}
    )
{%- endmacro %}


{#- The fields of an envelope, or of a source block, that tell a time: name → type. -#}
{% macro clock_fields() -%}
    {{ return({'ts_ms': 'string', 'ts_us': 'string', 'ts_ns': 'string'}) }}
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
      told: an expression of it, read as `key_ddl` says
      text: the same as text
-#}
{% macro key_row(told, text, columns, key) -%}
    if({{ told }}.payload is null, {{ struct_of(told, text, columns, key) }}, {{ told }}.payload)
{%- endmacro %}


{#- Expression: a key without a schema beside it. -#}
{% macro struct_of(told, text, columns, key) -%}
    {%- if is_case_sensitive(columns) or has_payload(columns, key) -%}
        {#- No type has both a payload and all names that there can be: it is read again. -#}
        {{ read_row(text, row_ddl(columns, key), columns) }}
    {%- elif key -%}
        named_struct(
            {%- for spec in columns if spec.name in key -%}
                {{ text_literal(spec.field) }}, {{ told }}.{{ quoted(spec.field) }}{{ ', ' if not loop.last }}
            {%- endfor -%}
        )
    {%- else -%}
        cast(null as string)
    {%- endif -%}
{%- endmacro %}


{#- Expression: what a header holds, as text. -#}
{% macro header_text(name) -%}
    {%- set value = "get(filter(headers, header -> header.key = '" ~ name ~ "'), 0).value" -%}
    try_validate_utf8(cast({{ value }} as string))
{%- endmacro %}


{#- Expression: the names of a key's fields, as `key_row` has them. -#}
{% macro key_names(text) -%}
    coalesce(map_keys({{ read_json(text, 'struct<payload: map<string, string>>') }}.payload), json_object_keys({{ text }}))
{%- endmacro %}


{#-
  Expression: the key that a header names, as a row; NULL where there is no header, or where it lacks a declared column:
  then it links to no key (R14).
-#}
{% macro linked_row(text, columns, key) -%}
    {%- set fields = columns | selectattr('name', 'in', key) | map(attribute='field') | list -%}
    if(
        size(array_except({{ text_array(fields) }}, {{ key_names(text) }})) = 0,
        {{ bound('told', read_row(text, key_ddl(columns, key), columns), key_row('told', text, columns, key)) }},
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


{#-
  The placeholder as each type writes it, as a list of expressions: text, base64, hexadecimal, a list of one of these or of
  a UUID, character codes, a map of itself (R7). Behind `hex:` stand the digits of its bytes, and the connector makes its text
  of them.
-#}
{% macro placeholder_texts(placeholder) -%}
    {%- set codes = [] -%}
    {%- if placeholder.startswith('hex:') -%}
        {%- set bytes = 'unhex(' ~ text_literal(placeholder[4:]) ~ ')' -%}
        {%- set text = 'make_valid_utf8(cast(' ~ bytes ~ ' as string))' -%}
        {%- for start in range(4, placeholder | length, 2) -%}
            {%- set code = placeholder[start:start + 2] | int(base=16) -%}
            {#- Java's bytes have a sign. -#}
            {%- do codes.append(code - 256 if code > 127 else code) -%}
        {%- endfor -%}
    {%- else -%}
        {%- set text = text_literal(placeholder) -%}
        {%- set bytes = 'encode(' ~ text ~ ", 'utf-8')" -%}
        {%- for letter in placeholder -%}{%- do codes.append(ascii(letter)) -%}{%- endfor -%}
    {%- endif -%}
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


{#- The code of a printable ASCII letter; Jinja has no ord. -#}
{% macro ascii(letter) -%}
    {%- set printable = ' !"#$%&\'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~' -%}
    {{ return(printable.index(letter) + 32 if letter in printable else 63) }}
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
-#}
{% macro unavailable_columns(row, columns, absent) -%}
    {%- set texts = {} -%}
    {%- for spec in columns if can_be_left_out(spec) -%}
        {%- do texts.update({text_literal(spec.name): read_text(row, spec, columns)}) -%}
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
  whose row carries them.
-#}
{% macro unavailable_with_nulls(row, columns, absent) -%}
    {%- set placeholders = unavailable_columns(row, columns, absent) -%}
    {%- set silent = columns | selectattr('null_is_unchanged', 'true') | list -%}
    {%- if silent -%}
    concat({{ placeholders }}, if(
        {{ row }} is not null and (op = 'u' or op = 'c' and previous_key_text is not null),
        array_compact(array(
            {%- for spec in silent %}
            if(
                {{ read_text(row, spec, columns) }} is null
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


{#-
  Query: the changes of a table without a key, with `ordinal`: which of the equal changes of one run of deliveries each
  is (R3). Equal changes at one position within a run are different changes, and only a later run repeats them. A run
  ends where the position falls back or, where it ties in one transaction, `total_order` does not rise; a change without
  a place tells nothing of it. Equal reads are one change.

  Args:
      among: names of connectors, as `connectors` takes them
-#}
{% macro numbered_in_runs(changes, among) -%}
    {%- set by_offset = 'partition by source_label, topic, `partition`, log_number order by `offset` rows between unbounded preceding' -%}
    select
        *,
        if(op = 'r', 0, row_number() over (
            partition by source_label, topic, `partition`, log_number, run_no, {{ exact_json('identity') }} order by `offset`
        )) as ordinal
    from (
        select
            *,
            sum(if(op != 'r' and (
                if(
                    streamed.place <=> last_streamed.place and streamed.transaction_id <=> last_streamed.transaction_id,
                    coalesce(streamed.total_order, 0) <= last_streamed.total_order,
                    streamed.place < last_streamed.place
                )
            ), 1, 0)) over ({{ by_offset }} and current row) as run_no
        from (
            select
                *,
                last_value(if(op != 'r' and place is not null, streamed, null), true) over ({{ by_offset }} and 1 preceding)
                    as last_streamed
            from (
                select
                    *,
                    {{ change_identity([], among) }} as identity,
                    struct(
                        place,
                        {{ transaction_id(among) }} as transaction_id,
                        try_cast(transaction.total_order as bigint) as total_order
                    ) as streamed
                from {{ changes }}
            ) as placed
        ) as followed
    ) as run
{%- endmacro %}
