{#-
  The history of one captured table: one row per version of a key, half-open in UTC (R9 to R19).

  Args:
      changes: the name of the table's changes model, which declares key and columns
      granularity: `transaction`, so that only committed states are versions, or `event` (R11)
      track, ignore: the columns whose change makes a version; all, or all but (R12)
      snapshot_deletes: `report` or `close` what a complete later snapshot lacks, or `ignore` it where snapshots of the
          table are filtered and prove nothing (R16), as are those of documents: their reads have no place in the log, and one
          that is read again as it was is the same read
      reselected: columns whose values the connector may have read again, later than the change (R7)
      column_names: own column → another name for it, where the source has a column of that name
      rewritten_rows: up to how many living rows a run with news writes all of them anew
      sorted_changes: up to how many changes of a log that is read whole are all put in order by their key

  Returns: a query, with the decision on what to read in its first line.
-#}
{% macro history(
    changes, granularity='transaction', track=none, ignore=none, snapshot_deletes='report', reselected=[],
    column_names={}, rewritten_rows=500000, sorted_changes=100000
) -%}
    {%- set declared = {
        'changes': changes, 'granularity': granularity, 'track': track, 'ignore': ignore,
        'snapshot_deletes': snapshot_deletes, 'column_names': column_names
    } -%}
    {%- if reselected -%}{%- do declared.update({'reselected': reselected}) -%}{%- endif -%}
    {%- do check_options('history', dict(
        kwargs, rewritten_rows=rewritten_rows, sorted_changes=sorted_changes, **declared
    )) -%}
    {%- do config(meta={'tidemark': dict(declared, rewritten_rows=rewritten_rows)}) -%}
    {%- set changes_log = read(changes) -%}
    {%- for name in [transactions_of(changes), snapshots_of(changes)] if name -%}{%- do read(name) -%}{%- endfor -%}
    {%- if execute -%}
        {%- set table = declaration_of(changes, reselected) -%}
        {%- if table.documents and snapshot_deletes == 'close' -%}
            {{ exceptions.raise_compiler_error(
                model.name ~ ": snapshot_deletes='close' was asked for a history of documents, whose snapshots don't tell which"
                ~ ' documents they read. Leave it out.'
            ) }}
        {%- endif -%}
        {%- do declared.update({'snapshot_deletes': snapshot_deletes_of(table, declared)}) -%}
        {%- set tracked = tracked_columns(table, track, ignore) -%}
        {%- set scope = history_scope('gold', changes_log, table, declared, sorted_changes=sorted_changes) -%}
        {%- if scope.case == 'nothing' and is_building() -%}
            {{ return(as_it_is(scope)) }}
        {%- endif -%}
        {%- if scope.account and scope.case == 'keys' and (not scope.carried or scope.carried.refolded) -%}
            {#- The accounting has counted what these keys were before the news. -#}
            {%- set before = dict(
                scope, case='before', now=scope, carried=none,
                log='(select * from ' ~ scope.log ~ ' where not coalesce(' ~ scope.news ~ ', false))'
            ) -%}
            {%- do scope.account.update({'before': stage(
                'with ' ~ fold_steps(table, before, declared, tracked) ~ ' ' ~ noted_changes(table, before, tracked),
                'before'
            )}) -%}
        {%- endif -%}
        {%- set alone = scope.alone -%}
        {%- set version_steps = (['versions_alone'] if alone else [])
            + (['versions'] if not alone or alone.others else []) %}
{{ decision(scope) }}
with

{% if 'versions_alone' in version_steps -%}
{{ alone_steps(scope) }},

{% endif -%}
{%- if 'versions' in version_steps -%}
{{ fold_steps(table, scope, declared, tracked) }},

{% endif -%}
final as (

    {% for versions in version_steps -%}
    {{ 'union all' if not loop.first }}
    {{ accounted_rows(table, scope, tracked, column_names, versions) if scope.account
        else version_rows(table, column_names, versions) }}
    {% endfor %}

)

select * from final
    {%- endif -%}
{%- endmacro %}


{#-
  What a changes model declared, with the columns that only its log knows (R8), and what of them its history says is
  read again (R7). Owns R18: no key, no history.
-#}
{% macro declaration_of(changes, reselected=[]) -%}
    {%- set node = model_node(changes) -%}
    {%- set declared = node.config.meta.tidemark -%}
    {%- if not declared.key -%}
        {{ exceptions.raise_compiler_error(
            model.name ~ ': ' ~ changes ~ ' declares no key, and a table without a key has no history (R18).'
            ~ ' Declare a business key in ' ~ node.original_file_path ~ ', or remove this model.'
        ) }}
    {%- endif -%}
    {%- set columns = declared.columns + undeclared_in(relation_of(changes), declared.columns) -%}
    {%- set known_names = columns | map(attribute='name') | list -%}
    {%- set built = last_build(node.unique_id).get('columns') if is_building() else none -%}
    {%- if built -%}
        {#- The log is read as it was built, whatever has been declared since. -#}
        {%- set columns = as_built(columns, built) -%}
    {%- endif -%}
    {%- do check_columns('reselected', reselected, known_names) -%}
    {%- if reselected and declared.documents -%}
        {{ exceptions.raise_compiler_error(
            model.name ~ ': reselected: no connector reads documents again. The fields of an `after` that was looked up are'
            ~ ' named as unresolved without it.'
        ) }}
    {%- endif -%}
    {{ return({
        'unique_id': node.unique_id, 'name': declared.source, 'key': declared.key, 'documents': declared.documents,
        'columns': columns, 'known_names': known_names, 'reselected': reselected | reject('in', declared.key) | list,
        'rounded': rounded_in_reads(node, columns)
    }) }}
{%- endmacro %}


{#- The names of the columns that reads of a table round: those of single precision, where its connector does that. -#}
{% macro rounded_in_reads(node, columns) -%}
    {%- set names = columns | selectattr('type', 'equalto', 'float') | map(attribute='name') | list -%}
    {%- set source = source_of(node) if names and asks_bronze() else none -%}
    {%- if source -%}
        {%- for row in fields_seen(source.feed) if row[1] is none -%}
            {%- for name in fromjson(row[6])
                if (connector_of(name, source_options(source.name).connector) or {}).get('rounds_floats') -%}
                {{ return(names) }}
            {%- endfor -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return([]) }}
{%- endmacro %}


{#- Of columns those that a table was built with, [[name, type, …]], with the types that they have there. -#}
{% macro as_built(columns, built) -%}
    {%- set types = {} -%}
    {%- for column in built -%}{%- do types.update({column[0]: column[1]}) -%}{%- endfor -%}
    {%- set kept = [] -%}
    {%- for spec in columns if spec.name in types -%}{%- do kept.append(dict(spec, type=types[spec.name])) -%}{%- endfor -%}
    {{ return(kept) }}
{%- endmacro %}


{#- The columns that a log has beyond the declared ones. -#}
{% macro undeclared_in(changes_log, columns) -%}
    {%- set undeclared = [] -%}
    {%- if is_building() -%}
        {%- set declared = columns | map(attribute='name') | list -%}
        {%- set descriptions = graph.tidemark.columns -%}
        {%- if changes_log | string not in descriptions -%}
            {%- do descriptions.update({changes_log | string: columns_in(changes_log, 'after.*')}) -%}
        {%- endif -%}
        {%- for column in descriptions[changes_log | string] if column.name not in declared -%}
            {%- do undeclared.append(dict(column, field=column.name, sensitive=true)) -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return(undeclared) }}
{%- endmacro %}


{#- The columns whose change makes a version (R12), without the key: it never changes within a version. -#}
{% macro tracked_columns(table, track, ignore) -%}
    {%- set names = table.columns | map(attribute='name') | list -%}
    {%- do check_columns('track/ignore', (track or []) + (ignore or []), table.known_names) -%}
    {%- for name in ignore or [] if name in (track or []) or name in table.key -%}
        {{ exceptions.raise_compiler_error(
            model.name ~ ": ignore names '" ~ name ~ "', "
            ~ ('a column of the key: another value there is another row (R14). Take it out of `ignore`.' if name in table.key
                else 'and so does track. Take it out of one of them.')
        ) }}
    {%- endfor -%}
    {%- set tracked = [] -%}
    {%- for name in names
        if name not in table.key and (track is none or name in track) and name not in (ignore or []) -%}
        {%- do tracked.append(name) -%}
    {%- endfor -%}
    {{ return(tracked) }}
{%- endmacro %}
