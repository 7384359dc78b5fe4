{#-
  Builds a changes log: created once, appended to, and merged into only where a record changes what is there (a
  delivery with a lower offset landed late). Writes nothing where nothing is new (G3).
-#}
{% materialization changes, adapter='spark' %}
    {%- set decision = decided(compiled_code) -%}
    {%- set target = this.incorporate(type='table') -%}
    {{ run_hooks(pre_hooks) }}
    {%- if decision.case == 'nothing' -%}
        {%- do leave_as_is(target, 'silver') -%}
    {%- elif decision.case == 'full' -%}
        {%- do create_log(target, compiled_code, decision) -%}
        {%- do say('built', decision, {'hazards': hazards_of(target, -1)}) -%}
    {%- else -%}
        {%- do add_row_fields(target, decision.added) -%}
        {%- set staged = stage(compiled_code) -%}
        {%- set revised = revisions(staged, target, decision.case) -%}
        {%- set counts = run_query(
            "select count_if(action = 'insert'), count_if(action != 'insert') from (" ~ revised ~ ')'
        )[0] -%}
        {%- if counts[1] and decision.case == 'rederive' -%}
            {%- do create_log(target, 'select * from ' ~ staged, decision) -%}
        {%- elif counts[1] -%}
            {%- do run_query(merge_revisions(revised, target)) -%}
        {%- elif counts[0] -%}
            {%- do run_query(
                'insert into ' ~ target ~ ' by name select * except (action) from (' ~ revised ~ ')'
            ) -%}
        {%- endif -%}
        {%- do unstage(staged) -%}
        {%- do say(
            counts[0] ~ ' changes' ~ (', ' ~ counts[1] ~ ' revised' if counts[1] else ''), decision,
            {'hazards': both_hazards(decision.hazards, hazards_of(target, decision.after))}
        ) -%}
    {%- endif -%}
    {{ run_hooks(post_hooks) }}
    {{ return({'relations': [target]}) }}
{% endmaterialization %}


{#- `reset_in` tells histories that the log may say otherwise of changes that they have read. -#}
{% macro create_log(target, sql, decision) -%}
    {%- do create_as(
        target, sql, 'silver', [], decision.state.columns | map('first') | list,
        {'tidemark.reset_in': decision.batch_id} if decision.get('reset') else {}
    ) -%}
{%- endmacro %}


{#- New columns of the source become fields of `after` and `before` (R8). -#}
{% macro add_row_fields(target, added) -%}
    {%- if added -%}
        {%- set definitions = [] -%}
        {%- for column in added -%}
            {%- do definitions.append('after.' ~ quoted(column[0]) ~ ' ' ~ column[1]) -%}
            {%- do definitions.append('before.' ~ quoted(column[0]) ~ ' ' ~ column[1]) -%}
        {%- endfor -%}
        {%- do add_columns(target, added | map('first') | list, definitions) -%}
    {%- endif -%}
{%- endmacro %}


{#-
  Query: what of a staged batch the log lacks (`insert`), or holds from a later delivery (`update`); for a whole log
  also what it holds and should not (`delete`). Only the part of the log from the batch's first position on is read:
  deliveries of one change agree in position, but for one that S of R4 put behind its own.
-#}
{% macro revisions(staged, target, case) -%}
    {%- set bounds = run_query('select min(position), count_if(position is null) from ' ~ staged)[0] -%}
    select
        staged.*,
        case
            when known.change_id is null then 'insert'
            when staged.change_id is null then 'delete'
            else 'update'
        end as action
    from {{ staged }} as staged
    {{ 'full' if case == 'rederive' else 'left' }} join (
        select change_id, position, `partition`, `offset`, topic
        from {{ target }}
        {%- if case == 'some' and not bounds[1] %}
        where position >= {{ text_literal(bounds[0]) }}
        {%- endif %}
    ) as known on staged.change_id = known.change_id
    where known.change_id is null
        or staged.change_id is null
        or struct(staged.`partition`, staged.`offset`, staged.topic)
        < struct(known.`partition`, known.`offset`, known.topic)
        {%- if case == 'rederive' %}
        or not staged.position <=> known.position
        {%- endif %}
{%- endmacro %}


{#- Statement: put the counted delivery in the place of the one before, and add what is new. -#}
{% macro merge_revisions(revisions, target) -%}
    {%- set columns = adapter.get_columns_in_relation(target) | map(attribute='name') | list -%}
    merge into {{ target }} as target
    using ({{ revisions }}) as revised
    on target.change_id = revised.change_id
    when matched then update set
        {%- for column in columns %}
        target.{{ quoted(column) }} = revised.{{ quoted(column) }}{{ ',' if not loop.last }}
        {%- endfor %}
    when not matched then insert ({% for column in columns %}{{ quoted(column) }}{{ ', ' if not loop.last }}{% endfor %})
        values ({% for column in columns %}revised.{{ quoted(column) }}{{ ', ' if not loop.last }}{% endfor %})
{%- endmacro %}


{#-
  What in a log a fold must be prepared for. A fold without a hazard leaves the steps for it out.

  Returns: hazard → whether a change landed after the given landing has it.
-#}
{% macro hazards_of(log, after) -%}
    {%- set conditions = hazard_conditions() -%}
    {%- set counts = run_query(
        'select ' ~ hazard_counts() ~ ' from ' ~ log ~ ' where batch_id > ' ~ after
    )[0] -%}
    {{ return(named_hazards(counts, 0)) }}
{%- endmacro %}


{% macro hazard_conditions() -%}
    {{ return({
        'truncates': "op = 't'",
        'unavailable': 'size(unavailable_columns) > 0',
        'linked': 'previous_key is not null and size(unavailable_columns) > 0',
        'moves': "op = 'u' and previous_key is not null",
        'absent': 'size(absent_columns) > 0',
        'inexact': 'size(exact_values) > 0',
        'whole_before': "is_before_whole and op in ('u', 'd')",
        'reads': "op = 'r'"
    }) }}
{%- endmacro %}


{% macro hazard_counts() -%}
    {%- for condition in hazard_conditions().values() -%}
        count_if({{ condition }}){{ ', ' if not loop.last }}
    {%- endfor -%}
{%- endmacro %}


{% macro named_hazards(counts, first) -%}
    {%- set hazards = {} -%}
    {%- for name in hazard_conditions() -%}
        {%- do hazards.update({name: counts[first + loop.index0] > 0}) -%}
    {%- endfor -%}
    {{ return(hazards) }}
{%- endmacro %}


{% macro both_hazards(one, other) -%}
    {%- set hazards = {} -%}
    {%- for name in hazard_conditions() -%}
        {%- do hazards.update({name: one.get(name, false) or other.get(name, false)}) -%}
    {%- endfor -%}
    {{ return(hazards) }}
{%- endmacro %}
