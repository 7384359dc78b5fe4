{#-
  Steps: from the log of some keys to `stays`: every change that a key met, in order, with the transaction and the stay
  of the row that it belongs to, and whether it is its transaction's last.
-#}
{% macro stays_steps(table, scope, declared) -%}
{%- set hazards = scope.hazards -%}
{%- set account = scope.account -%}
{{ snapshot_ends_step(scope) if not scope.alone -}}
{{ own_changes_step(table, scope, declared) }},

{{ beside_steps(scope, declared) }},
{%- set passes = hazards.leaves or hazards.moves %}
{%- if passes %}

handed_over as (

    {{ handed_over('every_change', table, hazards) }}

),
{%- elif table.documents %}

gone_to_shards as (

    {{ gone_to_shards('every_change') }}

),
{%- endif %}

labelled as (

    select
        *,
        {{ starts_transaction(declared.granularity) }}{{ ' or ' ~ follows_carried() if scope.carried }} as starts_transaction,
        is_state and not {{ follows_state() }} as starts_stay,
        {{ opens_as() }} as opens_as
        {%- if account %},
        {{ found_columns(hazards, account, declared) }}
        {%- endif %}
    from {{ 'handed_over' if passes else 'gone_to_shards' if table.documents else 'every_change' }}
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
  Step: what some keys have met by changes of their own: those of the log, and the open versions that stand for what was before
  the news (`keys_to_carry`).
-#}
{% macro own_changes_step(table, scope, declared) -%}
{%- set hazards = scope.hazards -%}
{%- set carried = scope.carried -%}
own_changes as (

    select
        key,
        {{ place('log') }} as place,
        change_id,
        op,
        transaction_id,
        changed_at,
        is_read,
        {{ is_state_op() }}{{ ' and problem is null' if hazards.problems }} as is_state,
        {{ document_state('after') if table.documents else 'after' }} as state,
        {%- if hazards.whole_before or hazards.moves %}
        {%- if table.documents %}
        if(is_before_whole, {{ document_state('before') }}, null) as before,
        {%- else %}
        -- a row that came from no key is none that this key had
        if(
            is_before_whole and (op != 'u' or {{ has_key_left(table.columns, table.key, 'before', 'key') }}), before, null
        ) as before,
        {%- endif %}
        {%- else %}
        null as before,
        {%- endif %}
        {%- if hazards.moves %}
        {{ left_key(table) }} as left_key,
        {%- endif %}
        unavailable_columns,
        absent_columns,
        exact_values,
        {{ came_from() }} as previous_key,
        {{ is_pair() }} as is_pair,
        next_key,
        position,
        topic,
        `partition`,
        `offset`
    {%- set changes_log = scope.fresh if carried and not carried.refolded else scope.log %}
    from {{ with_unread(changes_log, hazards) if table.documents else changes_log }} as log
    where {{ is_change_of_key(hazards) }}
        {%- if scope.case == 'nothing' %}
        and false
        {%- elif carried %}
        and ({{ scope.news }}{{ ' or ' ~ is_refolded('log.key', carried, text=key_met()) if carried.refolded }})
        {%- elif scope.case == 'keys' %}
        and {{ is_touched('log.key', scope, key_met()) }}
        {%- elif scope.case == 'before' %}
        and {{ is_folded_again('log.key', scope.now) }}
        {%- elif scope.alone %}
        and {{ is_among_others('log.key', scope.alone) }}
        {%- endif %}
    {%- if carried %}
    union all
    {{ carried_versions(table, carried, declared.column_names, hazards.moves) }}
    {%- endif %}

)
{%- endmacro %}


{#- Condition: whether a change of `log` is one that a fold of its key takes. -#}
{% macro is_change_of_key(hazards) -%}
    op != 't'
        and not ({{ is_other_half() }})
        {%- if hazards.problems %}
        and {{ is_for_histories() }}
        {%- endif %}
{%- endmacro %}


{#-
  Query: changes of documents in the order in which shards had them. A new value of its shard key takes a document to another
  shard: in one transaction that deletes it and inserts it there, each in a log of its own. Behind a `c` of its transaction
  that met the document alive a `d` is the half that came first: it is placed before that. A `c` right behind such a half
  goes on from the `c` before that: what that met, it meets.
-#}
{% macro gone_to_shards(changes) -%}
    select
        * except (place, is_half, met_alive, inserted_at, was_alive),
        if(
            is_half and was_alive and {{ log_of_position('inserted_at.position') }} = {{ log_of_position() }},
            {{ place('inserted_at', rank=0) }},
            place
        ) as place
    from (
        select
            *,
            last_value(if(op = 'c', place, null), true) over before_it as inserted_at,
            last_value(met_alive, true) over before_it as was_alive
        from (
            select
                *,
                if(op = 'c' and not lag(is_half, 1, false) over by_place, {{ follows_state() }}, null) as met_alive
            from (
                select
                    *,
                    {{ follows_insert_of_transaction() }} as is_half
                from {{ changes }}
                window before_it as (partition by key order by place rows between unbounded preceding and 1 preceding)
            ) as halved
            window by_place as (partition by key order by place)
        ) as followed
        window before_it as (partition by key order by place rows between unbounded preceding and 1 preceding)
    ) as met
{%- endmacro %}


{#- Condition: whether a `d` stands behind a `c` of its transaction, without another `d` between them. -#}
{% macro follows_insert_of_transaction() -%}
    coalesce(
        op = 'd' and last_value(
            if(op in ('c', 'd'), struct(if(op = 'c', transaction_id, null) as transaction_id), null), true
        ) over before_it.transaction_id = transaction_id,
        false
    )
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
        or not {{ log_of_position() }} <=> lag({{ log_of_position() }}) over by_place
    {%- endif -%}
{%- endmacro %}
