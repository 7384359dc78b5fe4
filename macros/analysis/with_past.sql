{#-
  Query: the living rows with what their key's history tells of them: the columns of the current state, then

      versions            how many versions the key has had, the open one included
      removals            how often the key ended by a delete, a truncate or a change of key, and came again
      first_valid_from    when the key's first version began
      is_first_start_known  whether that is the row's true beginning, or only when a snapshot read it (R16)

  Args:
      current, history: relations of one table
      key: the columns of the key
      column_names: as the history declares them
-#}
{% macro with_past(current, history, key, column_names={}) -%}
with

past as (

    select
        {{ struct_of_columns(key) }} as key,
        count(*) as versions,
        count_if({{ own('closed_by', column_names) }} in ('delete', 'truncate', 'key_change')) as removals,
        min(struct(
            {{ own('position', column_names) }},
            {{ own('partition', column_names) }},
            {{ own('offset', column_names) }},
            {{ own('valid_from', column_names) }} as began_at,
            {{ own('is_start_known', column_names) }} as is_known
        )) as first
    from {{ history }}
    group by 1

)

select
    living.*,
    past.versions,
    past.removals,
    past.first.began_at as first_valid_from,
    past.first.is_known as is_first_start_known
from {{ current }} as living
inner join past
    on {% for column in key -%}
        living.{{ quoted(column) }} <=> past.key.{{ quoted(column) }}{{ ' and ' if not loop.last }}
    {%- endfor %}
{%- endmacro %}
