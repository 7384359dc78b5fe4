{#-
  What became of each change of one table (G6), and what the contract asks to be counted: a row per disposition, and a
  row per sign with the first keys that it met. It reads what gold says of the changes, so that it can't say anything
  else, and of the fold's steps only those that no version shows.

  Args:
      history: the name of the table's history model
-#}
{% macro accounting(history) -%}
    {%- do check_options('accounting', dict(kwargs, history=history)) -%}
    {%- do config(meta={'tidemark': {'accounts': history}}) -%}
    {%- set versions = read(history) -%}
    {%- if execute -%}
        {%- set declared = history_declaration(history) -%}
        {%- set table = declaration_of(declared.changes) -%}
        {%- set log = relation_of(declared.changes) -%}
        {%- set scope = history_scope('ops', log, table, declared, by_key=false, history=history) -%}
{{ decision(scope) }}
with

{{ stays_steps(table, scope, declared.granularity, declared.snapshot_deletes) }},

{{ told_steps(scope.log, table, scope.hazards, versions, declared.column_names, scope.scans) }},

in_order as (

    {{ told_by_order(log) }}

),

{#- A truncate meets many keys: it counts once, as the most that it did. -#}
by_change as (

    select
        log.change_id,
        any_value(log.signs) as signs_of_log,
        {%- if scope.cut is not none %}
        any_value(log.position) >= {{ text_literal(scope.cut) }} as is_held_back,
        {%- endif %}
        {%- if scope.hazards.problems %}
        any_value(log.problem) as problem,
        {%- endif %}
        max(struct(
            array_position(array('collapsed', 'closed_only', 'opened'), told.outcome) as weight, told.outcome
        )).outcome as outcome,
        flatten(collect_list(told.signs)) as signs
    from in_order as log
    left join told on log.change_id = told.change_id
    group by log.change_id

),

marks as (

    select mark.*
    from by_change
    lateral view explode(concat(
        array(struct(
            'disposition' as kind,
            {{ disposition(scope) }} as name,
            cast(null as string) as key
        )),
        transform(concat(signs_of_log, signs), sign -> struct('sign' as kind, sign.name, sign.key))
    )) exploded as mark

),

by_key as (

    select
        kind,
        name,
        key,
        count(*) as records,
        row_number() over (partition by kind, name order by key asc nulls last) as number
    from marks
    group by kind, name, key

)

select
    kind,
    name,
    sum(records) as records,
    array_sort(collect_list(if(number <= 10, key, null))) as sample_keys
from by_key
group by kind, name
    {%- endif -%}
{%- endmacro %}


{#- Expression: what became of a change, from what it did to keys; where it was not looked at, why. -#}
{% macro disposition(scope) -%}
    coalesce(
        {%- if scope.hazards.problems %}
        if(problem is null, null, 'quarantined'),
        {%- endif %}
        {%- if scope.cut is not none %}
        if(is_held_back, 'held_back', null),
        {%- endif %}
        outcome,
        'no_op'
    )
{%- endmacro %}


{#- Builds a table of `ops` anew where what it tells of has moved, and leaves it alone otherwise (G3). -#}
{% materialization remade, adapter='spark' %}
    {%- set decision = decided(compiled_code) -%}
    {%- set target = this.incorporate(type='table') -%}
    {{ run_hooks(pre_hooks) }}
    {%- if decision.case == 'nothing' -%}
        {%- do leave_as_is(target, this.schema) -%}
    {%- else -%}
        {%- do create_as(target, compiled_code, this.schema, []) -%}
        {%- do say('built', decision) -%}
    {%- endif -%}
    {{ run_hooks(post_hooks) }}
    {{ return({'relations': [target]}) }}
{% endmaterialization %}
