{#-
  Query: each row of a history, or of any table with a time, with the version of another history that was valid then.
  Rows on the left are kept and never multiplied: where no version was valid, the columns of the right one are NULL.

  Time compares, not position: two changes in one instant of the source's clock count as one moment, whose last state
  is found. A column that the right history ignores (R12) has the newest value of its version, which can be later than
  that.

  Args:
      left, right: relations; `right` is a history
      on: condition between `left_version` and `right_version` that names the right one's whole key, such as
          'left_version.customer_id = right_version.id'
      left_columns, right_columns: the columns to give, the right ones under `right_prefix` and their name
      at: expression over `left_version`, the time that counts; when its version began, if not said
      left_names, right_names: own column → its name, where it isn't as dbt knows that the history declares it
-#}
{% macro point_in_time_join(
    left, right, on, left_columns, right_columns, right_prefix='', at=none, left_names={}, right_names={}
) -%}
    {%- set at = at or 'left_version.' ~ own('valid_from', names_in(left, left_names, 'left_names')) -%}
    {%- set right_names = names_in(right, right_names, 'right_names') -%}
    {%- set valid_from = 'right_version.' ~ own('valid_from', right_names) -%}
    {%- set valid_to = 'right_version.' ~ own('valid_to', right_names) -%}
    select
        {%- for column in left_columns %}
        left_version.{{ quoted(column) }},
        {%- endfor %}
        {%- for column in right_columns %}
        right_version.{{ quoted(column) }} as {{ quoted(right_prefix ~ column) }}{{ ',' if not loop.last }}
        {%- endfor %}
    from {{ left }} as left_version
    left join {{ right }} as right_version
        on ({{ on }})
        and {{ is_valid_at(valid_from, valid_to, at) }}
{%- endmacro %}
