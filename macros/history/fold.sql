{#-
  Steps: from the ordered log of some keys to their versions. Each step is one rule or two; the last, `versions`, has a
  row per version with the row's state as a struct. `scope.hazards` says which steps the log needs. Where the fold is
  accounted for (`scope.account`), `versions` has a row per committed change, for `noted_changes`.

  Args:
      declared: what the history declared, with `snapshot_deletes` as `snapshot_deletes_of` gives it
-#}
{% macro fold_steps(table, scope, declared, tracked) -%}
{%- set hazards = scope.hazards -%}
{%- set account = scope.account -%}
{{ stays_steps(table, scope, declared) }},

{{ fill_steps(table, hazards) }},

begun as (

    select
        *,
        last_value(
            if(starts_stay or previous_key is not null, struct(transaction_no, opens_as, previous_key), null), true
        ) over (partition by key order by place rows between unbounded preceding and current row) as stay
        {%- if account and account.shared %},
        collect_list(if(is_last, null, change_id)) over (partition by key, transaction_no) as collapsed_changes
        {%- endif %}
    from filled

),

committed as (

    select
        * except (opens_as, previous_key, stay{{ ', ' ~ counters(hazards, account) | join(', ') if account }}),
        {%- if account %}
        {{ counted_since_last(hazards, account) }},
        {%- endif %}
        if(stay.transaction_no = transaction_no, stay.opens_as, opens_as) as opened_by,
        if(stay.transaction_no = transaction_no, stay.previous_key, previous_key) as opened_from,
        -- what a first change found is told with the change that found it (R19)
        if(
            op = 'b',
            lead({{ opening_change() }}) over by_place,
            {{ opening_change() }}
        ) as opening,
        lag(if(is_state, struct(state, unresolved_columns, absent_columns, exact_values), null)) over by_place as last_state
    from begun
    where is_last
    window by_place as (partition by key order by place)

),

compared as (

    {{ compared_in_turn(table, tracked, hazards) if hazards.absent or (hazards.reads and table.rounded)
        else compared_with_last(table, tracked, hazards) }}

),

{%- set ignored = ignored_columns(table, tracked) %}
{%- if ignored or hazards.reads %}

numbered as (

    select
        *,
        sum(if({{ makes_boundary() }}, 1, 0)) over (
            partition by key order by place rows between unbounded preceding and current row
        ) as boundary_no
    from compared

),

confirmed as (

    select
        {%- if ignored %}
        * except (state, unresolved_columns, exact_values),
        {%- if account %}
        exact_values as exact_values_then,
        {%- endif %}
        {{ newest_state(table, ignored) }} as state,
        {{ newest_unresolved(ignored) }} as unresolved_columns,
        {{ newest_exact_values(ignored) }} as exact_values,
        {%- else %}
        *,
        {%- endif %}
        min(if(is_read or not (is_state or was_open), null, opening.changed_at)) over in_version as confirmed_at
    from numbered
    window in_version as (
        partition by key, boundary_no order by place rows between unbounded preceding and unbounded following
    )

),

{%- endif %}

{%- set last_step = 'confirmed' if ignored or hazards.reads else 'compared' %}
{%- set of_key = 'key, is_boundary' if account else 'key' %}
boundaries as (

    select
        *,
        {{ boundary_clock() if hazards.reads else 'opening.changed_at' }} as clock
    {%- if account %}
    -- what made no boundary stays, to be counted, and stands apart from what did
    from (select *, {{ makes_boundary() }} as is_boundary from {{ last_step }}) as changes
    {%- else %}
    from {{ last_step }}
    where {{ makes_boundary() }}
    {%- endif %}
    window by_place as (partition by {{ of_key }} order by place)

),

timed as (

    select
        *,
        max(clock) over (
            partition by {{ of_key }} order by place rows between unbounded preceding and current row
        ) as boundary
    from boundaries

),

versions as (

    select *
    from (
        select
            *,
            boundary as version_from,
            {{ opens_again() }} as is_again,
            lead(boundary) over by_place as version_to,
            lead({{ closes_as() }}) over by_place as closed_by,
            lead(if(is_state, null, next_key)) over by_place as closed_into
        from timed
        window
            by_place as (partition by {{ of_key }} order by place),
            earlier as (partition by {{ of_key }} order by place rows between unbounded preceding and 1 preceding)
    ) as bounded
    {%- if not account %}
    where is_state
    {%- endif %}

)
{%- endmacro %}
