{#-
  What became of each change of one table (G6): a row per disposition. The dispositions are the fold's own steps, so
  that the account can't say anything else than history does.

  Args:
      history: the name of the table's history model
-#}
{% macro accounting(history) -%}
    {%- do check_options('accounting', dict(kwargs, history=history)) -%}
    {%- do config(meta={'tidemark': {'accounts': history}}) -%}
    {%- do ref(history) -%}
    {%- if execute -%}
        {%- set declared = history_declaration(history) -%}
        {%- set table = declaration_of(declared.changes) -%}
        {%- set log = relation_of(declared.changes) -%}
        {%- set scope = history_scope('ops', log, table, declared, by_key=false) -%}
        {%- set tracked = tracked_columns(table, declared.track, declared.ignore) -%}
{{ decision(scope) }}
with

{{ fold_steps(log, table, scope, declared.granularity, tracked, declared.snapshot_deletes) }},

outcomes as (

    select
        told_by.change_id,
        case when is_opening then 'opened' when was_open and not is_state then 'closed_only' else 'no_op' end as outcome
    from compared
    union all
    select change_id, 'collapsed' as outcome from filled where not is_last

),

{#- A truncate meets many keys: it counts once, as the most that it did. -#}
dispositions as (

    select
        log.change_id,
        {%- if scope.hazards.problems %}
        if(
            any_value(log.problem) is not null,
            'quarantined',
        {%- endif %}
        coalesce(
            max(struct(array_position(array('no_op', 'collapsed', 'closed_only', 'opened'), outcome) as weight, outcome)).outcome,
            'no_op'
        ){{ ')' if scope.hazards.problems }} as disposition
    from {{ log }} as log
    left join outcomes on log.change_id = outcomes.change_id
    group by log.change_id

)

select
    disposition,
    count(*) as records
from dispositions
group by disposition
    {%- endif -%}
{%- endmacro %}


{#- Builds an account anew where the log has moved, and leaves it alone otherwise (G3). -#}
{% materialization accounting, adapter='spark' %}
    {%- set decision = decided(compiled_code) -%}
    {%- set target = this.incorporate(type='table') -%}
    {{ run_hooks(pre_hooks) }}
    {%- if decision.case == 'nothing' -%}
        {%- do leave_as_is(target, 'ops') -%}
    {%- else -%}
        {%- do create_as(target, compiled_code, 'ops', []) -%}
        {%- do say('built', decision) -%}
    {%- endif -%}
    {{ run_hooks(post_hooks) }}
    {{ return({'relations': [target]}) }}
{% endmaterialization %}
