{#-
  Relation: the rows of a history as they were at an instant, at most one per key, to stand after `from` or `join`:
  `select * from {{ as_of(ref('…_history'), "timestamp'2026-11-21 01:42:06'") }} as then`.

  Versions with an empty interval (R11) were never what a reader saw, so no instant finds them. Where `is_start_known`
  is false the row may have been so for longer: before a snapshot's read (R16) nothing is known. A column that the history
  ignores (R12) has the newest value of its version, which can be later than the instant.

  Args:
      history: the history's relation
      instant: expression, a timestamp in UTC
      column_names: own column → its name, where it isn't as dbt knows that the history declares it
-#}
{% macro as_of(history, instant, column_names={}) -%}
    {%- set column_names = names_in(history, column_names) -%}
    (
        select *
        from {{ history }}
        where {{ is_valid_at(own('valid_from', column_names), own('valid_to', column_names), instant) }}
    )
{%- endmacro %}


{#- Condition: an interval holds an instant. Half-open: the begin belongs to it, the end to the next. -#}
{% macro is_valid_at(valid_from, valid_to, instant) -%}
    {{ valid_from }} <= {{ instant }} and ({{ valid_to }} is null or {{ instant }} < {{ valid_to }})
{%- endmacro %}
