{#-
  Query: the versions that no change opened as they say, as {key, version_id}. It asks nothing of dbt: a test of dbt and a law
  of Great Expectations take it alike (expectations/rules/shared.py).

  A version begins with its change, or at the key's boundary before it; what a read began can have moved back (R10). What a
  first change found (R19) was another change's state, and is told with the last of the transaction (R11): a truncate too,
  or a change of key that was written as one (R14). Values are those of the change where it tells them (R7).

  Args:
      columns: [{name, type}], those of the history that the changes have too
      names: own column → its name in the history
      table: {source, key, documents}, as the changes model declares them
      declared: {track, ignore, reselected}, as far as the history's model says so
-#}
{% macro untold_versions(history, changes, columns, names, table, declared) -%}
{%- set told = ['position', 'topic', 'partition', 'offset'] -%}
{#- What were built apart can have keys of other types. -#}
{%- set is_of_its_key = key_text('versions.key') ~ ' = ' ~ key_text('changes.key') -%}
{%- set tracked = declared.get('track') -%}
{%- set ignored = [] -%}
{%- set compared = [] -%}
{%- for column in columns if column.name not in names.values() and column.name not in table.key -%}
    {%- set is_ignored = column.name in (declared.get('ignore') or []) or (tracked is not none and column.name not in tracked) -%}
    {%- do (ignored if is_ignored else compared).append(column) -%}
{%- endfor -%}
select
    versions.key,
    versions.version_id
from (
    select
        *,
        {{ hash_of_version(table.source) }} as usual_id,
        {{ hash_of_version(table.source, is_again=true) }} as id_of_another,
        lag(valid_to) over (partition by key order by place) as left_at
    from (
        select
            {{ whole_key(columns | map(attribute='name') | select('in', table.key) | list) }} as key,
            {%- for name in names if name not in told %}
            {{ own(name, names) }} as {{ name }},
            {%- endfor %}
            struct({{ place_of_version(names) }}) as place,
            struct({% for name in told %}{{ own(name, names) }} as {{ quoted(name) }}{{ ', ' if not loop.last }}{% endfor %}) as told_by,
            struct(*) as row
        from {{ history }}
    ) as stored
) as versions
left anti join {{ changes }} as changes
    on versions.told_by.topic = changes.topic
    and versions.told_by.`partition` = changes.`partition`
    and versions.told_by.`offset` = changes.`offset`
    and versions.told_by.position <=> changes.position
    and versions.transaction_id <=> changes.transaction_id
    and versions.version_id in (versions.usual_id, versions.id_of_another)
    and versions.is_start_known = ({{ is_start_known('versions.opened_by') }})
    and (
        coalesce(versions.valid_from = changes.changed_at, true)
        or (versions.valid_from > changes.changed_at and versions.valid_from = versions.left_at)
        or (versions.valid_from < changes.changed_at and changes.op = 'r')
    )
    and if(
        versions.opened_by = 'before',
        changes.op = 't' or {{ is_of_its_key }} or (changes.op = 'u' and changes.previous_key is not null),
        {{ is_of_its_key }}
        and (versions.opened_by = 'snapshot') = (changes.op = 'r')
        and (
            changes.op = 'r' or changes.previous_key is null or changes.previous_key = {{ key_text('changes.key') }}
            or versions.previous_key <=> changes.previous_key
        )
        {%- if not table.documents %}
        and size(array_except(
            array_except(versions.unresolved_columns, changes.unavailable_columns),
            {{ text_array(ignored | map(attribute='name') | list + (declared.get('reselected') or []) | list) }}
        )) = 0
        {%- for column in compared %}
        and (
            {{ comparable('versions.row.' ~ quoted(column.name), column.type) }}
            <=> {{ comparable('changes.after.' ~ quoted(column.name), column.type) }}
            or array_contains(changes.unavailable_columns, {{ text_literal(column.name) }})
        )
        {%- endfor %}
        {%- endif %}
    )
{%- endmacro %}


{#-
  Query: by `identity`, how many rows a current state has and how many open versions its history, and the first and the last
  of what they say in the columns of both. It asks nothing of dbt either.

  Args:
      identity: the columns that tell rows apart
      columns: those that both have
      is_open: which versions are open, as a condition
-#}
{% macro current_beside_history(current, history, identity, columns, is_open) -%}
select
    identity,
    count_if(is_current) as in_current,
    count_if(not is_current) as in_history,
    min(state) as first_state,
    max(state) as last_state
from (
    {%- for relation in [current, history] %}
    select
        {{ whole_key(identity) }} as identity,
        md5({{ exact_json(whole_key(columns)) }}) as state,
        {{ 'true' if loop.first else 'false' }} as is_current
    from {{ relation }}
    {{ 'union all' if loop.first else 'where ' ~ is_open }}
    {%- endfor %}
) as sides
group by identity
{%- endmacro %}


{#- Condition over it: whether current state has another row than the open version, or one of them is missing. -#}
{% macro is_not_as_open() -%}
    in_current = 0 or in_history = 0 or first_state != last_state
{%- endmacro %}
