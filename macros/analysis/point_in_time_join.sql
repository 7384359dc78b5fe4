{#-
  Query: each version of one history with the version of another that was valid when it began.

  Args:
      left, right: relations of histories
      on: condition between `left_version` and `right_version`, such as 'left_version.customer_id = right_version.id'
      left_columns, right_columns: the columns to give, the right ones with the prefix `right_prefix`
-#}
{% macro point_in_time_join(left, right, on, left_columns, right_columns, right_prefix='') -%}
    select
        {%- for column in left_columns %}
        left_version.{{ quoted(column) }},
        {%- endfor %}
        {%- for column in right_columns %}
        right_version.{{ quoted(column) }} as {{ quoted(right_prefix ~ column) }}{{ ',' if not loop.last }}
        {%- endfor %}
    from {{ left }} as left_version
    left join {{ right }} as right_version
        on {{ on }}
        and {{ is_valid_at('right_version.valid_from', 'right_version.valid_to', 'left_version.valid_from') }}
{%- endmacro %}
