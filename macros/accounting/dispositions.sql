{#- From what a fold has noted of each change to an account: marks, and of these a row per disposition and per sign. -#}


{#- Query: what a fold has noted of each committed change, from its last step; `version` is one more column of it. -#}
{% macro noted_changes(table, scope, tracked, version=none, versions='versions') -%}
    select
        *,
        if(size(signs) > 0, {{ key_text('key') }}, null) as key_of_signs
    from (
        select
            key,
            {{ version ~ ',' if version }}
            {{ disposition_columns(scope, ignored_columns(table, tracked)) }}
        from {{ versions }}
    ) as noted
{%- endmacro %}


{#-
  Steps to `account`: a row per disposition and per sign.

  Args:
      noted: what `noted_changes` gave
      changes_log: the changes, those beyond a cut too
      stored: the account that this one goes on from, or none
-#}
{% macro account_steps(noted, scope, changes_log, stored) -%}
{%- set account = scope.account -%}
{#- What that account has counted of the keys that were folded whole is taken out of it. -#}
{%- set parts = [[noted, 1]] + ([[account.before, -1]] if account.before else []) -%}
marks as (

    {%- for part, factor in parts %}
    {{ 'union all' if not loop.first }}
    {{ marks_of(part, factor, scope) }}
    {%- endfor %}
    {%- if account.order != 'none' %}
    union all
    select
        'sign' as kind,
        name,
        key,
        1 as records,
        false as is_sample
    from (
        {{ signs_of_order(changes_log, account) }}
    ) as in_order
    where name is not null
    {%- endif %}
    {%- for name in ['quarantined', 'held_back', 'no_op'] if account[name] %}
    union all
    select 'disposition', '{{ name }}', null, {{ account[name] }}, false
    {%- endfor %}
    {%- if stored %}
    {%- set replaced = ['held_back'] + (['position_regressions', 'new_logs'] if account.order == 'all' else []) %}
    union all
    select
        kind,
        name,
        mark.key,
        mark.records,
        mark.is_sample
    from {{ stored }}
    lateral view explode(array_append(
        transform(sample_keys, sample -> struct(sample as key, cast(0 as bigint) as records, true as is_sample)),
        struct(cast(null as string) as key, records, false as is_sample)
    )) exploded as mark
    where name not in ({{ text_list(replaced) }})
    {%- endif %}

),

by_key as (

    select
        kind,
        name,
        sum(records) as records,
        -- a stored sample of a key that was folded whole is one only where that says so again
        if(max(records) > 0 or (bool_or(is_sample) and min(records) >= 0), key, null) as sample
    from marks
    group by kind, name, key

),

account as (

    select
        kind,
        name,
        sum(records) as records,
        array_sort(collect_list(if(number <= 10, sample, null))) as sample_keys
    from (
        select *, row_number() over (partition by kind, name order by sample asc nulls last) as number from by_key
    ) as numbered
    group by kind, name
    having sum(records) != 0

)
{%- endmacro %}


{#- Query: the marks of what a fold has noted, as {kind, name, key, records, is_sample}. -#}
{% macro marks_of(noted, factor, scope) -%}
    {%- set of_changes = scope.account.shared -%}
    select
        mark.kind,
        mark.name,
        mark.key,
        cast({{ factor }} * mark.records as bigint) as records,
        false as is_sample
    from {{ noted }}
    lateral view explode(concat(
        {%- if not of_changes %}
        array(
            struct('disposition' as kind, disposition as name, cast(null as string) as key, 1 as records),
            struct('disposition' as kind, 'collapsed' as name, cast(null as string) as key, cast(collapsed as int) as records)
        ),
        {%- endif %}
        transform(signs, sign -> struct('sign' as kind, sign.name as name, key_of_signs as key, sign.records as records))
    )) exploded as mark
    where mark.records != 0 and mark.name is not null
    {%- if of_changes %}
    union all
    select
        'disposition' as kind,
        element_at({{ text_array(dispositions()) }}, max(weight)) as name,
        null as key,
        cast({{ factor }} as bigint) as records,
        false as is_sample
    from (
        select
            change.change_id,
            change.weight
        from {{ noted }}
        lateral view explode(array_append(
            transform(collapsed_changes, id -> struct(id as change_id, {{ dispositions().index('collapsed') + 1 }} as weight)),
            struct(change_id, cast(array_position({{ text_array(dispositions()) }}, disposition) as int) as weight)
        )) exploded as change
        where change.weight is not null
        {%- if scope.hazards.truncates and scope.account.is_whole %}
        union all
        select change_id, 1 as weight from {{ scope.log }} as log where op = 't' and problem is null
        {%- endif %}
    ) as of_changes
    group by change_id
    {%- endif %}
{%- endmacro %}


{#- What can become of a change that a fold meets; a change that meets many keys counts as the last of these that it did. -#}
{% macro dispositions() -%}
    {{ return(['no_op', 'collapsed', 'closed_only', 'opened']) }}
{%- endmacro %}


{#-
  What news add to an account where none of them shows a sign, the common case: counts alone, with no look at keys.

  Args:
      counts: what `counts_of_fold` gave

  Returns: disposition → how many changes; none where there are signs, or where changes can meet several keys
-#}
{% macro added_without_signs(account, counts) -%}
    {%- if account.is_whole or account.shared or account.before or account.order != 'none' or counts.with_signs -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return({
        'opened': counts.opened, 'closed_only': counts.closed_only, 'collapsed': counts.collapsed,
        'no_op': counts.no_op + account.no_op, 'quarantined': account.quarantined, 'held_back': account.held_back
    }) }}
{%- endmacro %}
