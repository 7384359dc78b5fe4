{#-
  What a fold notes beside its versions: what became of each change (`disposition`), and what was found on the way (`signs`).
  What the names mean to people is told in spark_jobs/reporting/signs.py. Changes that a transaction collapses are no
  rows of the fold's later steps: what is told of them is counted so far, and told with the change that stayed.

  `account`, in all of these, is a scope's: what `whole_account` or `account_of_news` gave.
-#}


{#- Expression list over `labelled`'s window: what a change found, as far as signs look at it. -#}
{% macro found_columns(hazards, account, declared) -%}
        {{ follows_state() }} as follows_state
        {%- if hazards.whole_before %},
        lag(if(is_state, struct(state, unavailable_columns, absent_columns, exact_values), null)) over by_place as met
        {%- endif %}
        {%- if account.ends %},
        {%- if declared.snapshot_deletes == 'close' %}
        lead(if(op = 'r' and not is_state, null, place)) ignore nulls over by_place as next_place,
        {%- else %}
        lead(place) over by_place as next_place,
        {%- endif %}
        snapshot_ends.ends
        {%- endif %}
{%- endmacro %}


{#- Those of them that are of no use behind `stays`. -#}
{% macro found_alone(hazards, account) -%}
    {{ ' except (follows_state' ~ (', met' if hazards.whole_before) ~ (', next_place, ends' if account.ends) ~ ')' }}
{%- endmacro %}


{#- The signs that a change shows by what it found, be it collapsed or not. -#}
{% macro signs_of_found(hazards, account) -%}
    {{ return(
        ['unknown_deletes'] + (['broken_chains'] if hazards.whole_before else [])
        + (['missed_deletes'] if account.ends else [])
    ) }}
{%- endmacro %}


{#- The columns that count so far: the changes of a key, and those that show one of these signs. -#}
{% macro counters(hazards, account) -%}
    {{ return(['change_no'] + signs_of_found(hazards, account)) }}
{%- endmacro %}


{#- Expression list over `labelled`. -#}
{% macro counted_so_far(table, hazards, account) -%}
    {%- set conditions = {
        'unknown_deletes': "not is_state and op in ('d', 'u') and not follows_state",
        'broken_chains': before_differs(table),
        'missed_deletes': 'is_state and exists(ends, ' ~ reaches() ~ ')'
    } -%}
        row_number() over by_place as change_no
        {%- for name in signs_of_found(hazards, account) %},
        sum(if({{ conditions[name] }}, 1, 0)) over so_far as {{ name }}
        {%- endfor %}
{%- endmacro %}


{#- Expression list over `committed`'s window: how much was counted since the last change that stayed. -#}
{% macro counted_since_last(hazards, account) -%}
        change_no - coalesce(lag(change_no) over by_place, 0) - 1 as collapsed
        {%- for name in signs_of_found(hazards, account) %},
        {{ name }} - coalesce(lag({{ name }}) over by_place, 0) as {{ name }}
        {%- endfor %}
        {%- if hazards.whole_before %},
        coalesce(lag(op) over by_place = 'b', false) as has_opened_before
        {%- endif %}
{%- endmacro %}


{#-
  Expression list over the last step of a fold: what is to be told of a committed change. A change that found a state
  opened its version (R19); a version that was carried was told of before, but for what an ignored column brought since.

  Columns: disposition, NULL where the row is no change of its own; is_carried, where versions can be; collapsed, how many
      changes collapsed into this one;
      signs, an array of {name, records}; key, as JSON text where there are signs; where a change can meet several keys,
      change_id and collapsed_changes, the ids of those
-#}
{% macro disposition_columns(scope, ignored) -%}
    {%- set signs = {
        'missed_changes': 'if(is_read and was_open and is_opening, 1, 0)',
        'unknown_updates': "if(is_opening and not was_open and opened_by = 'update', 1, 0)",
        'held_back_times': 'if(is_boundary and not is_read and opening.changed_at < boundary, 1, 0)',
        'unresolved_columns': 'if(is_opening and size(unresolved_columns) > 0, 1, 0)',
        'exact_values': 'if(is_opening and size(exact_values) > 0, 1, 0)'
    } -%}
    {%- set since_carried = {
        'unresolved_columns': 'if(size(unresolved_columns) > 0, 1, 0) - if(size(unavailable_columns) > 0, 1, 0)',
        'exact_values': 'if(size(exact_values) > 0, 1, 0) - if(size(exact_values_then) > 0, 1, 0)'
    } if ignored else {} -%}
    {%- if scope.hazards.whole_before -%}{%- do signs.update({'found_states': 'if(has_opened_before, 1, 0)'}) -%}{%- endif %}
        case
            {%- if scope.carried %}
            when {{ is_carried() }} then null
            {%- endif %}
            {%- if scope.hazards.whole_before %}
            when op = 'b' then null
            when has_opened_before then 'opened'
            {%- endif %}
            when is_opening then 'opened'
            when is_boundary then 'closed_only'
            else 'no_op'
        end as disposition,
        {%- if scope.carried %}
        {{ is_carried() }} as is_carried,
        {%- endif %}
        collapsed,
        {%- if scope.account.shared %}
        opening.change_id as change_id,
        collapsed_changes,
        {%- endif %}
        filter(
            array(
                {%- for name, records in signs.items() %}
                struct('{{ name }}' as name, {{ 'if(' ~ is_carried() ~ ', ' ~ since_carried.get(name, '0') ~ ', ' ~ records ~ ')' if scope.carried else records }} as records),
                {%- endfor %}
                {%- for name in signs_of_found(scope.hazards, scope.account) %}
                struct('{{ name }}' as name, cast({{ name }} as int) as records){{ ',' if not loop.last }}
                {%- endfor %}
            ),
            sign -> sign.records != 0
        ) as signs
{%- endmacro %}


{#-
  Query: the log, or what of it is behind a landing, with the signs that its order alone shows. A border can show at a
  change with a problem, whose key may name no row.
-#}
{% macro signs_of_order(changes_log, account) -%}
    {%- set is_new = account.order == 'new' -%}
    select
        if(problem is null, {{ key_text('key') }}, null) as key,
        case
            when problem is null and op != 'r' and {{ falls_behind('highest') }} then 'position_regressions'
            when log_number > former_log then 'new_logs'
        end as name
    from (
        select
            *,
            {{ 'coalesce(' if is_new }}lag(log_number) over (
                partition by source_label, topic, `partition` order by log_number, `offset`
            ){{ ', watermark.log_number)' if is_new }} as former_log
        from {{ followed(changes_log, account.watermarks, account.after, landed_since(account.after)) if is_new
            else followed(changes_log) }}
    ) as followed
{%- endmacro %}


{#- Condition over `labelled`: whether a change found the row in another state than the last one known (R19). -#}
{% macro before_differs(table) -%}
    op in ('u', 'd') and before is not null and met is not null and {{ is_of_another_row('met', table) }}
{%- endmacro %}
