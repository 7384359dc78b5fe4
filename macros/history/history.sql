{#-
  The history of one captured table: one row per version of a key, half-open in UTC (R9 to R19).

  Args:
      changes: the name of the table's changes model, which declares key and columns
      granularity: `transaction`, so that only committed states are versions, or `event` (R11)
      track, ignore: the columns whose change makes a version; all, or all but (R12)
      snapshot_deletes: `report` or `close` what a complete later snapshot lacks (R16)
      column_names: own column → another name for it, where the source has a column of that name

  Returns: a query, with the decision on what to read in its first line.
-#}
{% macro history(
    changes, granularity='transaction', track=none, ignore=none, snapshot_deletes='report', column_names={}
) -%}
    {%- do only_known_options(
        'history', kwargs, ['changes', 'granularity', 'track', 'ignore', 'snapshot_deletes', 'column_names']
    ) -%}
    {%- do only_known_values('history', 'granularity', granularity, ['transaction', 'event']) -%}
    {%- do only_known_values('history', 'snapshot_deletes', snapshot_deletes, ['report', 'close']) -%}
    {%- do config(meta={'tidemark': {
        'changes': changes, 'granularity': granularity, 'track': track, 'ignore': ignore,
        'snapshot_deletes': snapshot_deletes, 'column_names': column_names
    }}) -%}
    {%- set log = ref(changes) -%}
    {%- if execute -%}
        {%- set table = declaration_of(changes) -%}
        {%- set tracked = tracked_columns(table, track, ignore) -%}
        {%- set scope = history_scope(log) -%}
{{ decision(scope) }}
with

{{ fold_steps(log, table, scope, granularity, tracked, snapshot_deletes) }},

final as (

    {{ version_rows(table, column_names) }}

)

select * from final
    {%- endif -%}
{%- endmacro %}


{#- What a changes model declared, with the columns that only bronze knows (R8). -#}
{% macro declaration_of(changes) -%}
    {%- for node in graph.nodes.values() if node.resource_type == 'model' and node.name == changes -%}
        {%- set declared = node.config.meta.tidemark -%}
        {%- set source = declared.source.split('.') -%}
        {%- set feed = feed_of(source[0], declared.source[source[0] | length + 1:]) -%}
        {%- if not declared.key -%}
            {{ exceptions.raise_compiler_error(
                model.name ~ ': ' ~ changes ~ ' declares no key, and a table without a key has no history (R18).'
                ~ ' Declare a business key in ' ~ node.original_file_path ~ ', or remove this model.'
            ) }}
        {%- endif -%}
        {{ return({
            'name': declared.source, 'feed': feed, 'key': declared.key,
            'columns': declared.columns + undeclared_columns(feed, declared.columns),
            'before_is_whole': declared.before_is_whole
        }) }}
    {%- endfor -%}
    {{ exceptions.raise_compiler_error(model.name ~ ": there is no changes model '" ~ changes ~ "'.") }}
{%- endmacro %}


{#- The columns whose change makes a version (R12), without the key: it never changes within a version. -#}
{% macro tracked_columns(table, track, ignore) -%}
    {%- set known = table.columns | map(attribute='name') | list -%}
    {%- for name in (track or []) + (ignore or []) if name not in known -%}
        {%- do only_known_options('track/ignore', {name: none}, known) -%}
    {%- endfor -%}
    {%- set tracked = [] -%}
    {%- for name in known
        if name not in table.key and (track is none or name in track) and name not in (ignore or []) -%}
        {%- do tracked.append(name) -%}
    {%- endfor -%}
    {{ return(tracked) }}
{%- endmacro %}


{#-
  What this run of a history or current model has to read of the log, decided here alone:
      full      the table is new or refreshed: the whole log
      nothing   the log has nothing that the last run had not
      keys      the log of the keys that have new changes
      table     the whole log, and then what differs is written: a truncate, or a value to be filled from another
                key, reaches keys that have no new change
-#}
{% macro history_scope(log) -%}
    {%- if not is_building() -%}
        {{ return({'case': 'full', 'batch_id': none, 'truncates': true, 'unavailable': true, 'absent': true, 'before': true}) }}
    {%- endif -%}
    {%- set whole = run_query(
        "select max(batch_id), count_if(op = 't'), count_if(size(unavailable_columns) > 0),"
        ~ ' count_if(size(absent_columns) > 0), count_if(previous_key is not null) from ' ~ log
    )[0] -%}
    {%- set hazards = {
        'truncates': (whole[1] or 0) > 0, 'unavailable': (whole[2] or 0) > 0, 'absent': (whole[3] or 0) > 0, 'before': true,
        'linked': (whole[2] or 0) > 0 and (whole[4] or 0) > 0
    } -%}
    {%- if is_first_build() -%}
        {{ return(dict(hazards, case='full', batch_id=whole[0], log=log | string)) }}
    {%- endif -%}
    {%- set after = last_batch_of(model.unique_id) -%}
    {%- if whole[0] is none or whole[0] <= after -%}
        {{ return(dict(hazards, case='nothing', batch_id=none)) }}
    {%- endif -%}
    {%- set truncated = run_query(
        'select count(*) from ' ~ log ~ " where op = 't' and batch_id > " ~ after
    )[0][0] -%}
    {{ return(dict(
        hazards, case='table' if truncated or hazards.linked else 'keys', batch_id=whole[0], after=after,
        log=log | string
    )) }}
{%- endmacro %}
