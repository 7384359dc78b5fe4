{#-
  The changes log of one captured table: each change once (R3), typed (R6), in the source's order (R4).

  Args:
      source_name, table: the dbt source; its `meta.feed` names the feed in bronze
      columns: column → Spark type, or → {type, field, encoding, null_is_unchanged, sensitive}: `field` is the name in the
          events where the column's differs, `encoding` how records without a schema write it, `null_is_unchanged` what
          NULL means in an update, `sensitive` keeps values out of reports
      key: the columns of the key; none for a table without one (R18)
      documents: whether its rows are documents (MongoDB); then a column's `field` is one of theirs, `$` for the whole
          document, and `id` for the key
      before_is_whole: whether `before` holds the whole row (R19); as the source's options say, or by connector
      source_fields: fields of the source block that the log has, too, as texts in its column `source_fields`: what a
          connector tells of a change that no rule reads, such as Oracle's `user_name`
      sorted_records: up to how many records are placed among each other by moving and sorting them whole

  Returns: a query. Its first line is a comment that tells the materialization what was decided.
-#}
{% macro changes(
    source_name, table, columns, key=none, before_is_whole=none, documents=false, source_fields=[], sorted_records=100000
) -%}
    {%- do check_options('changes', dict(
        kwargs, source_name=source_name, table=table, columns=columns, key=key, before_is_whole=before_is_whole,
        documents=documents, source_fields=source_fields, sorted_records=sorted_records
    )) -%}
    {%- for name in ['query', 'redo_sql'] if name in source_fields -%}
        {{ exceptions.raise_compiler_error(
            model.name ~ ": source_fields can't have '" ~ name ~ "': the text of a statement can hold what columns hide. It is"
            ~ ' in bronze.'
        ) }}
    {%- endfor -%}
    {%- set declared = {
        'columns': column_specs(columns), 'key': key or [], 'before_is_whole': before_is_whole,
        'source': source_name ~ '.' ~ table, 'documents': documents, 'source_fields': source_fields
    } -%}
    {%- set of_source = source_options(source_name) -%}
    {%- do config(meta={'tidemark': dict(
        declared, silent_after_minutes=of_source.silent_after_minutes, transaction_topic=of_source.transaction_topic
    )}) -%}
    {%- set captured = captured_table(source_name, table, declared) -%}
    {%- if execute -%}
        {%- set scope = changes_scope(captured) -%}
        {%- if scope.case == 'nothing' and is_building() -%}
            {{ return(as_it_is(scope)) }}
        {%- endif %}
        {#- A few narrow columns show which deliveries repeat others, and which reads stand before which changes. Nearly always
            none do, and no row has to be moved. To be asked, deliveries have to be held: this query gives them, and the
            materialization places them. Where they are few, sorting all of them is faster. -#}
        {%- set are_many = scope.records is none or scope.records > sorted_records -%}
        {%- do scope.update({'is_held': is_building() and scope.case in ('full', 'some') and are_many}) %}
{{ decision(scope) }}
{{ delivered_query(captured, scope) if scope.is_held else log_query(captured, scope) }}
    {%- endif -%}
{%- endmacro %}


{#-
  What is known of a captured table: as its model declares it, as its source's options say, and as bronze has seen it.

  Returns: {records, feed, columns, key, documents, full_updates, source_fields, connector, before_is_whole, placeholders,
  new_logs}
-#}
{% macro captured_table(source_name, table, declared) -%}
    {%- set of_source = source_options(source_name) -%}
    {%- set feed = feed_of(source_name, table) -%}
    {%- set columns = document_columns(declared.columns, declared.key) if declared.documents else columns_of(feed, declared.columns) -%}
    {%- do check_key(declared.key, columns) -%}
    {{ return({
        'records': source(source_name, table),
        'feed': feed,
        'columns': columns,
        'key': declared.key,
        'documents': declared.documents,
        'full_updates': of_source.full_updates,
        'source_fields': declared.source_fields,
        'connector': of_source.connector,
        'before_is_whole': of_source.before_is_whole if declared.before_is_whole is none else declared.before_is_whole,
        'placeholders': placeholders(of_source.placeholder),
        'new_logs': of_source.new_logs
    }) }}
{%- endmacro %}


{#-
  Query: the changes of a captured table, from the records that a scope names.

  Args:
      filled: a relation that holds what `read_steps` give, where they have been taken already
-#}
{% macro log_query(captured, scope, filled=none) -%}
with

{% if not filled -%}
{{ read_steps(captured, scope) }},

{% endif -%}
{{ delivery_steps(captured, scope, filled or 'filled') }},

{{ place_steps(scope, 'deliveries') }}

{{ as_log(scope) }}
{%- endmacro %}


{#- Query: the deliveries of a captured table's changes, from the records that a scope names, without their places. -#}
{% macro delivered_query(captured, scope) -%}
with

{{ read_steps(captured, scope) }},

{{ delivery_steps(captured, scope, 'filled') }}

select * from deliveries
{%- endmacro %}


{#-
  Query: the changes among deliveries that are held.

  Args:
      placing: what `placing_of` has found in them
-#}
{% macro placed_query(scope, deliveries, placing) -%}
with

{{ place_steps(scope, deliveries, placing) }}

{{ as_log(scope) }}
{%- endmacro %}


{#- The end of a query: the step `placed` as the log has it, without what positions are made of. -#}
{% macro as_log(scope) -%}
select
    change_id,
    op,
    key,
    {{ followed_position(scope) }} as position,
    * except (
        change_id, op, key, topic_life, connector, source, content_hash, snapshot_lsn, log_position
    )
from placed
{%- endmacro %}


{#- Steps up to `filled`: each record read, typed, and what it lacks, without a place among the others. -#}
{% macro read_steps(captured, scope) -%}
{{ envelope_steps(captured, scope) }},

{{ document_read_steps(captured, scope) if captured.documents else row_read_steps(captured, scope) }}
{%- endmacro %}


{#- Steps up to `envelopes`: each record of the feed with its envelope and its key, as their JSON has them. -#}
{% macro envelope_steps(captured, scope) -%}
    {%- set columns, key = captured.columns, captured.key -%}
    {%- set columns_of_key = columns | selectattr('name', 'in', key) | list if captured.documents else columns -%}
records as (

    select {{ spread(scope.records) }}*
    from {{ captured.records }}
    where feed = {{ text_literal(captured.feed) }}
        and {{ landed_since(scope.after, scope.batch_id) }}

),

{% if has_shapes(captured) -%}
shapes as (

    select
        shape_id,
        any_value({{ read_json(
            'to_json(map_from_entries(transform(fields, field -> struct(field.name, field.encoding))))',
            fields_ddl(columns, 'string')
        ) }}) as encodings,
        any_value({{ absent_columns('fields.name', columns) }}) as absent_columns
    from {{ lakehouse_table('bronze', 'shapes') }}
    where feed = {{ text_literal(captured.feed) }}
    group by shape_id

),

{% endif -%}
parsed as (

    select
        * except (value, key, plain_value, plain_key, headers),
        {{ read_row(
            record_text('value'),
            envelope_ddl(columns, scope.connectors, captured.documents, captured.source_fields),
            [] if captured.documents else columns
        ) }} as parsed_value,
        {{ read_row(record_text('key'), key_ddl(columns_of_key, key), columns_of_key) }} as parsed_key,
        {%- if not captured.documents %}
        {{ record_text('key') }} as record_key,
        {%- endif %}
        {{ header_text('__debezium.oldkey') }} as previous_key_text,
        {{ header_text('__debezium.newkey') }} as next_key_text
    from records

),

envelopes as (

    select
        * except (parsed_value, parsed_key),
        if(parsed_value.payload is null, {{ without_payload('parsed_value', captured.documents) }}, parsed_value.payload) as envelope,
        {{ key_row('parsed_key', 'record_key', columns_of_key, key) }} as raw_key
        {%- for link in links_of(captured) %},
        {{ linked_row(link ~ '_key_text', columns, key) }} as {{ link }}_row
        {%- endfor %}
    from parsed

)
{%- endmacro %}


{#- Whether the shapes of records have to be asked how columns are encoded, or which are there. -#}
{% macro has_shapes(captured) -%}
    {{ return(not captured.documents and shapes_differ(captured.columns)) }}
{%- endmacro %}


{#- The headers by which a change of key names another key: of that before, and of that behind it (R14). -#}
{% macro links_of(captured) -%}
    {{ return(['previous', 'next'] if captured.key and not captured.documents else []) }}
{%- endmacro %}


{#-
  Hint: that records are shared out before they are read. A landing of some thousands is one file, which one core alone
  would read; a larger one is in several files already.
-#}
{% macro spread(records) -%}
    {%- if 10000 <= (records or 0) < 100000 -%}
        /*+ repartition({{ [records // 5000, 8] | min }}, `offset`) */{{ ' ' }}
    {%- endif -%}
{%- endmacro %}


{#- Expression list over `envelopes`: what an event says beside the row's images. -#}
{% macro envelope_columns(captured) -%}
    envelopes.* except (envelope, raw_key, {{ 'record_key, ' if not captured.documents }}shape_id, connector),
        {{ ruling_connector(captured.connector) }} as connector,
        envelope.source as source,
        envelope.transaction as transaction,
        cast(null as bigint) as snapshot_lsn,
        envelope.before is not null as has_before,
        envelope.after is not null as has_after,
        {{ source_time('envelope') }} as changed_at_us,
        cast(envelope.ts_ms as bigint) as processed_at_ms
{%- endmacro %}


{#- Steps up to `deliveries`: in which log of the source each record is (R5), and the change that it delivers (R3). -#}
{% macro delivery_steps(captured, scope, filled) -%}
    {%- set key = captured.key -%}
in_logs as (

    {{ with_log_number(filled, scope.borders) }}

),

{% if not key -%}
numbered as (

    {{ numbered_in_runs('in_logs', scope.connectors) }}

),

{% endif -%}
deliveries as (

    select
        {%- set change -%}
            named_struct(
                'feed', feed,
                'change', {{ change_identity(key, scope.connectors) if key else 'identity' }},
                'ordinal', {{ '0' if key else 'ordinal' }}
            )
        {%- endset %}
        sha2({{ exact_json(change) }}, 256) as change_id,
        op,
        key_struct as key,
        log_number,
        server,
        {{ transaction_id(scope.connectors) }} as transaction_id,
        timestamp_micros(changed_at_us) as changed_at,
        timestamp_millis(processed_at_ms) as processed_at,
        op = 'r' as is_read,
        {{ snapshot_marker() }} as snapshot,
        topic,
        `partition`,
        `offset`,
        source_label,
        {{ content_order() }} as content_order,
        batch_id,
        landed_at,
        previous_key,
        next_key,
        unavailable_columns,
        absent_columns,
        exact_values,
        is_before_whole,
        problem,
        if({{ is_state_op() }}, after, null) as after,
        before,
        {%- if captured.documents %}
        document,
        {%- endif %}
        {%- if captured.source_fields %}
        named_struct(
            {%- for field in captured.source_fields -%}
                {{ text_literal(field) }}, source.{{ quoted(field) }}{{ ', ' if not loop.last }}
            {%- endfor -%}
        ) as source_fields,
        {%- endif %}
        topic_life,
        connector,
        source,
        content_hash,
        snapshot_lsn
    from {{ 'in_logs' if key else 'numbered' }}

)
{%- endmacro %}


{#-
  Steps up to `placed`: of the deliveries of a change the one that counts (R3), and where it stands (R4, R5).

  Args:
      placing: what `placing_of` has found, where it was asked
-#}
{% macro place_steps(scope, deliveries, placing=none) -%}
counted as (

    {% if placing and not placing.repeats -%}
    select * from {{ deliveries }}
    {%- else -%}
    select * except (delivery)
    from (
        select
            *,
            {{ delivery_of('change_id') }} as delivery
        from {{ deliveries }}
    ) as ranked
    where delivery = 1
    {%- endif %}

),

{% if scope.watermarks -%}
watermarks as (

    {{ watermarks_as_rows(scope.watermarks) }}

),

{% endif -%}
{% set reads = placing.reads if placing else none -%}
{% if has_read_places(scope, reads) -%}
read_places as (

    {{ read_places(deliveries, scope, reads) }}

),

{% endif -%}
behind as (

    {{ behind_snapshots('counted', scope, reads) }}

),

placed as (

    select
        *,
        {{ position_across_logs(by_connector('position', scope.connectors), scope.borders) }} as log_position
    from behind

)
{%- endmacro %}


{#-
  What held deliveries tell of how they can be placed.

  Returns: {repeats, reads, needs_window}
      repeats: whether a change was delivered twice; now and then also where two only seem to be one
      reads: as `snapshot_reads` has them; none where they can't be told, as of changes that are delivered twice
      needs_window: whether they are placed by looking at whole rows among each other
-#}
{% macro placing_of(deliveries, scope) -%}
    {%- set counts = run_query('select count(*), count(distinct xxhash64(change_id)) from ' ~ deliveries)[0] -%}
    {%- set repeats = counts[0] > counts[1] -%}
    {%- set reads = none if repeats else snapshot_reads(deliveries, scope) -%}
    {{ return({
        'repeats': repeats, 'reads': reads, 'needs_window': repeats or reads is none or scope.has_placeless
    }) }}
{%- endmacro %}


{#-
  Expression: the code of what keeps a change out of histories, NULL mostly (R2): rules that nobody knows, a place in the
  log that its event doesn't tell, or a key that can't be decoded, or is of another shape (R8), and so names no row. The
  change stays in the log, and shows in the quarantine until another declaration understands it.
-#}
{% macro problem(columns, key, among, tells_key, documents=false) -%}
    {%- set tells_documents = is_connector('has_documents', among) -%}
    case
        when connector is null then 'connector_unknown'
        {%- if documents %}
        when not {{ tells_documents }} then 'row_not_document'
        {%- elif tells_documents != 'false' %}
        when {{ tells_documents }} then 'document_undeclared'
        {%- endif %}
        when op != 'r' and place is null then 'position_unknown'
        {%- if not documents %}
        when {{ is_state_op() }} and not has_after then 'row_not_read'
        {%- endif %}
        {%- if key and not documents %}
        when {{ is_key_missing(columns, key, tells_key) }} then 'key_not_told'
        {%- endif %}
        {%- if key %}
        when {% for spec in columns if spec.name in key -%}
            {{ 'or ' if not loop.first }}{{ is_key_undecoded(spec, documents, tells_key) }}
        {% endfor -%}
            then 'key_not_decoded'
        {%- endif %}
    end
{%- endmacro %}
