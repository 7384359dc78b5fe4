{#-
  The changes log of one captured table: each change once (R3), typed (R6), in the source's order (R4).

  Args:
      source_name, table: the dbt source; its `meta.feed` names the feed in bronze
      columns: column → Spark type, or → {type, field, sensitive}: `field` is the name in the events where the
          column's differs, `sensitive` keeps values out of reports
      key: the columns of the key; none for a table without one (R18)
      placeholder: the text that stands for an unchanged value (R7)
      before_is_whole: whether `before` holds the whole row (R19); by connector where not said

  Returns: a query. Its first line is a comment that tells the materialization what was decided.
-#}
{% macro changes(
    source_name, table, columns, key=none, placeholder='__debezium_unavailable_value', before_is_whole=none
) -%}
    {%- do only_known_options('changes', kwargs, ['columns', 'key', 'placeholder', 'before_is_whole']) -%}
    {%- set columns = column_specs(columns) -%}
    {%- set key = key or [] -%}
    {%- do config(meta={'tidemark': {
        'columns': columns, 'key': key, 'before_is_whole': before_is_whole, 'source': source_name ~ '.' ~ table
    }}) -%}
    {%- set records = source(source_name, table) -%}
    {%- set feed = feed_of(source_name, table) -%}
    {%- set columns = columns + undeclared_columns(feed, columns) -%}
    {%- set scope = changes_scope(records, feed, key) -%}
    {%- set absent = placeholder_texts(placeholder) -%}
{{ decision(scope) }}
with

records as (

    select *
    from {{ records }}
    where feed = {{ text_literal(feed) }}
        and kind in ('change', 'truncate')
        and batch_id > {{ scope.after }}

),

shapes as (

    select distinct
        shape_id,
        from_json(
            to_json(map_from_entries(transform(fields, field -> struct(field.name, field.encoding)))),
            {{ text_literal(fields_ddl(columns, 'string')) }}
        ) as encodings,
        array_except({{ text_array(columns | map(attribute='field') | list) }}, fields.name) as absent_fields
    from {{ lakehouse_table('bronze', 'shapes') }}
    where feed = {{ text_literal(feed) }}

),

parsed as (

    select
        * except (value, key, headers),
        from_json(decode(value, 'utf-8'), {{ text_literal(envelope_ddl(columns)) }}) as parsed_value,
        from_json(decode(key, 'utf-8'), {{ text_literal(key_ddl(columns, key)) }}) as parsed_key,
        {{ header_text('__debezium.newkey') }} as next_key,
        {{ header_text('__debezium.oldkey') }} as previous_key
    from records

),

envelopes as (

    select
        * except (parsed_value, parsed_key),
        if(parsed_value.payload is null, {{ without_payload('parsed_value', columns) }}, parsed_value.payload) as envelope,
        if(parsed_key.payload is null, {{ struct_of('parsed_key', columns, key) }}, parsed_key.payload) as raw_key
    from parsed

),

texts as (

    select
        envelopes.* except (envelope, raw_key, shape_id),
        envelope.source as source,
        envelope.transaction.id as transaction,
        envelope.before is not null as has_before,
        envelope.after is not null as has_after,
        coalesce(
            nullif(cast(envelope.source.ts_ns as bigint), 0) div 1000,
            nullif(cast(envelope.source.ts_us as bigint), 0),
            nullif(cast(envelope.source.ts_ms as bigint), 0) * 1000,
            cast(envelope.ts_ms as bigint) * 1000
        ) as changed_at_us,
        cast(envelope.ts_ms as bigint) as processed_at_ms,
        {{ plain_struct('envelope.after', columns) }} as after_text,
        {{ plain_struct('envelope.before', columns) }} as before_text,
        {{ plain_struct('raw_key', columns, key) }} as key_text,
        coalesce(shapes.absent_fields, cast(array() as array<string>)) as absent_columns,
        {{ unavailable_columns('envelope.after', columns, absent) }} as unavailable_columns
    from envelopes
    left join shapes on envelopes.shape_id = shapes.shape_id

),

typed as (

    select
        *,
        {{ typed_struct('after_text', columns) }} as after_typed,
        {{ typed_struct('before_text', columns) }} as before_typed,
        {{ typed_struct('key_text', columns, key) if key else 'cast(null as struct<none: string>)' }} as key_typed
    from texts

),

filled as (

    select
        *,
        {{ known_struct('after_typed', columns) }} as after,
        if(has_before, before_typed, null) as before,
        {{ exact_values('after_text', 'after_typed', columns) }} as exact_values,
        {{ key_struct(columns, key) }} as key_struct
    from typed

),

placed as (

    select
        *,
        {{ position('connector', 'source', last_snapshot_lsn()) }} as position
    from filled

),

identified as (

    select
        *,
        {{ change_ordinal(key) }} as ordinal
    from placed

),

deliveries as (

    select
        *,
        sha2(to_json(named_struct(
            'feed', feed,
            'change', {{ change_identity('key_struct', 'op', 'connector', 'source', 'after_text') }},
            'ordinal', ordinal
        )), 256) as change_id
    from identified

),

ranked as (

    select
        *,
        row_number() over (
            partition by change_id order by `partition`, `offset`, topic, source_label, content_hash
        ) as delivery
    from deliveries

)

select
    change_id,
    op,
    key_struct as key,
    position,
    {{ transaction_id('connector', 'op', 'source', 'transaction') }} as transaction_id,
    timestamp_micros(changed_at_us) as changed_at,
    timestamp_millis(processed_at_ms) as processed_at,
    op = 'r' as is_read,
    coalesce(source.snapshot, 'false') as snapshot,
    if(op in ('c', 'u', 'r'), after, null) as after,
    before,
    unavailable_columns,
    absent_columns,
    exact_values,
    previous_key,
    next_key,
    topic,
    `partition`,
    `offset`,
    source_label,
    batch_id,
    landed_at
from ranked
where delivery = 1
{%- endmacro %}
