{#-
  Changes of key: a row leaves one key and comes to another. Events tell it in two halves, each of which acts alone: a `d`
  with `next_key` and a `c` with `previous_key`; or as one `u`. Owns R14.
-#}


{#- Condition: whether a change is one half of a change of key that the declared key doesn't show: the other is an update. -#}
{% macro is_other_half() -%}
    op = 'd' and coalesce(next_key = {{ key_text('key') }}, false)
{%- endmacro %}


{#- Condition: whether a change is that update. -#}
{% macro is_pair() -%}
    coalesce(previous_key = {{ key_text('key') }}, false)
{%- endmacro %}


{#- Expression: the other key that a row came from. -#}
{% macro came_from() -%}
    if(previous_key = {{ key_text('key') }}, null, previous_key)
{%- endmacro %}


{#-
  Condition: whether histories take a change of the log. One with a problem they leave alone, but for the end of the key that
  its row had: each half acts alone, and that the new key isn't told holds the other.
-#}
{% macro is_for_histories() -%}
    (problem is null or (problem = 'key_not_told' and op = 'u' and previous_key is not null))
{%- endmacro %}


{#- Expression: the key that finds a change of `log`, as JSON text: its own or, untold, the one that it left. -#}
{% macro key_met() -%}
    coalesce(if(log.problem = 'key_not_told', log.previous_key, null), {{ key_text('log.key') }})
{%- endmacro %}


{#- Expression: the key that an update took its row from, where its `before` tells of that; NULL otherwise. -#}
{% macro left_key(table) -%}
    {%- set key = key_left(table.columns, table.key, 'before', 'key') -%}
    if(op = 'u' and previous_key = {{ key_text(key) }} and previous_key != {{ key_text('key') }}, {{ key }}, null)
{%- endmacro %}


{#-
  Query: changes, where one `u` told of a change of key with an end of the old key, a `u` without a state, and a state of the
  new in its place, where that is told.
-#}
{% macro halves(changes) -%}
    select half.*
    from {{ changes }}
    lateral view explode(
        if(
            op = 'u' and previous_key is not null,
            array_compact(array(
                if(left_key is null, null, {{ step(changes, 'left_key', {
                    'is_state': 'false', 'state': 'null', 'previous_key': 'null',
                    'next_key': 'if(is_state, ' ~ key_text('key') ~ ', null)'
                }) }}),
                if(is_state, {{ step(changes, 'key', {'before': 'null'}) }}, null)
            )),
            array({{ step(changes, 'key') }})
        )
    ) exploded as half
{%- endmacro %}


{#-
  Query: changes in the order in which rows had a key. Some databases check duplicate keys at the end of a statement
  (Oracle, Db2, deferrable constraints). With `set id = id + 1` row B can then arrive at a key before row A has left it.

  Rule: the row that leaves a living key directly behind an arrival, in its transaction, is A: it is placed before B.
  Exception: where whole `before` images show that the row that leaves is B, A was gone without an event. B passes
  through, and the key is empty until something but such a pair comes to it.
-#}
{% macro handed_over(changes, table, hazards) -%}
    {%- set row = 'state, unavailable_columns, absent_columns, exact_values' -%}
    {%- set has_whole_rows = hazards.whole_before or hazards.moves %}
    select
        * except (place, arrival, is_left, is_alive{{ ', resident, alone_no' if has_whole_rows }}),
        if(
            arrival is not null and is_alive
            {%- if has_whole_rows %}
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
            {%- if has_whole_rows %},
            last_value(if(is_left, null, coalesce(arrival, struct(place, {{ row }}))), true) over before_it as resident,
            sum(if(is_left or arrival is not null, 0, 1)) over (
                partition by key order by place rows between unbounded preceding and current row
            ) as alone_no
            {%- endif %}
        from (
            select
                *,
                if({{ leaves_behind_arrival() }}, lag(struct(place, {{ row }})) over by_place, null) as arrival,
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
    if(not is_state and {{ leaves() }}, transaction_id, null)
{%- endmacro %}


{#- Condition: whether what ends the state of a key has taken its row to another key, or to none. -#}
{% macro leaves() -%}
    (next_key is not null or op = 'u')
{%- endmacro %}


{#- Condition: whether what leaves a key stands directly behind the arrival of a row, in one transaction. -#}
{% macro leaves_behind_arrival() -%}
    coalesce(lag({{ arrives_in() }}) over by_place = {{ leaves_in() }}, false)
{%- endmacro %}


{#- Condition: whether that follows the arrival of a row. -#}
{% macro is_left() -%}
    coalesce(lead({{ leaves_in() }}) over by_place = {{ arrives_in() }}, false)
{%- endmacro %}
