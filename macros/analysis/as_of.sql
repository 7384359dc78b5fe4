{#-
  Query: the rows of a history as they were at an instant, as analysts use it: `select * from {{ as_of(ref('…'), …) }}`.

  Args:
      history: the history's relation
      instant: expression, a timestamp in UTC
-#}
{% macro as_of(history, instant, column_names={}) -%}
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
