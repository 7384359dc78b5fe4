{#-
  Steps from a fold to `told`: of each change what it did to a key (`outcome`), and what was found on the way
  (`signs`, of {name, key}); `in_order` is the log with what its order alone shows. What the names mean to people is
  told in spark_jobs/reporting/signs.py.
-#}
{% macro signs_steps(log, table, hazards) -%}
{%- if hazards.reads -%}
snapshot_ends as (

    {{ ends(log, hazards.truncates, true) }}

),

{% endif -%}
told as (

    select
        told_by.change_id,
        if(is_opening, 'opened', 'closed_only') as outcome,
        {{ signs({
            'missed_changes': 'is_read and was_open and is_opening',
            'unknown_updates': "is_opening and not was_open and opened_by = 'update'",
            'held_back_times': 'not is_read and boundary > told_by.changed_at',
            'unresolved_columns': 'is_state and size(unresolved_columns) > 0',
            'exact_values': 'is_state and size(exact_values) > 0'
        }) }} as signs
    from timed
    union all
    select
        change_id,
        if(is_last, null, 'collapsed') as outcome,
        {{ signs({
            'unknown_deletes': "op = 'd' and found is null",
            'broken_chains': before_differs(table) if hazards.whole_before else 'false'
        }) }} as signs
    from (
        select
            *,
            lag(if(is_state, struct(state, unresolved_columns, absent_columns, exact_values), null)) over (
                partition by key order by place
            ) as found
        from filled
    ) as chained
    {%- if hazards.reads %}
    union all
    select
        change_id,
        null as outcome,
        {{ signs({'missed_deletes': 'true'}) }} as signs
    from (
        select
            *,
            lead(place) over (partition by key order by place) as next_place
        from {{ 'halves' if hazards.moves else 'own_changes' }}
    ) as neighbours
    cross join snapshot_ends
    where is_state and try_element_at(filter(ends, {{ reaches() }}), 1).op = 'r'
    {%- endif %}

),

in_order as (

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

)
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
        {%- for spec in table.columns if spec.name not in table.key %}
        {%- set name = text_literal(spec.name) %}
        {{ 'or ' if not loop.first }}not (
            {{ comparable('before.' ~ quoted(spec.name), spec.type) }}
            <=> {{ comparable('found.state.' ~ quoted(spec.name), spec.type) }}
            or array_contains(found.unresolved_columns, {{ name }})
            or array_contains(found.absent_columns, {{ name }})
            or array_contains(absent_columns, {{ name }})
            or found.exact_values[{{ name }}] is not null
        )
        {%- else %}
        false
        {%- endfor %}
    )
{%- endmacro %}
