{#-
  The events of outbox topics, as EventRouter writes them: one row an event, its payload typed by declaration.

  An event is told by its id, which is in a header, with its key and value; delivered again it is the same one, and the delivery
  with the lowest partition and offset counts (as R3 has it for changes). One without an id repeats nothing. What the payload is,
  the application decides: text of any kind, JSON, or JSON in a text; `payload` has it as text, and the declared columns are
  fields of it where it is a JSON object.

  Args:
      topics: the Kafka topics
      columns: column → Spark type, or → {type, field, encoding, sensitive}, as `changes` takes them
-#}
{% macro outbox(topics, columns={}) -%}
    {%- do check_options('outbox', dict(kwargs, topics=topics, columns=columns)) -%}
    {%- set specs = column_specs(columns) -%}
    {%- for spec in specs if folded(spec.name) in event_columns() -%}
        {{ exceptions.raise_compiler_error(
            model.name ~ ": columns: '" ~ spec.name ~ "' is a column that every event has. Give this one another name, and say"
            ~ " `field: '" ~ spec.field ~ "'`."
        ) }}
    {%- endfor -%}
    {%- do config(meta={'tidemark': {'outbox': topics, 'payload': specs}}) -%}
    {%- set scope = channel_scope(
        {'topics': topics, 'columns': specs}, is_outbox_event(topics), stands_alone=false, columns=specs
    ) -%}
{{ decision(scope) }}
{{ outbox_events(topics, specs) }}
{%- endmacro %}


{#- The columns that every event has beside the declared ones. -#}
{% macro event_columns() -%}
    {{ return([
        'event_id', 'aggregate_type', 'aggregate_id', 'event_type', 'occurred_at', 'payload', 'exact_values', 'topic',
        'partition', 'offset', 'source_label', 'batch_id', 'landed_at'
    ]) }}
{%- endmacro %}


{#- Condition: whether a record of bronze is an event of the topics. -#}
{% macro is_outbox_event(topics) -%}
    {{ is_of_no_table() }} and kind = 'outbox' and topic in ({{ text_list(topics) }})
{%- endmacro %}


{#- Expression: an event's key or value as text; NULL where it is none: an application decides what its bytes are. -#}
{% macro valid_text(part) -%}
    try_validate_utf8({{ record_text(part) }})
{%- endmacro %}


{% macro outbox_events(topics, specs) -%}
with

events as (

    select
        *,
        {{ json_string(without_schema(header_text('id'))) }} as event_id,
        {{ json_string(without_schema(valid_text('key'))) }} as aggregate_id,
        {{ json_string(without_schema(header_text('type'))) }} as event_type,
        {{ json_string('nullif(' ~ valid_text('value') ~ ", 'null')") }} as payload
    from {{ lakehouse_table('bronze', 'records') }}
    where {{ is_outbox_event(topics) }}

),

ranked as (

    select
        *,
        -- where an emptied table counts from one, an id comes again with another event
        {{ delivery_of(
            'topic, event_id, sha2(key, 256), sha2(value, 256),'
            ~ ' if(event_id is null, struct(source_label, `partition`, `offset`, content_hash), null)'
        ) }} as delivery
    from events

),

read as (

    select
        *,
        {%- if specs %}
        {{ read_row('payload', row_ddl(specs), specs) }} as fields,
        {%- endif %}
        cast(array() as array<string>) as unavailable_columns
    from ranked
    where delivery = 1

),

texts as (

    select
        *,
        {{ plain_struct('fields', specs) }} as field_texts
    from read

),

typed as (

    select
        *,
        {{ typed_struct('field_texts', specs) }} as typed_fields
    from texts

)

select
    event_id,
    substring(topic, length('outbox.event.') + 1) as aggregate_type,
    aggregate_id,
    event_type,
    timestamp as occurred_at,
    payload,
    {%- for spec in specs %}
    typed_fields.{{ quoted(spec.name) }} as {{ quoted(spec.name) }},
    {%- endfor %}
    {{ exact_values('field_texts', 'typed_fields', specs) }} as exact_values,
    topic,
    `partition`,
    `offset`,
    source_label,
    batch_id,
    landed_at
from typed
{%- endmacro %}


{#- Expression: the text that JSON of one string spells; other text stays as it is. -#}
{% macro json_string(text) -%}
    {%- set strings = read_json("concat('[', " ~ text ~ ", ']')", 'array<string>') -%}
    if(startswith({{ text }}, '"'), coalesce(if(size({{ strings }}) = 1, {{ strings }}[0], null), {{ text }}), {{ text }})
{%- endmacro %}


{#- Expression: JSON text without the schema that JsonConverter puts around it; other text stays as it is. -#}
{% macro without_schema(text) -%}
    if(
        array_sort(json_object_keys({{ text }})) = array('payload', 'schema'),
        get_json_object({{ text }}, '$.payload'),
        {{ text }}
    )
{%- endmacro %}
