{#-
  Query: what happened to the rows of a history between two instants, the first included: a row per change, with

      the key's columns
      change              how the new state came (`opened_by`), or how the row went (`closed_by`)
      changed_at          its time
      change_number       its place among all changes of its key, from 1: times can tie
      changed_columns     the columns that differ; where there was no row, or is none, those that hold a value
      before, after       the states as structs; NULL where there was no row
      transaction_id      of the change; NULL where the row went: a history keeps the opening change alone

  A row that was deleted and came again has two rows here, even where both happened in one instant.

  Args:
      history: the history's relation
      key: the columns of the key
      columns: the columns to compare and to give in `before` and `after`
      since, until: expressions, timestamps in UTC; half-open
      column_names: as the history declares them
-#}
{% macro changes_between(history, key, columns, since, until, column_names={}) -%}
with

versions as (

    select
        {{ struct_of_columns(key) }} as key,
        {{ struct_of_columns(columns) }} as state,
        {%- for name in ['valid_from', 'valid_to', 'opened_by', 'closed_by', 'transaction_id', 'position', 'partition', 'offset'] %}
        {{ own(name, column_names) }} as {{ quoted(name) }}{{ ',' if not loop.last }}
        {%- endfor %}
    from {{ history }}

),

in_order as (

    select
        *,
        lag(struct(state, closed_by, valid_to)) over in_key as last,
        lead(struct(opened_by, valid_from)) over in_key as next
    from versions
    window in_key as (partition by key order by position, `partition`, `offset`)

),

changes as (

    select
        key,
        opened_by as change,
        valid_from as changed_at,
        if({{ goes_over('last.closed_by', 'last.valid_to', 'opened_by', 'valid_from') }}, last.state, null) as before,
        state as after,
        transaction_id,
        struct(position, `partition`, `offset`, false as is_end) as place
    from in_order
    union all
    select
        key,
        closed_by as change,
        valid_to as changed_at,
        state as before,
        null as after,
        null as transaction_id,
        struct(position, `partition`, `offset`, true as is_end) as place
    from in_order
    where valid_to is not null
        and not {{ goes_over('closed_by', 'valid_to', 'next.opened_by', 'next.valid_from') }}

),

final as (

    select
        key.*,
        change,
        changed_at,
        change_number,
        array_compact(array(
            {%- for column in columns %}
            if(not before.{{ quoted(column) }} <=> after.{{ quoted(column) }}, {{ text_literal(column) }}, null)
            {{- ',' if not loop.last }}
            {%- endfor %}
        )) as changed_columns,
        before,
        after,
        transaction_id
    from (select *, row_number() over (partition by key order by place) as change_number from changes) as numbered
    where changed_at >= {{ since }} and changed_at < {{ until }}

)

select * from final
{%- endmacro %}


{#-
  Condition: a version went over into its key's next one, without a gap (R13). A read closes a version where it found
  another state, which it then opens at once, or where it found no row (R16).
-#}
{% macro goes_over(closed_by, valid_to, next_opened_by, next_from) -%}
    coalesce(
            {{ closed_by }} = 'update'
            or ({{ closed_by }} = 'snapshot' and {{ next_opened_by }} = 'snapshot' and {{ valid_to }} = {{ next_from }}),
            false
        )
{%- endmacro %}


{#- Expression: columns as one struct. -#}
{% macro struct_of_columns(columns) -%}
    named_struct(
        {%- for column in columns %}{{ text_literal(column) }}, {{ quoted(column) }}{{ ', ' if not loop.last }}{% endfor -%}
    )
{%- endmacro %}
