{#-
  Query: what became of each change that some keys have met, by the fold that builds their history, and which versions it
  opened; and, where that can be told, in what the history that is stored differs. `tidemark trace` asks it; it writes nothing,
  and needs no catalog. Empty where no build of the log and the history has written down how far it came: it was killed, or is
  to come.

  Args:
      history: the name of the table's history model
      stored: the relation of its versions
      changes_log: the relation of its changes
      keys: a relation that has the keys as JSON texts, in its column `key`, and all that are linked with them by changes
          of key (R7, R14)

  Columns: key; change_id, op, position, topic, partition, offset, changed_at, transaction_id, landed_at, problem, as the
      log has them; became, a disposition of `accounting`, with `waiting` for what landed behind the last run; signs, their
      names; is_end, whether it can end versions of the key and open none; columns, what of the row differs from the change
      of the key before it, as [{name, value}], the value as text, nothing of the row of another key, unless it came from
      this one; place, in whose order the rows of a key are told; and of the version that it opened, NULL where there is none:
      valid_from, valid_to, opened_by, closed_by, previous_key, next_key, unresolved_columns, version_id; is_stored, whether the
      history has that version, and otherwise, the names of the columns in which it differs there: NULL where the history isn't
      compared. A change that found a state (R19) may have two rows. A version that the history has and no change opened is a
      row without a change.
-#}
{% macro traced(history, stored, changes_log, keys) -%}
    {%- if execute -%}
    {%- set declared = history_declaration(history) -%}
    {%- set changes = model_node(declared.changes) -%}
    {%- set progress = progress_so_far() -%}
    {%- set built = progress.get(changes.unique_id) -%}
    {%- set last = progress.get(model_node(history).unique_id) -%}
    {%- if not (built and last) -%}
        {{ return('') }}
    {%- endif -%}
    {%- set table = declaration_of(declared.changes, declared.get('reselected', [])) -%}
    {%- set columns = as_built(with_undeclared(table.columns, built.columns), built.columns) -%}
    {%- do table.update({
        'columns': columns, 'known_names': columns | map(attribute='name') | list,
        'rounded': rounded_in_reads(changes, columns)
    }) -%}
    {%- set declared = dict(declared, snapshot_deletes=snapshot_deletes_of(table, declared)) -%}
    {%- set tracked = tracked_columns(table, declared.track, declared.ignore) -%}
    {%- set compared = columns | rejectattr('name', 'in', table.key) | list -%}
    {%- set scope = {
        'case': 'keys', 'key': table.key,
        'log': '(select * from ' ~ log_shown(changes_log, built, last.cut) ~ ' where batch_id <= ' ~ last.batch_id ~ ')',
        'touched': keys, 'hazards': hazards_of_log(built), 'scans': known_scans(last), 'in_doubt': known_doubts(last),
        'carried': none, 'alone': none
    } -%}
    {%- do scope.update({'account': dict(whole_account(scope, declared), shared=true)}) -%}
    {%- set names = declared.column_names -%}
    {%- set is_compared = is_built_to_end(stored, changes_log, declared, table, last) -%}
with

{{ fold_steps(table, scope, declared, tracked) }},

{{ became_steps(table, scope, tracked, names, is_compared) }},

{{ met_steps(log_shown(changes_log, built, none), keys, last, compared) }},

{{ shown_steps(compared) }}
{%- if is_compared %},

{{ comparison_steps(table, stored, keys, names) }}

select * from judged
{%- else %}

select
    *,
    cast(null as boolean) as is_stored,
    cast(null as array<string>) as otherwise
from shown
{%- endif %}
    {%- endif -%}
{%- endmacro %}


{#- Steps to `folded`: of each key and change what became of it, by the fold, and the version that it opened. -#}
{% macro became_steps(table, scope, tracked, names, is_compared) -%}
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
            {%- if is_compared %},
            struct(
                {{ version_columns(table, names) }}
            ) as row
            {%- endif %}
        ), null) as version,
        is_boundary
    {%- endset -%}
noted as (

    {{ noted_changes(table, scope, tracked, version) }}

),

folded as (

    select
        {{ key_text('key') }} as key,
        change_id,
        -- the version of a change that found a state can be that state's alone (R19)
        case
            when version is null and disposition = 'opened' then if(is_boundary, 'closed_only', 'no_op')
            else coalesce(disposition, 'opened')
        end as became,
        signs.name as signs,
        version
    from noted
    where disposition is not null or version is not null
    union all
    select
        {{ key_text('key') }},
        explode(collapsed_changes),
        'collapsed',
        cast(array() as array<string>),
        null
    from noted

)
{%- endmacro %}


