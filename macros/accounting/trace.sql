{#-
  Query: what became of each change that some keys have met, by the fold that builds their history, and which versions it
  opened. `tidemark trace` asks it; it writes nothing, and needs no catalog.

  Args:
      history: the name of the table's history model, which a run has built
      changes_log: the relation of its changes
      keys: a relation that has the keys as JSON texts, in its column `key`, and all that are linked with them by changes
          of key (R7, R14)

  Columns: key; change_id, op, position, topic, partition, offset, changed_at, transaction_id, landed_at, problem, as the
      log has them; became, a disposition of `accounting`, with `waiting` for what landed behind the last run; signs, their
      names; columns, what of the row differs from the change of the key before it, as [{name, value}], the value as text;
      place, in whose order the rows of a key are told; and of the version that it opened, NULL where there is none:
      valid_from, valid_to, opened_by, closed_by, previous_key, next_key, unresolved_columns, version_id. A change that
      found a state (R19) may have two rows.
-#}
{% macro traced(history, changes_log, keys) -%}
    {%- if execute -%}
    {%- set declared = history_declaration(history) -%}
    {%- set changes = model_node(declared.changes) -%}
    {%- set progress = progress_so_far() -%}
    {%- set built = progress[changes.unique_id] -%}
    {%- set last = progress[model_node(history).unique_id] -%}
    {%- if known_scans(last) is string -%}
        {{ exceptions.raise_compiler_error(
            history ~ ': an earlier release has built it. Run `tidemark build`, and then trace again.'
        ) }}
    {%- endif -%}
    {%- set table = declaration_of(declared.changes, declared.get('reselected', [])) -%}
    {%- set columns = as_built(with_undeclared(table.columns, built.columns), built.columns) -%}
    {%- do table.update({'columns': columns, 'known_names': columns | map(attribute='name') | list}) -%}
    {%- set declared = dict(declared, snapshot_deletes=snapshot_deletes_of(table, declared)) -%}
    {%- set tracked = tracked_columns(table, declared.track, declared.ignore) -%}
    {%- set scope = {
        'case': 'keys', 'key': table.key, 'log': log_shown(changes_log, built, last.cut),
        'touched': [keys], 'hazards': hazards_of_log(built), 'scans': known_scans(last), 'carried': none, 'alone': none
    } -%}
    {%- do scope.update({'account': dict(whole_account(scope, declared), shared=true)}) -%}
    {%- set version -%}
        if(is_boundary and is_state, struct(
            version_from as valid_from,
            version_to as valid_to,
            opened_by,
            closed_by,
            opened_from as previous_key,
            closed_into as next_key,
            unresolved_columns,
            {{ version_id(table) }} as version_id
        ), null) as version
    {%- endset -%}
with

{{ fold_steps(table, scope, declared, tracked) }},

noted as (

    {{ noted_changes(table, scope, tracked, version) }}

),

folded as (

    select
        {{ key_text('key') }} as key,
        change_id,
        coalesce(outcome, 'opened') as became,
        signs.name as signs,
        version
    from noted
    where outcome is not null or version is not null
    union all
    select
        {{ key_text('key') }},
        explode(collapsed_changes),
        'collapsed',
        cast(array() as array<string>),
        null
    from noted

),

logged as (

    select
        *,
        {{ key_text('key') }} as key_as_text,
        lag(after) over (partition by key order by {{ place('log') }}) as former
    from {{ changes_log }} as log
    where exists (select 1 from {{ keys }} as keys where keys.key = {{ key_text('log.key') }}) or op = 't'

),

met as (

    select
        coalesce(folded.key, logged.key_as_text) as key,
        logged.* except (key),
        case
            when logged.problem is not null and folded.change_id is null then 'quarantined'
            when logged.batch_id > {{ last.batch_id }} then 'waiting'
            {%- if last.cut is not none %}
            when logged.position >= {{ text_literal(last.cut) }} then 'held_back'
            {%- endif %}
            else coalesce(folded.became, 'no_op')
        end as became,
        coalesce(folded.signs, array()) as signs,
        folded.version
    from logged
    left join folded on logged.change_id = folded.change_id
    where folded.change_id is not null or logged.op != 't'

)

select
    key,
    change_id,
    op,
    position,
    topic,
    `partition`,
    `offset`,
    changed_at,
    transaction_id,
    landed_at,
    problem,
    became,
    signs,
    {{ differing_columns(columns, table.key) }} as columns,
    {{ place('met', "if(coalesce(version.opened_by, 'before') = 'before', 0, 1)") }} as place,
    version.*
from met
    {%- endif -%}
{%- endmacro %}


{#- The declared columns, and behind them those that a log was built with beside them, as `columns_of` has them. -#}
{% macro with_undeclared(declared, built) -%}
    {%- set names = declared | map(attribute='name') | list -%}
    {%- set columns = declared | list -%}
    {%- for column in built if column[0] not in names -%}
        {%- do columns.append({'name': column[0], 'type': column[1], 'field': column[2], 'sensitive': true}) -%}
    {%- endfor -%}
    {{ return(columns) }}
{%- endmacro %}


{#- Expression over a change and the row that its key's change before it had: the columns that differ, as [{name, value}]. -#}
{% macro differing_columns(columns, key) -%}
    {%- set none_differs -%}cast(array() as array<struct<name: string, value: string>>){%- endset -%}
    {%- set compared = columns | rejectattr('name', 'in', key) | list -%}
    {%- if not compared -%}
        {{ none_differs }}
    {%- else -%}
    if(after is null, {{ none_differs }}, array_compact(array(
        {%- for spec in compared -%}
        {%- set column = quoted(spec.name) %}
        if(
            array_contains(unavailable_columns, {{ text_literal(spec.name) }})
            or (former is not null and {{ comparable('after.' ~ column, spec.type) }} <=> {{ comparable('former.' ~ column, spec.type) }}),
            null,
            struct({{ text_literal(spec.name) }} as name, {{ as_shown('after.' ~ column, spec.type) }} as value)
        ){{ ',' if not loop.last }}
        {%- endfor %}
    )))
    {%- endif -%}
{%- endmacro %}


{#- Expression: a value as people read it. -#}
{% macro as_shown(value, type) -%}
    {%- if type == 'binary' -%}
        hex({{ value }})
    {%- elif is_array(type) or is_nested(type) -%}
        to_json({{ value }})
    {%- else -%}
        cast({{ value }} as string)
    {%- endif -%}
{%- endmacro %}
