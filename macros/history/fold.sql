{#-
  Steps: from the ordered log of some keys to their versions. Each step is one rule or two; the last, `versions`, has a
  row per version with the row's state as a struct.
-#}
{% macro fold_steps(log, table, scope, granularity, tracked, snapshot_deletes) -%}
log as (

    select *
    from {{ log }}
    {%- if scope.case == 'nothing' %}
    where false
    {%- endif %}

),

{%- if scope.case == 'keys' %}

touched as (

    select distinct key
    from log
    where batch_id > {{ scope.after }}

),

{%- endif %}

{%- if scope.truncates %}

truncates as (

    select
        sort_array(collect_list(struct(
            position, `partition`, `offset`, topic, source_label, transaction_id, changed_at, change_id, batch_id
        ))) as places
    from log
    where op = 't'

),

{%- endif %}

own_changes as (

    select
        key,
        {{ place('log') }} as place,
        change_id,
        op,
        transaction_id,
        changed_at,
        is_read,
        op in ('c', 'u', 'r') as is_state,
        after as state,
        before,
        unavailable_columns,
        absent_columns,
        exact_values,
        previous_key,
        next_key,
        position,
        topic,
        `partition`,
        `offset`
    from log
    where op != 't'
    {%- if scope.case == 'keys' %}
        and exists (select 1 from touched where touched.key <=> log.key)
    {%- endif %}

),

{{ with_other_changes(table, scope) }},

labelled as (

    select
        *,
        {{ starts_transaction(granularity) }} as starts_transaction,
        is_state and not coalesce(lag(is_state) over by_place, false) as starts_stay,
        {{ opens_as() }} as opens_as
    from every_change
    window by_place as (partition by key order by place)

),

transactions as (

    select
        *,
        sum(if(starts_transaction, 1, 0)) over so_far as transaction_no,
        sum(if(starts_stay, 1, 0)) over so_far as stay_no,
        coalesce(lead(starts_transaction) over by_place, true) as is_last
    from labelled
    window
        by_place as (partition by key order by place),
        so_far as (partition by key order by place rows between unbounded preceding and current row)

),

stays as (

    select
        *,
        last_value(
            if(starts_stay, struct(transaction_no, opens_as, previous_key), null), true
        ) over (partition by key order by place rows between unbounded preceding and current row) as stay
    from transactions

),

{{ fill_steps(table, scope) }},

committed as (

    select
        *,
        if(stay.transaction_no = transaction_no, stay.opens_as, opens_as) as opened_by,
        if(stay.transaction_no = transaction_no, stay.previous_key, previous_key) as opened_from
    from filled
    where is_last

),

compared as (

    select
        *,
        coalesce(lag(is_state) over by_place, false) as was_open,
        is_state and not coalesce(lag(is_state) over by_place, false)
        or is_state and {{ differs(tracked, table) }} as is_opening
    from committed
    window by_place as (partition by key order by place)

),

{%- set ignored = ignored_columns(table, tracked) %}
{%- if ignored %}

newest as (

    select
        * except (state),
        named_struct(
            {%- for spec in table.columns %}
            {{ text_literal(spec.name) }},
            {%- if spec.name in ignored %} last_value(state.{{ quoted(spec.name) }}) over in_version
            {%- else %} state.{{ quoted(spec.name) }}
            {%- endif %}
            {{- ',' if not loop.last }}
            {%- endfor %}
        ) as state
    from (
        select
            *,
            sum(if(is_opening or not is_state, 1, 0)) over (
                partition by key order by place rows between unbounded preceding and current row
            ) as version_no
        from compared
    ) as numbered
    window in_version as (
        partition by key, version_no order by place rows between unbounded preceding and unbounded following
    )

),

{%- endif %}

boundaries as (

    select
        *,
        {{ boundary_clock() }} as clock
    from {{ 'newest' if ignored else 'compared' }}
    where is_opening or (was_open and not is_state)
    window by_place as (partition by key order by place)

),

timed as (

    select
        *,
        max(clock) over (
            partition by key order by place rows between unbounded preceding and current row
        ) as boundary
    from boundaries

),

versions as (

    select *
    from (
        select
            *,
            boundary as version_from,
            lead(boundary) over by_place as version_to,
            lead({{ closes_as() }}) over by_place as closed_by,
            lead(if(is_state, null, next_key)) over by_place as closed_into
        from timed
        window by_place as (partition by key order by place)
    ) as bounded
    where is_state

)
{%- endmacro %}


{#- Expression: where a change stands among its key's changes (R4). The one spelling of the order of a fold. -#}
{% macro place(relation) -%}
    struct({{ relation }}.position, {{ relation }}.`partition`, {{ relation }}.`offset`, {{ relation }}.topic)
{%- endmacro %}


{#-
  Steps up to `every_change`: the key's own changes, the truncates that ended its states (R15), and the state that its
  first change found, where `before` holds the whole row (R19). `rank` orders what stands at one place.
-#}
{% macro with_other_changes(table, scope) -%}
{%- if scope.truncates -%}
neighbours as (

    select
        own_changes.*,
        lead(place) over (partition by key order by place) as next_place
    from own_changes

),

truncated as (

    select
        neighbours.* except (next_place),
        try_element_at(filter(
            truncates.places,
            t -> {{ place('t') }} > place and (next_place is null or {{ place('t') }} < next_place)
        ), 1) as truncate
    from neighbours
    cross join truncates

),

every_change as (

    select * except (truncate)
    from truncated
    union all
    select
        key,
        {{ place('truncate') }} as place,
        truncate.change_id as change_id,
        't' as op,
        truncate.transaction_id as transaction_id,
        truncate.changed_at as changed_at,
        false as is_read,
        false as is_state,
        null as state,
        null as before,
        cast(array() as array<string>) as unavailable_columns,
        cast(array() as array<string>) as absent_columns,
        cast(map() as map<string, string>) as exact_values,
        cast(null as string) as previous_key,
        cast(null as string) as next_key,
        truncate.position as position,
        truncate.topic as topic,
        truncate.`partition` as `partition`,
        truncate.`offset` as `offset`
    from truncated
    where truncate is not null

)
{%- else -%}
every_change as (

    select * from own_changes

)
{%- endif -%}
{%- endmacro %}


{#- Expression: whether a change begins another transaction than the change before it (R11). Reads stand alone. -#}
{% macro starts_transaction(granularity) -%}
    {%- if granularity == 'event' -%}
        true
    {%- else -%}
        transaction_id is null or not transaction_id <=> lag(transaction_id) over by_place
    {%- endif -%}
{%- endmacro %}


{#- Expression: what a state opens a version as (R9); a `c` of a living key is an update. -#}
{% macro opens_as() -%}
    case
        when op = 'r' then 'snapshot'
        when previous_key is not null then 'key_change'
        when op = 'c' and not coalesce(lag(is_state) over by_place, false) then 'insert'
        else 'update'
    end
{%- endmacro %}


{#- Expression: what a boundary closes the version before it as (R9). -#}
{% macro closes_as() -%}
    case
        when is_read then 'snapshot'
        when is_state then 'update'
        when op = 't' then 'truncate'
        when next_key is not null then 'key_change'
        else 'delete'
    end
{%- endmacro %}


{#-
  Expression: whether a state differs from the one before it in the tracked columns that both carry (R12): NULL-safe,
  by logical value, exact text included. A column that the newer lacks is no difference; one that only the newer has
  is one where it is not NULL. An unresolved value differs from every known one and equals another unresolved (R7).
-#}
{% macro differs(tracked, table) -%}
    (
        {%- for spec in table.columns if spec.name in tracked %}
        {%- set column = 'state.' ~ quoted(spec.name) %}
        {%- set value = comparable(column, spec.type) %}
        not array_contains(absent_columns, {{ text_literal(spec.name) }}) and (
            not {{ value }} <=> lag({{ value }}) over by_place
            or not exact_values[{{ text_literal(spec.name) }}] <=> lag(exact_values[{{ text_literal(spec.name) }}]) over by_place
            or array_contains(unresolved_columns, {{ text_literal(spec.name) }})
            != lag(array_contains(unresolved_columns, {{ text_literal(spec.name) }})) over by_place
        )
        {{- ' or' if not loop.last }}
        {%- else %}
        false
        {%- endfor %}
    )
{%- endmacro %}


{#- Expression: a value in a form that can be compared: Spark compares no maps. -#}
{% macro comparable(column, type) -%}
    {{ 'sort_array(map_entries(' ~ column ~ '))' if type.startswith('map') else column }}
{%- endmacro %}


{% macro ignored_columns(table, tracked) -%}
    {%- set ignored = [] -%}
    {%- for spec in table.columns if spec.name not in tracked and spec.name not in table.key -%}
        {%- do ignored.append(spec.name) -%}
    {%- endfor -%}
    {{ return(ignored) }}
{%- endmacro %}


{#-
  Expression: the time that a boundary claims (R10). A read's time is a clock: where the next streamed boundary is
  earlier, the read's moves back to it. The running maximum over these then keeps a key's boundaries from running back.
-#}
{% macro boundary_clock() -%}
    case
        when is_read and not lead(is_read) over by_place and lead(changed_at) over by_place < changed_at
            then lead(changed_at) over by_place
        else changed_at
    end
{%- endmacro %}
