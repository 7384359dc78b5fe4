{#-
  The boundaries of a key's versions: what makes one, as what and when it opens a version and closes the one before.
  Owns R9, R10 and R13.
-#}


{#- Condition over compared changes: whether one opens a version, or closes the open one and opens none. -#}
{% macro makes_boundary() -%}
    is_opening or (was_open and not is_state)
{%- endmacro %}


{#- Condition: whether the change before one left its key with a state. -#}
{% macro follows_state() -%}
    coalesce(lag(is_state) over by_place, false)
{%- endmacro %}


{#-
  Expression: what a state opens a version as; a `c` of a living key is an update.

  Args:
      is_living: a condition; whether the change before left a state
-#}
{% macro opens_as(is_living=none) -%}
    case
        when {{ is_carried() }} then op
        when op = 'r' then 'snapshot'
        when op = 'b' then 'before'
        when previous_key is not null then 'key_change'
        when op = 'c' and not is_pair and not {{ is_living or follows_state() }} then 'insert'
        else 'update'
    end
{%- endmacro %}


{#- Expression: what a boundary closes the version before it as. -#}
{% macro closes_as() -%}
    case
        when is_read then 'snapshot'
        when is_state then 'update'
        when op = 't' then 'truncate'
        when {{ leaves() }} then 'key_change'
        else 'delete'
    end
{%- endmacro %}


{#-
  Expression: the time that a boundary claims. A read's time is a clock: it moves back to a streamed change that follows
  it and is earlier, whether that made a boundary or only confirmed the state. The running maximum over these then keeps
  a key's boundaries from running back.
-#}
{% macro boundary_clock() -%}
    if(
        is_read,
        least(
            opening.changed_at,
            confirmed_at,
            if(lead(is_read) over by_place, null, lead(opening.changed_at) over by_place)
        ),
        opening.changed_at
    )
{%- endmacro %}


{#- Expression: the change that opens a version, as far as gold's rows tell of it. -#}
{% macro opening_change() -%}
    struct(change_id, changed_at, position, transaction_id, topic, `partition`, `offset`)
{%- endmacro %}
