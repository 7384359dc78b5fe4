{#-
  Query: the living rows with what their key's history tells of them: the columns of the current state, then

      versions            how many versions the key has had, the open one included
      removals            how often the key's row went, by a delete, a truncate or a change of key, or as a snapshot lacked it,
                          and one came again, be it in the same transaction (R11)
      first_valid_from    when the key's first version began
      is_first_start_known  whether the row came to the key then, by an insert or a change of key; otherwise it is older: a
                          snapshot read it (R16), or a change found it (R9, R19)

  Args:
      current, history: relations of one table
      key: the columns of the key, all of them
      column_names: own column → its name, where it isn't as dbt knows that the history declares it; this query's own columns
          take their names from here, too, as they must where the table has one of theirs
-#}
{% macro with_past(current, history, key, column_names={}) -%}
    {%- set of_query = ['versions', 'removals', 'first_valid_from', 'is_first_start_known'] -%}
    {%- set column_names = names_in(history, column_names, of_query=of_query) -%}
    {%- do only_its_key(history, key) -%}
with

versions as (

    select
        {{ struct_of_columns(key) }} as key,
        {%- for name in ['valid_from', 'valid_to', 'opened_by', 'closed_by'] %}
        {{ own(name, column_names) }} as {{ quoted(name) }},
        {%- endfor %}
        {{ place_of_version(column_names) }} as place
    from {{ history }}

),

past as (

    select
        key,
        count(*) as versions,
        count_if(
            next is not null and not {{ goes_over('closed_by', 'valid_to', 'next.opened_by', 'next.valid_from') }}
        ) as removals,
        min_by(struct(valid_from as began_at, opened_by), place) as first
    from (
        select *, lead(struct(opened_by, valid_from)) over (partition by key order by place) as next from versions
    ) as in_order
    group by key

)

select
    living.*,
    past.versions as {{ own('versions', column_names) }},
    past.removals as {{ own('removals', column_names) }},
    past.first.began_at as {{ own('first_valid_from', column_names) }},
    past.first.opened_by in ('insert', 'key_change') as {{ own('is_first_start_known', column_names) }}
from {{ current }} as living
inner join past
    on {% for column in key -%}
        living.{{ quoted(column) }} <=> past.key.{{ quoted(column) }}{{ ' and ' if not loop.last }}
    {%- endfor %}
{%- endmacro %}
