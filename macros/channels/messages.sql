{#-
  The logical decoding messages of a source: one row a message, however often it was delivered (R3, R17).

  A transactional message stands in the log where its transaction wrote it, and names it. Another one overtakes the
  transaction that it was written in, survives its rollback, and is in none.

  Args:
      prefix: the topic prefix, as the events spell it
      encoding: how the connector writes content (`binary.handling.mode`), where it is neither base64 nor hexadecimal that shows
-#}
{% macro messages(prefix, encoding=none) -%}
    {%- do check_options('messages', dict(kwargs, prefix=prefix, encoding=encoding)) -%}
    {%- set declared = {'messages_of': prefix, 'encoding': encoding} -%}
    {%- do config(meta={'tidemark': declared}, unique_key='message_id') -%}
    {%- set scope = channel_scope(declared, is_of_channel(['message'], prefix), stands_alone=true) -%}
{{ decision(scope) }}
{{ messages_query(prefix, encoding, scope.after) }}
{%- endmacro %}


{#- The content as a column of the message, as the macros of types take it. -#}
{% macro content_specs(encoding) -%}
    {{ return(column_specs({'content': {'type': 'binary', 'encoding': encoding}})) }}
{%- endmacro %}


{% macro messages_query(prefix, encoding, after) -%}
    {%- set specs = content_specs(encoding) -%}
    {%- set among = ['postgresql'] -%}
    {%- set fields = dict(clock_fields(), **{
        'source': source_ddl(among, ['db']), 'transaction': 'struct<id: string>', 'message': 'string'
    }) -%}
with

events as (

    select
        * except (parsed),
        {{ unwrapped_fields(fields) }},
        coalesce(contains(parsed.`schema`, '"bytes"'), false) as is_base64
    from (
        select
            source_label, topic, `partition`, `offset`, content_hash, batch_id, landed_at, op, connector,
            {{ read_wrapped(fields) }} as parsed
        from {{ lakehouse_table('bronze', 'records') }}
        where {{ is_of_channel(['message'], prefix) }} and batch_id > {{ after }}
    ) as records

),

contents as (

    select
        *,
        cast(null as bigint) as snapshot_lsn,
        {{ read_json('message', 'prefix string') }}.prefix as prefix,
        {{ read_json('message', row_ddl(specs)) }} as fields
    from events

),

placed as (

    select
        *,
        {{ by_connector('position', among) }} as place,
        {{ by_connector('identity', among) }} as identity,
        {{ by_connector('transaction', among) }} as transaction_id,
        {% if encoding -%}
        {{ plain_struct('fields', specs) }} as field_texts,
        {%- else -%}
        -- a schema tells bytes from text, which alone can be hexadecimal or base64
        if(is_base64, {{ plain_struct('fields', content_specs('base64')) }}, {{ plain_struct('fields', specs) }}) as field_texts,
        {%- endif %}
        cast(array() as array<string>) as unavailable_columns
    from contents

),

typed as (

    select
        *,
        {{ typed_struct('field_texts', specs) }} as typed_fields,
        {{ stable_id("'prefix', prefix, 'content', field_texts") }} as message_id
    from placed

),

ranked as (

    select *, {{ delivery_of('message_id') }} as delivery from typed

)

select
    message_id,
    prefix,
    typed_fields.content,
    {{ exact_values('field_texts', 'typed_fields', specs) }} as exact_values,
    transaction_id is not null as is_transactional,
    transaction_id,
    place as position,
    source.db,
    timestamp_micros({{ source_time() }}) as sent_at,
    {{ instant_of('ts_ms') }} as processed_at,
    topic,
    `partition`,
    `offset`,
    source_label,
    batch_id,
    landed_at
from ranked
where delivery = 1
{%- endmacro %}
