{#-
  Builds a changes log: created once, appended to, and merged into only where a record changes what is there (a
  delivery with a lower offset landed late, or a position that depended on it). Writes nothing where nothing is new (G3).
-#}
{% materialization changes, adapter='spark' %}
    {%- set decision = decided(compiled_code) -%}
    {%- set target = this.incorporate(type='table') -%}
    {{ run_hooks(pre_hooks) }}
    {%- if decision.case == 'nothing' -%}
        {%- do store_raw_result(name='main', message='nothing new', code=none, rows_affected=0) -%}
    {%- elif is_first_build() -%}
        {%- do create_as(target, compiled_code, 'silver', [], config.get('meta').tidemark.columns) -%}
        {%- do say('built', decision.batch_id) -%}
    {%- else -%}
        {%- set staged = stage(compiled_code) -%}
        {%- set counted = run_query(revisions(staged, target, decision.case, 'count(*), count_if(is_known)'))[0] -%}
        {%- if counted[1] -%}
            {%- do run_query(merge_revisions(staged, target, decision)) -%}
        {%- elif counted[0] -%}
            {%- do run_query(
                'insert into ' ~ target ~ ' by name ' ~ revisions(staged, target, decision.case, 'staged.*')
            ) -%}
        {%- endif -%}
        {%- do unstage(staged) -%}
        {%- do say(counted[0] ~ ' changes', decision.batch_id) -%}
    {%- endif -%}
    {{ run_hooks(post_hooks) }}
    {{ return({'relations': [target]}) }}
{% endmaterialization %}


{#-
  Query: what of a staged batch the log lacks, or holds from a later delivery. Only the part of the log in which the
  batch's positions fall is read: deliveries of one change agree in position.
-#}
{% macro revisions(staged, target, case, what) -%}
    {%- set bounds = run_query('select min(position), max(position), count_if(position is null) from ' ~ staged)[0] -%}
    select {{ what }}
    from (
        select
            staged.*,
            known.change_id is not null as is_known
        from {{ staged }} as staged
        left join (
            select change_id, position, `partition`, `offset`, topic
            from {{ target }}
            {%- if not bounds[2] and case == 'some' %}
            where position between {{ text_literal(bounds[0]) }} and {{ text_literal(bounds[1]) }}
            {%- endif %}
        ) as known on staged.change_id = known.change_id
        where known.change_id is null
            or struct(staged.`partition`, staged.`offset`, staged.topic)
            < struct(known.`partition`, known.`offset`, known.topic)
            or not staged.position <=> known.position
    ) as staged
{%- endmacro %}


{#- Statement: put the counted delivery, its position and its landing in the place of the one before. -#}
{% macro merge_revisions(staged, target, decision) -%}
    {%- set columns = adapter.get_columns_in_relation(target) | map(attribute='name') | list -%}
    merge into {{ target }} as target
    using ({{ revisions(staged, target, decision.case, 'staged.* except (is_known)') }}) as revised
    on target.change_id = revised.change_id
    when matched then update set
        {%- for column in columns %}
        target.{{ quoted(column) }} = {{ decision.batch_id if column == 'batch_id' else 'revised.' ~ quoted(column) }}
        {{- ',' if not loop.last }}
        {%- endfor %}
    when not matched then insert ({% for column in columns %}{{ quoted(column) }}{{ ', ' if not loop.last }}{% endfor %})
        values ({% for column in columns %}
            {{- decision.batch_id if column == 'batch_id' and decision.case == 'rederive' else 'revised.' ~ quoted(column) }}
            {{- ', ' if not loop.last }}{% endfor %})
{%- endmacro %}
