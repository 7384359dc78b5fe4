{#-
  Keys that have one change, which inserts or reads them: after a snapshot these are nearly all. Such a change is a version by
  itself, and is told as one without putting it in order with others: the steps of a fold copy each row ten times.
-#}


{#-
  Which keys of a log that is read whole have more than that, in one look at narrow columns.

  Args:
      count: how many changes the log has
      sorted_changes: up to how many no difference is made

  Returns: {relation, others}, the name of a relation with the `key` of the others, and how many they are; none where
      all keys are to be folded
-#}
{% macro keys_alone(scope, table, declared, count, sorted_changes) -%}
    {%- set hazards = scope.hazards -%}
    {#- Where a key meets more than its own changes, or is asked for its states by another, all are put in order. -#}
    {%- if count <= sorted_changes or table.documents or table.reselected
        or hazards.truncates or hazards.moves or hazards.linked
        or (hazards.reads and declared.snapshot_deletes == 'close') -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set other_keys = stage(
        'select key from ' ~ scope.log ~ ' as log where ' ~ is_change_of_key(hazards)
        ~ " group by key having count(*) > 1 or not bool_and(op in ('c', 'r') and previous_key is null"
        ~ ' and size(unavailable_columns) = 0)', 'others'
    ) -%}
    {%- set others = run_query('select count(*) from ' ~ other_keys)[0][0] | int -%}
    {%- if others > count // 3 -%}
        {%- do unstage(other_keys, is_large=true) -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return({'relation': other_keys, 'others': others}) }}
{%- endmacro %}


{#- Condition: whether a key is one of the others. -#}
{% macro is_among_others(key, alone) -%}
    exists (select 1 from {{ alone.relation }} as others where others.key <=> {{ key }})
{%- endmacro %}


{#-
  Steps to `versions_alone`: the changes of keys that have one, with what `versions` has of them.
-#}
{% macro alone_steps(scope) -%}
{%- set looks_at_ends = scope.account and scope.account.ends -%}
{{ snapshot_ends_step(scope) -}}
versions_alone as (

    select
        key,
        op,
        is_read,
        true as is_state,
        after as state,
        exact_values,
        cast(array() as array<string>) as unresolved_columns,
        {{ opens_as(is_living='false') }} as opened_by,
        cast(null as string) as opened_from,
        cast(null as string) as closed_by,
        cast(null as string) as closed_into,
        false as was_open,
        true as is_opening,
        true as is_boundary,
        false as is_again,
        false as has_opened_before,
        changed_at as boundary,
        changed_at as version_from,
        cast(null as timestamp) as version_to,
        {{ opening_change() }} as opening,
        0 as collapsed,
        cast(array() as array<string>) as collapsed_changes,
        0 as unknown_deletes,
        0 as broken_chains,
        {{ 'if(exists(ends, ' ~ reaches() ~ '), 1, 0)' if looks_at_ends else 0 }} as missed_deletes
    from (
        select
            *,
            {{ place('log') }} as place,
            if(false, {{ place('log') }}, null) as next_place,
            false as is_pair
        from {{ scope.log }} as log
    ) as placed
    {%- if looks_at_ends %}
    cross join snapshot_ends
    {%- endif %}
    where {{ is_change_of_key(scope.hazards) }}
        {%- if scope.alone.others %}
        and not {{ is_among_others('placed.key', scope.alone) }}
        {%- endif %}

)
{%- endmacro %}
