{#-
  Steps from `stays` to `told`: of each change what it did to a key (`outcome`), and what was found on the way (`signs`,
  of {name, key}). What the names mean to people is told in spark_jobs/reporting/signs.py.
-#}
{% macro told_steps(log, table, hazards, versions, column_names, scans=[]) -%}
{%- set lineage = ['position', 'topic', 'partition', 'offset'] -%}
in_gold as (

    select
        {% for name in lineage + ['valid_from', 'valid_to', 'opened_by', 'unresolved_columns', 'exact_values'] -%}
        {{ own(name, column_names) }} as {{ quoted(name) }}{{ ', ' if not loop.last }}
        {%- endfor %}
    from {{ versions }}

),

{% if hazards.reads -%}
snapshot_ends as (

    {{ ends(log, false, true, scans) }}

),

{% endif -%}
beside as (

    select
        stays.*,
        -- what a first change found is told with the change that found it (R19)
        if(op = 'b', first_value(if(is_last, {{ struct_of_lineage(lineage) }}, null), true) over later, {{ struct_of_lineage(lineage) }}) as told_by,
        coalesce(last_value(if(is_last, is_state, null), true) over earlier, false) as was_open,
        lag(if(is_state, struct(state, unavailable_columns, absent_columns, exact_values), null)) over by_place as found
        {%- if hazards.reads %},
        first_value(if(op = 'r' and not is_state, null, place), true) over later as next_place,
        snapshot_ends.ends
        {%- endif %}
    from stays
    {%- if hazards.reads %}
    cross join snapshot_ends
    {%- endif %}
    window
        by_place as (partition by key order by place),
        earlier as (partition by key order by place rows between unbounded preceding and 1 preceding),
        later as (partition by key order by place rows between 1 following and unbounded following)

),

beside_gold as (

    select
        beside.* except (exact_values),
        version.position is not null as is_opening,
        version.valid_from,
        version.opened_by,
        version.unresolved_columns,
        version.exact_values,
        last_value(version.valid_to, true) over (
            partition by beside.key order by beside.place rows between unbounded preceding and 1 preceding
        ) as closed_at
    from beside
    left join in_gold as version
        on is_last
        and is_state
        {%- for name in lineage %}
        and told_by.{{ quoted(name) }} = version.{{ quoted(name) }}
        {%- endfor %}
        and (op = 'b') = (version.opened_by = 'before')

),

told as (

    select
        change_id,
        case
            when not is_last then 'collapsed'
            when is_opening then 'opened'
            when was_open and not is_state then 'closed_only'
        end as outcome,
        {{ signs({
            'missed_changes': 'is_read and was_open and is_opening',
            'unknown_updates': "is_opening and not was_open and opened_by = 'update'",
            'held_back_times': (
                'not is_read and is_last and changed_at < case when is_opening then valid_from'
                ~ ' when was_open and not is_state then closed_at end'
            ),
            'unresolved_columns': 'size(unresolved_columns) > 0',
            'exact_values': 'size(exact_values) > 0',
            'unknown_deletes': "op = 'd' and found is null",
            'broken_chains': before_differs(table) if hazards.whole_before else 'false',
            'missed_deletes': 'is_state and exists(ends, ' ~ reaches() ~ ')' if hazards.reads else 'false'
        }) }} as signs
    from beside_gold

)
{%- endmacro %}


{%- macro struct_of_lineage(lineage) -%}
    struct({% for name in lineage %}{{ quoted(name) }}{{ ', ' if not loop.last }}{% endfor %})
{%- endmacro %}


{#- Query: the log, with the signs that its order alone shows. -#}
{% macro told_by_order(log) -%}
    select
        *,
        {{ signs({
            'position_regressions': "op != 'r' and position < highest",
            'new_logs': 'log_number > 0 and highest is null'
        }) }} as signs
    from (
        select
            *,
            max(position) over (
                partition by source_label, topic, `partition`, log_number
                order by `offset` rows between unbounded preceding and 1 preceding
            ) as highest
        from {{ log }}
    ) as followed
{%- endmacro %}


{#- Expression: those signs whose condition holds, each with the key that it met. -#}
{% macro signs(conditions) -%}
    filter(
        array(
            {%- for name, condition in conditions.items() %}
            if({{ condition }}, struct('{{ name }}' as name, {{ key_text('key') }} as key), null){{ ',' if not loop.last }}
            {%- else %}
            cast(null as struct<name: string, key: string>)
            {%- endfor %}
        ),
        sign -> sign is not null
    )
{%- endmacro %}


{#-
  Condition: whether a change found the row (`before`, where it is whole) in another state than the last one known (R19).
  A column that the last state did not carry, or not exactly, says nothing.
-#}
{% macro before_differs(table) -%}
    op in ('u', 'd') and before is not null and found is not null and (
        {%- if table.documents %}
        found.state.edits is null and not {{ same_document('before.after', 'found.state.after') }}
        {%- else %}
        {%- for spec in table.columns if spec.name not in table.key %}
        {%- set name = text_literal(spec.name) %}
        {{ 'or ' if not loop.first }}not (
            {{ comparable('before.' ~ quoted(spec.name), spec.type) }}
            <=> {{ comparable('found.state.' ~ quoted(spec.name), spec.type) }}
            or array_contains(found.unavailable_columns, {{ name }})
            or array_contains(found.absent_columns, {{ name }})
            or array_contains(absent_columns, {{ name }})
            or found.exact_values[{{ name }}] is not null
        )
        {%- else %}
        false
        {%- endfor %}
        {%- endif %}
    )
{%- endmacro %}
