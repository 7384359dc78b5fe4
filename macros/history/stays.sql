{#-
  Steps: from the log of some keys to `stays`: every change that a key met, in order, with the transaction and the stay
  of the row that it belongs to, and whether it is its transaction's last.
-#}
{% macro stays_steps(table, scope, granularity, snapshot_deletes, names={}) -%}
{%- set hazards = scope.hazards -%}
{%- set carried = scope.carried -%}
{%- set account = scope.account -%}
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
        {{ document_state('after') if table.documents else 'after' }} as state,
        {{ 'if(is_before_whole, ' ~ (document_state('before') if table.documents else 'before') ~ ', null)' if hazards.whole_before or hazards.moves else 'null' }} as before,
        unavailable_columns,
        absent_columns,
        exact_values,
        if(previous_key = {{ key_text('key') }}, null, previous_key) as previous_key,
        coalesce(previous_key = {{ key_text('key') }}, false) as is_pair,
        next_key,
        position,
        topic,
        `partition`,
        `offset`
    from {{ scope.fresh if carried and not carried.refolded else scope.log }} as log
    where {{ is_change_of_key(hazards) }}
        {%- if scope.case == 'nothing' %}
        and false
        {%- elif carried %}
        and ({{ scope.news }}{{ ' or ' ~ is_refolded('log.key', carried) if carried.refolded }})
        {%- elif scope.case == 'keys' %}
        and {{ is_touched('log.key', scope) }}
        {%- elif scope.case == 'before' %}
        and {{ is_folded_whole('log.key', scope.now) }}
        {%- elif scope.alone %}
        and {{ is_among_others('log.key', scope.alone) }}
        {%- endif %}
    {%- if carried %}
    union all
    {{ carried_versions(table, carried, names) }}
    {%- endif %}

),

{{ beside_steps(scope.log, table, hazards, snapshot_deletes, scope.scans) }},
{%- if account and account.ends %}

snapshot_ends as (

    {{ ends(scope.log, false, true, scope.scans) }}

),
{%- endif %}
{%- set passes = hazards.leaves or hazards.moves %}
{%- if passes %}

handed_over as (

    {{ handed_over('every_change', table, hazards) }}

),
{%- endif %}

labelled as (

    select
        *,
        {{ starts_transaction(granularity) }}{{ ' or ' ~ follows_carried() if carried }} as starts_transaction,
        is_state and not coalesce(lag(is_state) over by_place, false) as starts_stay,
        {{ opens_as() }} as opens_as
        {%- if account %},
        {{ found_columns(hazards, account, snapshot_deletes) }}
        {%- endif %}
    from {{ 'handed_over' if passes else 'every_change' }}
    {%- if account and account.ends %}
    cross join snapshot_ends
    {%- endif %}
    window by_place as (partition by key order by place)

),

stays as (

    select
        *{{ found_alone(hazards, account) if account }},
        sum(if(starts_transaction, 1, 0)) over so_far as transaction_no,
        sum(if(starts_stay or previous_key is not null, 1, 0)) over so_far as source_no,
        coalesce(lead(starts_transaction) over by_place, true) as is_last
        {%- if account %},
        {{ counted_so_far(table, hazards, account) }}
        {%- endif %}
    from labelled
    window
        by_place as (partition by key order by place),
        so_far as (partition by key order by place rows between unbounded preceding and current row)

)
{%- endmacro %}


{#-
  Query: changes in the order in which rows had a key. A database that looks for doubled keys at the end of a statement
  (Oracle, Db2, deferrable constraints) lets one row arrive at a key before the row that has it leaves, as in
  `set id = id + 1`: of a living key, what leaves directly behind an arrival in its transaction is the row from before.
  Where its `before` is whole and that of the row that arrived, and not of the one from before, that one was gone without
  a trace: the row passes through, and the key is empty until something but such a pair comes to it. Belongs to R14.
-#}
{% macro handed_over(changes, table, hazards) -%}
    {%- set row = 'state, unavailable_columns, absent_columns, exact_values' -%}
    {%- set is_told = hazards.whole_before or hazards.moves %}
    select
        * except (place, arrival, is_left, is_alive{{ ', resident, alone_no' if is_told }}),
        if(
            arrival is not null and is_alive
            {%- if is_told %}
            and not coalesce(bool_or(
                arrival is not null and before is not null
                and not {{ is_of_another_row('arrival', table) }} and {{ is_of_another_row('resident', table) }}
            ) over (partition by key, alone_no order by place rows between unbounded preceding and current row), false)
            {%- endif %},
            {{ place('arrival.place', rank=0) }},
            place
        ) as place
    from (
        select
            *,
            last_value(if(is_left or arrival is not null, null, is_state), true) over before_it as is_alive
            {%- if is_told %},
            last_value(if(is_left, null, coalesce(arrival, struct(place, {{ row }}))), true) over before_it as resident,
            sum(if(is_left or arrival is not null, 0, 1)) over (
                partition by key order by place rows between unbounded preceding and current row
            ) as alone_no
            {%- endif %}
        from (
            select
                *,
                if(
                    lag({{ arrives_in() }}) over by_place = {{ leaves_in() }}, lag(struct(place, {{ row }})) over by_place, null
                ) as arrival,
                {{ is_left() }} as is_left
            from {{ changes }}
            window by_place as (partition by key order by place)
        ) as paired
        window before_it as (partition by key order by place rows between unbounded preceding and 1 preceding)
    ) as followed
{%- endmacro %}


{#- Expression: the transaction in which a row comes to a key from another, or leaves it for one. -#}
{% macro arrives_in() -%}
    if(is_state and previous_key is not null, transaction_id, null)
{%- endmacro %}


{% macro leaves_in() -%}
    if(not is_state and next_key is not null, transaction_id, null)
{%- endmacro %}


{#- Condition: whether what leaves the key stands directly behind the arrival of a row, in one transaction. -#}
{% macro is_left() -%}
    coalesce(lead({{ leaves_in() }}) over by_place = {{ arrives_in() }}, false)
{%- endmacro %}


{#- Condition: whether a change of `log` is one that a fold of its key takes. -#}
{% macro is_change_of_key(hazards) -%}
    op != 't'
        -- both halves of a key change can fall on one declared key: then the other half is an update (R14)
        and not (op = 'd' and coalesce(next_key = {{ key_text('key') }}, false))
        {%- if hazards.problems %}
        and problem is null
        {%- endif %}
{%- endmacro %}


{#-
  Expression: whether a change begins another transaction than the change before it. Reads stand alone, and a server that
  was restored gives numbers again (R5). Owns R11.
-#}
{% macro starts_transaction(granularity) -%}
    {%- if granularity == 'event' -%}
        true
    {%- else -%}
        transaction_id is null
        or not transaction_id <=> lag(transaction_id) over by_place
        or not {{ log_of('position') }} <=> lag({{ log_of('position') }}) over by_place
    {%- endif -%}
{%- endmacro %}


{#- Expression: what a state opens a version as; a `c` of a living key is an update. Owns R9 and R13. -#}
{% macro opens_as() -%}
    case
        when {{ is_carried() }} then op
        when op = 'r' then 'snapshot'
        when op = 'b' then 'before'
        when previous_key is not null then 'key_change'
        when op = 'c' and not is_pair and not coalesce(lag(is_state) over by_place, false) then 'insert'
        else 'update'
    end
{%- endmacro %}
