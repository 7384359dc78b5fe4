{#-
  Builds a history in one commit a run (G8). What a fold gives is compared with what is stored, and only versions that
  differ are written; where none does, nothing is (G3).
-#}
{% materialization history, adapter='spark' %}
    {%- set declared = config.get('meta').tidemark -%}
    {%- set relation = build_by_difference('gold', declared, [declared.column_names.get('is_current', 'is_current')]) -%}
    {{ return({'relations': [relation]}) }}
{% endmaterialization %}


{#- Builds a current state: the open versions of its history. -#}
{% materialization current, adapter='spark' %}
    {%- set relation = build_by_difference('silver', history_declaration(config.get('meta').tidemark.history), []) -%}
    {{ return({'relations': [relation]}) }}
{% endmaterialization %}


{% macro build_by_difference(layer, declared, partitions) -%}
    {%- set names = declared.column_names -%}
    {%- set decision = decided(compiled_code) -%}
    {%- set target = this.incorporate(type='table') -%}
    {{ run_hooks(pre_hooks) }}
    {%- if decision.case == 'nothing' -%}
        {%- do store_raw_result(name='main', message='nothing new', code=none, rows_affected=0) -%}
    {%- elif is_first_build() -%}
        {%- do create_as(target, compiled_code, layer, partitions, declaration_of(declared.changes).columns) -%}
        {%- do say('built', decision.batch_id) -%}
    {%- else -%}
        {%- set staged = stage(difference(target, decision, declared, partitions)) -%}
        {%- set counts = run_query(
            "select count(*), count_if(action = 'insert'), count_if(action != 'insert' and not was_current) from " ~ staged
        )[0] -%}
        {%- if counts[0] -%}
            {%- do run_query(apply_difference(target, staged, counts, names, partitions)) -%}
        {%- endif -%}
        {%- do unstage(staged) -%}
        {%- do say(counts[0] ~ ' rows differ', decision.batch_id) -%}
    {%- endif -%}
    {{ run_hooks(post_hooks) }}
    {{ return(target) }}
{%- endmacro %}


{#- Query: the rows to insert, update and delete, by version_id. Stored rows of untouched keys are not looked at. -#}
{% macro difference(target, decision, declared, partitions) -%}
    {%- set names = declared.column_names -%}
    {%- set id = own('version_id', names) -%}
    {%- set columns = adapter.get_columns_in_relation(target) -%}
    {%- set key = stored_key(declaration_of(declared.changes)) -%}
    with built as (

        {{ compiled_code }}

    ),

    stored as (

        select * from {{ target }} as stored
        {%- if decision.case == 'keys' %}
        where exists (
            select 1 from {{ decision.log }} as log
            where log.batch_id > {{ decision.after }} and log.key <=> {{ key }}
        )
        {%- endif %}

    )

    select
        case
            when stored.{{ id }} is null then 'insert'
            when built.{{ id }} is null then 'delete'
            else 'update'
        end as action,
        {{ 'stored.' ~ own('is_current', names) if partitions else 'true' }} as was_current,
        coalesce(built.{{ id }}, stored.{{ id }}) as acted_on,
        built.*
    from built
    full outer join stored on built.{{ id }} = stored.{{ id }}
    where
        {%- for column in columns %}
        not {{ comparable('built.' ~ quoted(column.name), column.dtype) }} <=> {{ comparable('stored.' ~ quoted(column.name), column.dtype) }}
        {{- ' or' if not loop.last }}
        {%- endfor %}
{%- endmacro %}


{#- Expression: the key of a stored row, in the form that the log has it. -#}
{% macro stored_key(table) -%}
    named_struct(
        {%- for spec in table.columns if spec.name in table.key -%}
            {{ text_literal(spec.name) }}, stored.{{ quoted(spec.name) }}{{ ', ' if not loop.last }}
        {%- endfor -%}
    )
{%- endmacro %}


{#- Statement: the difference, in one commit. Where only open versions are touched, a literal says so and prunes. -#}
{% macro apply_difference(target, staged, counts, names, partitions) -%}
    {%- set columns = adapter.get_columns_in_relation(target) | map(attribute='name') | list -%}
    merge into {{ target }} as target
    using {{ staged }} as staged
    on target.{{ own('version_id', names) }} = staged.acted_on
        {%- if partitions and not counts[2] %}
        and target.{{ own('is_current', names) }} = true
        {%- endif %}
    {%- if counts[0] != counts[1] %}
    when matched and staged.action = 'delete' then delete
    when matched then update set
        {%- for column in columns %}
        target.{{ quoted(column) }} = staged.{{ quoted(column) }}{{ ',' if not loop.last }}
        {%- endfor %}
    {%- endif %}
    when not matched then insert ({% for column in columns %}{{ quoted(column) }}{{ ', ' if not loop.last }}{% endfor %})
        values ({% for column in columns %}staged.{{ quoted(column) }}{{ ', ' if not loop.last }}{% endfor %})
{%- endmacro %}