{#- Steps to `met`: the changes of the keys in a log, and those of others that ended their versions, with what became of each. -#}
{% macro met_steps(log, keys, last, compared) -%}
logged as (

    select
        *,
        {{ key_text('key') }} as key_as_text,
        {{ last_carried(compared) }} as former
    from {{ log }} as log
    where
        exists (select 1 from {{ keys }} as keys where keys.key = {{ key_text('log.key') }})
        -- what ends versions can be a change of another key, or of none (R14, R15, R16)
        or exists (select 1 from folded where folded.change_id = log.change_id)
    window earlier as (partition by key order by {{ place('log') }} rows between unbounded preceding and 1 preceding)

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
        logged.op in ('d', 't') or not coalesce(folded.key, logged.key_as_text) <=> logged.key_as_text as is_end,
        folded.version,
        {{ place('logged', "if(folded.version.opened_by = 'before', 0, 1)") }} as place
    from logged
    left join folded on logged.change_id = folded.change_id

)
{%- endmacro %}


{#- Steps to `shown`: what of that is told, with the columns that differ from the change of the key before. -#}
{% macro shown_steps(compared) -%}
told as (

    select
        *,
        -- the row of the change of the key before this one, which may have two rows here (R19)
        not is_end and if(
            lag(change_id) over by_place <=> change_id,
            lag(if(is_end, null, after), 2) over by_place,
            lag(if(is_end, null, after)) over by_place
        ) is not null as goes_on
    from met
    window by_place as (partition by key order by place)

),

shown as (

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
        is_end,
        {{ differing_columns(compared) }} as columns,
        place,
        version.*
    from told

)
{%- endmacro %}


{#-
  Whether a history holds what its log tells, unless something else has changed either: its last build has come to its end and
  to that of the log, and nothing is declared otherwise since.
-#}
{% macro is_built_to_end(stored, changes_log, declared, table, last) -%}
    {%- set writer = written_by(stored) -%}
    {{ return(
        last.get('declared') == hash_of_declaration(what_makes_rows(declared, table))
        and last.get('log_made_in', '') == log_made_in(changes_log)
        and writer in [none, last.get('left_as')]
        and not has_rows('select 1 from ' ~ changes_log ~ ' where batch_id > ' ~ last.batch_id)
    ) }}
{%- endmacro %}


{#- Steps to `judged`: what the changes tell beside what is stored of their keys. -#}
{% macro comparison_steps(table, stored, keys, names) -%}
    {%- set types, shape, asked = {}, [], [] -%}
    {%- set in_history = columns_in(stored) -%}
    {%- for column in in_history -%}{%- do types.update({column.name: column.type}) -%}{%- endfor -%}
    {%- for spec in table.columns if spec.name in types and spec.name not in table.key -%}
        {%- do shape.append([spec.name, spec.type]) -%}
    {%- endfor -%}
    {%- set otherwise = stored_otherwise(shape, in_history) -%}
    {%- for column in shape if column[0] not in otherwise -%}
        {%- do asked.append(column[0]) -%}
        {%- do types.update({column[0]: column[1]}) -%}
    {%- endfor -%}
    {%- for name in own_columns() if name != 'version_id' -%}{%- do asked.append(names.get(name, name)) -%}{%- endfor -%}
    {%- set told = ['valid_from', 'valid_to', 'opened_by', 'closed_by', 'previous_key', 'next_key', 'unresolved_columns', 'version_id'] -%}
kept as (

    select
        *,
        -- a version that is there twice is one too many
        row_number() over (
            partition by key, stored.row.{{ own('version_id', names) }}
            order by stored.row.{{ own('valid_to', names) }}
        ) as number
    from (
        select
            {{ key_text(key_of(table, 'stored')) }} as key,
            struct(*) as row
        from {{ stored }} as stored
    ) as stored
    where exists (select 1 from {{ keys }} as keys where keys.key = stored.key)

),

judged as (

    select
        coalesce(shown.key, kept.key) as key,
        shown.* except (key, row, {{ told | join(', ') }}),
        {%- for name in told %}
        if(shown.change_id is null, kept.row.{{ own(name, names) }}, shown.{{ name }}) as {{ name }},
        {%- endfor %}
        if(shown.change_id is not null and shown.version_id is null, null, kept.key is not null) as is_stored,
        if(shown.version_id is null or kept.key is null, null, array_compact(array(
            {%- for name in asked %}
            if(
                {{ comparable('shown.row.' ~ quoted(name), types[name]) }}
                <=> {{ comparable('kept.row.' ~ quoted(name), types[name]) }},
                null,
                {{ text_literal(name) }}
            ){{ ',' if not loop.last }}
            {%- endfor %}
        ))) as otherwise
    from shown
    full join kept
        on shown.key = kept.key and shown.version_id = kept.row.{{ own('version_id', names) }} and kept.number = 1

)
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


{#-
  Expression over a key's changes in their order: what each column had last in the row, as a struct of {value, exact}. Not
  every change carries all of them.
-#}
{% macro last_carried(columns) -%}
    {% call(spec) struct_by_column(columns) -%}
        last_value(
            if(after is null or {{ is_carried_by_change(spec) }}, struct(
                after.{{ quoted(spec.name) }} as value,
                exact_values[{{ text_literal(spec.name) }}] as exact
            ), null),
            true
        ) over earlier
    {%- endcall %}
{%- endmacro %}


{#- Condition: whether a change brings a value of a column: it can leave it out, or be of a time without the column. -#}
{% macro is_carried_by_change(spec) -%}
    not array_contains(unavailable_columns, {{ text_literal(spec.name) }})
            and not array_contains(absent_columns, {{ text_literal(spec.name) }})
{%- endmacro %}


{#- Expression over a change and what `last_carried` has of its key: the columns that differ, as [{name, value}]. -#}
{% macro differing_columns(columns) -%}
    {%- set none_differs -%}cast(array() as array<struct<name: string, value: string>>){%- endset -%}
    {%- if not columns -%}
        {{ none_differs }}
    {%- else -%}
    if(after is null or (is_end and op != 'u'), {{ none_differs }}, array_compact(array(
        {%- for spec in columns -%}
        {%- set name, column = text_literal(spec.name), quoted(spec.name) %}
        if(
            {{ is_carried_by_change(spec) }} and not (
                goes_on
                and {{ comparable('after.' ~ column, spec.type) }} <=> {{ comparable('former.' ~ column ~ '.value', spec.type) }}
                and {{ comparable_text('exact_values[' ~ name ~ ']', spec.type) }}
                    <=> {{ comparable_text('former.' ~ column ~ '.exact', spec.type) }}
            ),
            struct({{ name }} as name, coalesce(exact_values[{{ name }}], {{ as_shown('after.' ~ column, spec.type) }}) as value),
            null
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
