{#-
  Expression: a record's key or value as JSON: its bytes, or the plain form that landing put beside them. That its bytes are
  text landing has seen, but for an outbox's events.
-#}
{% macro record_text(part) -%}
    coalesce(plain_{{ part }}, cast({{ part }} as string))
{%- endmacro %}


{#-
  Expression: JSON text as a type says; of a name that an object has twice the last counts. The reader's own limits, 20
  million letters of a text and 1,000 digits of a number, would give the whole record up; and a field `_corrupt_record` would
  have what can't be read in place of its value.
-#}
{% macro read_json(text, ddl) -%}
    from_json({{ text }}, {{ text_literal(ddl) }}, map(
        'maxStringLen', '2147483647', 'maxNumLen', '200000', 'columnNameOfCorruptRecord', 'tidemark_name_of_no_field'
    ))
{%- endmacro %}


{#- Everything the events of any connector say about where and when: read by name, as text, absent ones NULL. -#}
{% macro envelope_ddl(columns, among, documents, source_fields) -%}
    {%- set row = 'string' if documents else row_ddl(columns) -%}
    {%- set block -%}
        op: string, ts_ms: string, ts_us: string, ts_ns: string, source: {{ source_ddl(among, source_fields) }}, transaction: struct<id: string, total_order: string>, before: {{ row }}, after: {{ row }}
        {{- ', `updateDescription`: ' ~ description_ddl() if documents }}
    {%- endset -%}
    struct<payload: struct<{{ block }}>, {{ block }}>
{%- endmacro %}


{#- Expression: the envelope of a value without a schema around it. -#}
{% macro without_payload(value, documents) -%}
    named_struct(
        {%- for part in ['op', 'ts_ms', 'ts_us', 'ts_ns', 'source', 'transaction', 'before', 'after'] + (['updateDescription'] if documents else []) -%}
            '{{ part }}', {{ value }}.{{ part }}{{ ', ' if not loop.last }}
        {%- endfor -%}
    )
{%- endmacro %}


{#-
  Expression: when it happened in the source, in µs since 1970: the source block's time in its finest unit, else the
  envelope's; 0 is no time. Belongs to R10. That times are whole numbers within the years 1 to 9999 landing has seen.

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


{#- Expression: what a header holds, as text. -#}
{% macro header_text(name) -%}
    {%- set value = "get(filter(headers, header -> header.key = '" ~ name ~ "'), 0).value" -%}
    try_validate_utf8(cast({{ value }} as string))
{%- endmacro %}
