{#-
  Step `filled`: values that an event left out as unchanged, from the key's state before it (R7), late arrivals and
  changes that a transaction will collapse included. What no earlier state tells is NULL and named as unresolved.
-#}
{% macro fill_steps(table, scope) -%}
filled as (

    select
        {%- if scope.unavailable %}
        * except (state),
        if(state is null, null, named_struct(
            {%- for spec in table.columns %}
            {{ text_literal(spec.name) }}, if(
                array_contains(unavailable_columns, {{ text_literal(spec.name) }}),
                {{ last_known(spec) }}.value,
                state.{{ quoted(spec.name) }}
            )
            {{- ',' if not loop.last }}
            {%- endfor %}
        )) as state,
        array_compact(array(
            {%- for spec in table.columns %}
            if(
                array_contains(unavailable_columns, {{ text_literal(spec.name) }}) and {{ last_known(spec) }} is null,
                {{ text_literal(spec.name) }},
                null
            )
            {{- ',' if not loop.last }}
            {%- endfor %}
        )) as unresolved_columns
        {%- else %}
        *,
        cast(array() as array<string>) as unresolved_columns
        {%- endif %}
    from stays
    {%- if scope.unavailable %}
    window in_stay as (partition by key, stay_no order by place rows between unbounded preceding and current row)
    {%- endif %}

)
{%- endmacro %}


{#- Expression: a column's last known value in the key's stay, as {value}; NULL where none is known. -#}
{% macro last_known(spec) -%}
    last_value(
        if(
            is_state
            and not array_contains(unavailable_columns, {{ text_literal(spec.name) }})
            and not array_contains(absent_columns, {{ text_literal(spec.name) }}),
            struct(state.{{ quoted(spec.name) }} as value),
            null
        ),
        true
    ) over in_stay
{%- endmacro %}
