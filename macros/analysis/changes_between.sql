{#-
  Query: what happened to the rows of a history between two instants, the first included: a row per change, with

      the key's columns
      change              how the new state came (`opened_by`), or how the row went (`closed_by`); it went by `update` where its key
                          had a row anew in the same transaction (R11)
      changed_at          its time
      change_number       its place among all changes of its key, from 1: times can tie
      changed_columns     the columns that differ, in their value, in the exact text of what their type can't hold or in being
                          unresolved; where there was no row, or is none, those that hold a value
      before, after       the states as structs; NULL where there was none, or none is known: rows that were created are
                          `insert` and `key_change` alone (R9)
      transaction_id      of the change; NULL where the row went: a history keeps the opening change alone

  A row that went and one that came to its key, the same or another, are two rows here, even where both happened in one instant
  or in one transaction.

  Args:
      history: the history's relation
      key: the columns of the key, all of them
      columns: the columns to compare and to give in `before` and `after`, spelled as the history has them; those of the key
          where the table has no others
      since, until: expressions, timestamps in UTC; half-open
      column_names: own column → its name, where it isn't as dbt knows that the history declares it; this query's own columns,
          `transaction_id` among them, take their names from here, too, as they must where the key has one of theirs
-#}
{% macro changes_between(history, key, columns, since, until, column_names={}) -%}
    {%- set of_query = ['change', 'changed_at', 'change_number', 'changed_columns', 'before', 'after', 'transaction_id'] -%}
    {%- set column_names = names_in(history, column_names, of_query=of_query) -%}
    {%- do only_its_key(history, key) -%}
    {#- Whoever asks dbt for them has none while it parses. -#}
    {%- if execute and not columns -%}
        {{ exceptions.raise_compiler_error(
            model.name ~ ': changes_between has no columns to compare and to give in `before` and `after`. Name some; where the'
            ~ " table has none but its key's, name those."
        ) }}
    {%- endif -%}
    {%- set of_key = folded_names(key) -%}
    {%- for name in of_query if folded(column_names.get(name, name)) in of_key -%}
        {{ exceptions.raise_compiler_error(
            model.name ~ ": changes_between has a column '" ~ name ~ "' of its own, and so has the key. Give another name to"
            ~ " it: column_names={'" ~ name ~ "': 'tidemark_" ~ name ~ "'}."
        ) }}
    {%- endfor -%}
    {#- A history that a unit test gives has no schema, and one under `--empty` is a query: the stored one is asked. -#}
    {%- set stored = load_relation(history) if execute and history.schema else none -%}
    {%- set types = {} -%}
    {%- if stored is not none -%}
        {%- for column in columns_in(stored) -%}{%- do types.update({column.name: column.type}) -%}{%- endfor -%}
        {%- do check_columns('columns', columns, types.keys() | list) -%}
    {%- endif -%}
with

-- the keys that a change in the window is of: all versions of others stay unread
moved as (

    select {{ struct_of_columns(key) }} as key
    from {{ history }}
    where
        {%- for name in ['valid_from', 'valid_to'] %}
        {{ 'or ' if not loop.first }}({{ own(name, column_names) }} >= {{ since }} and {{ own(name, column_names) }} < {{ until }})
        {%- endfor %}

),

versions as (

    select
        {{ struct_of_columns(key) }} as key,
        struct(
            {{ struct_of_columns(columns) }} as state,
            {{ own('exact_values', column_names) }} as exact_values,
            {{ own('unresolved_columns', column_names) }} as unresolved_columns
        ) as version,
        {%- for name in ['valid_from', 'valid_to', 'opened_by', 'closed_by', 'transaction_id'] %}
        {{ own(name, column_names) }} as {{ quoted(name) }},
        {%- endfor %}
        {{ place_of_version(column_names) }} as place
    from {{ history }}

),

in_order as (

    select
        *,
        lag(struct(version, closed_by, valid_to)) over in_key as last,
        lead(struct(opened_by, valid_from)) over in_key as next
    from versions
    left semi join moved on versions.key <=> moved.key
    window in_key as (partition by key order by place)

),

changes as (

    select
        key,
        opened_by as change,
        valid_from as changed_at,
        if({{ goes_over('last.closed_by', 'last.valid_to', 'opened_by', 'valid_from') }}, last.version, null) as before,
        version as after,
        transaction_id,
        place,
        false as is_end
    from in_order
    union all
    select
        key,
        closed_by as change,
        valid_to as changed_at,
        version as before,
        null as after,
        null as transaction_id,
        place,
        true as is_end
    from in_order
    where valid_to is not null
        and not {{ goes_over('closed_by', 'valid_to', 'next.opened_by', 'next.valid_from') }}

),

final as (

    select
        key.*,
        change as {{ own('change', column_names) }},
        changed_at as {{ own('changed_at', column_names) }},
        change_number as {{ own('change_number', column_names) }},
        array_compact(array(
            {%- for column in columns %}
            if({{ is_changed(column, types.get(column, '')) }}, {{ text_literal(column) }}, null){{ ',' if not loop.last }}
            {%- endfor %}
        )) as {{ own('changed_columns', column_names) }},
        before.state as {{ own('before', column_names) }},
        after.state as {{ own('after', column_names) }},
        transaction_id as {{ own('transaction_id', column_names) }}
    from (select *, row_number() over (partition by key order by place, is_end) as change_number from changes) as numbered
    where changed_at >= {{ since }} and changed_at < {{ until }}

)

select * from final
{%- endmacro %}


{#-
  Condition: a version went over into its key's next one, without a gap (R13) and as the same row: an insert and a change of
  key begin a row's stay, also in the transaction that ended the one before (R11, R14). A read closes a version where it found
  another state, which it then opens at once, or where it found no row (R16).
-#}
{% macro goes_over(closed_by, valid_to, next_opened_by, next_from) -%}
    coalesce(
            ({{ closed_by }} = 'update' and {{ next_opened_by }} not in ('insert', 'key_change'))
            or ({{ closed_by }} = 'snapshot' and {{ next_opened_by }} = 'snapshot' and {{ valid_to }} = {{ next_from }}),
            false
        )
{%- endmacro %}


{#- Condition: whether a column differs `before` and `after`, as histories compare it (R12). -#}
{% macro is_changed(column, type) -%}
    {%- set name = text_literal(column) -%}
    {%- set field = quoted(column) -%}
    not {{ comparable('before.state.' ~ field, type) }} <=> {{ comparable('after.state.' ~ field, type) }}
                or not {{ comparable_text('before.exact_values[' ~ name ~ ']', type) }}
                    <=> {{ comparable_text('after.exact_values[' ~ name ~ ']', type) }}
                or before is not null and after is not null
                    and not array_contains(before.unresolved_columns, {{ name }})
                    <=> array_contains(after.unresolved_columns, {{ name }})
{%- endmacro %}
