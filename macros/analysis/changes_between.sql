{#-
  Query: what changed in a history between two instants, the first included: a row per boundary, with `change` one of
  `opened` and `closed`, and `at` its time.

  Args:
      history: the history's relation
      since, until: expressions, timestamps in UTC; half-open
-#}
{% macro changes_between(history, since, until, column_names={}) -%}
    {%- set valid_from = own('valid_from', column_names) -%}
    {%- set valid_to = own('valid_to', column_names) -%}
    select
        'opened' as change,
        {{ valid_from }} as at,
        *
    from {{ history }}
    where {{ valid_from }} >= {{ since }} and {{ valid_from }} < {{ until }}
    union all
    select
        'closed' as change,
        {{ valid_to }} as at,
        *
    from {{ history }}
    where {{ valid_to }} >= {{ since }} and {{ valid_to }} < {{ until }}
        and {{ own('closed_by', column_names) }} not in ('update', 'snapshot')
{%- endmacro %}
