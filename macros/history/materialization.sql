{#-
  Builds a history in one commit a run (G8). What a fold gives is compared with what is stored, and only versions that
  differ are written; where none does, nothing is (G3).
-#}
{% materialization history, adapter='spark' %}
    {%- set declared = config.get('meta').tidemark -%}
    {%- set is_current = declared.column_names.get('is_current', 'is_current') -%}
    {%- set relation = build_by_difference('gold', declared, own('version_id', declared.column_names), [is_current]) -%}
    {{ return({'relations': [relation]}) }}
{% endmaterialization %}


{#- Builds a current state: the open versions of its history, written anew where they are few. -#}
{% materialization current, adapter='spark' %}
    {%- set declared = history_declaration(config.get('meta').tidemark.history) -%}
    {%- set relation = build_by_difference('silver', declared, own('version_id', declared.column_names), []) -%}
    {{ return({'relations': [relation]}) }}
{% endmaterialization %}


{#-
  Args:
      layer: where the table is
      declared: what the history declared
      id: the column that names a row
      open: the column that tells open versions from closed ones; the table is partitioned by it, as open ones change
-#}
{% macro build_by_difference(layer, declared, id, open) -%}
    {%- set decision = decided(compiled_code) -%}
    {%- set target = this.incorporate(type='table') -%}
    {%- set account = decision.get('account') if decision.case != 'nothing' else none -%}
    {%- set made_of = none if open or decision.case == 'nothing' else table_state(decision.history) -%}
    {{ run_hooks(pre_hooks) }}
    {%- set is_in_order = decision.get('carried') and not decision.carried.refolded -%}
    {%- set told = stage(compiled_code, 'told') if account or is_in_order else none -%}
    {%- set built = compiled_code if not told else (
        'select version.* from ' ~ told ~ ' where version is not null' if account else 'select * from ' ~ told
    ) -%}
    {%- if decision.case == 'nothing' -%}
        {%- do leave_as_is(target, layer, open) -%}
    {%- elif decision.case == 'full' -%}
        {%- do create_as(
            target, built, layer, open, decision.state.columns | map('first') | list,
            pruned_by=pruned_by(declared, layer)
        ) -%}
        {%- if account -%}{%- do account_for(decision, declared, told) -%}{%- endif -%}
        {%- do say('built', decision, states_after(target, made_of)) -%}
    {%- else -%}
        {%- do add_source_columns(target, decision) -%}
        {%- set columns = adapter.get_columns_in_relation(target) -%}
        {%- set differing = going_on(told, id, open) if is_in_order and account and not (declared.track or declared.ignore)
            else difference(built, target, columns, decision, declared, id, open) -%}
        {%- if not open and is_left_as(decision.history, decision.made_of, made_of) -%}
            {%- set changed = 0 -%}
        {%- elif not open and are_few(target, declared, decision.history, own('is_current', declared.column_names)) -%}
            {%- set changed = write_anew(target, columns, built) -%}
        {%- elif is_in_order and decision.carried.known == 0 -%}
            {%- set changed = append_versions(target, columns, built) -%}
        {%- elif is_in_order and run_query('select count_if(not ' ~ quoted(open[0]) ~ ') from (' ~ built ~ ')')[0][0]
            and are_few(target, declared, target, quoted(open[0])) -%}
            {%- set changed = write_open_anew(target, columns, built, decision, declared, quoted(open[0])) -%}
        {%- elif not open and decision.case == 'keys' and not decision.touched -%}
            {%- set changed = merge_living(target, columns, built, decision, declared, id) -%}
        {%- elif not open or is_in_order -%}
            {%- set changed = merge_difference(target, columns, '(' ~ differing ~ ')', id, open, true) -%}
        {%- else -%}
            {%- set staged = stage(differing) -%}
            {%- set counts = run_query(
                "select count(*), count_if(action != 'insert' and not was_open) from " ~ staged
            )[0] -%}
            {%- set changed = counts[0] and merge_difference(target, columns, staged, id, open, not counts[1]) -%}
            {%- do unstage(staged) -%}
        {%- endif -%}
        {%- if account -%}{%- do account_for(decision, declared, told) -%}{%- endif -%}
        {%- do say(changed ~ ' rows changed', decision, states_after(target, made_of)) -%}
    {%- endif -%}
    {%- if told -%}{%- do unstage(told, is_large=account and account.is_whole) -%}{%- endif -%}
    {%- do release_touched(decision) -%}
    {{ run_hooks(post_hooks) }}
    {{ return(target) }}
{%- endmacro %}


{#- In which state the next run has to find the tables to go on from them: a history itself, or that of a current state. -#}
{% macro states_after(target, made_of) -%}
    {{ return({'made_of': made_of} if made_of else {'left_as': table_state(target)}) }}
{%- endmacro %}


{#- Write down what became of the changes that a fold met: a history's build tells the accounting of it (G6). -#}
{% macro account_for(decision, declared, told) -%}
    {%- set account = decision.account -%}
    {%- set node = model_node(account.name) -%}
    {%- set sql = account_without_signs(told, account) -%}
    {%- set with_signs -%}
        with

        {{ account_steps(
            told, decision, relation_of(declared.changes), account.before, none if account.is_whole else account.relation
        ) }}

        select * from account
    {%- endset -%}
    {%- do write_account(
        api.Relation.create(schema=node.schema, identifier=node.alias, type='table'), sql or with_signs, account, node.description
    ) -%}
{%- endmacro %}


{#- The columns that people look for versions by: the key, as far as Delta keeps bounds of its types, and the time. -#}
{% macro pruned_by(declared, layer) -%}
    {%- set table = declaration_of(declared.changes) -%}
    {%- set columns = [] -%}
    {%- for spec in table.columns
        if spec.name in table.key and not modules.re.search('binary|boolean|variant|<', spec.type | lower) -%}
        {%- do columns.append(quoted(spec.name)) -%}
    {%- endfor -%}
    {%- for name in ['valid_from', 'valid_to'] if name == 'valid_from' or layer == 'gold' -%}
        {%- do columns.append(own(name, declared.column_names)) -%}
    {%- endfor -%}
    {{ return(columns) }}
{%- endmacro %}


{#- New columns of the source stand behind its other columns and before our own (R8). -#}
{% macro add_source_columns(target, decision) -%}
    {%- if decision.added -%}
        {%- set columns = decision.state.columns | map('first') | list -%}
        {%- set definitions = [] -%}
        {%- for column in decision.added -%}
            {%- do definitions.append(
                quoted(column[0]) ~ ' ' ~ column[1] ~ ' after ' ~ quoted(columns[columns.index(column[0]) - 1])
            ) -%}
        {%- endfor -%}
        {%- do add_columns(target, decision.added | map('first') | list, definitions) -%}
    {%- endif -%}
{%- endmacro %}


{#- Query: the rows to insert, update and delete, by their id. Stored rows of untouched keys are not looked at. -#}
{% macro difference(built, target, columns, decision, declared, id, open) -%}
    {%- set key = key_of('stored', declaration_of(declared.changes)) -%}
    {%- set carried = decision.get('carried') -%}
    with built as (

        {%- if open or decision.case != 'keys' %}
        {{ built }}
        {%- else %}
        select * from ({{ built }}) as stored where {{ is_touched(key, decision) }}
        {%- endif %}

    ),

    stored as (

        select * from {{ target }} as stored
        {%- if carried %}
        where ({{ quoted(open[0]) }} and {{ is_refolded(key, carried, otherwise=true) }})
            {{- ' or ' ~ is_refolded(key, carried) if carried.refolded }}
        {%- elif decision.case == 'keys' %}
        where {{ is_touched(key, decision) }}
        {%- endif %}

    )

    select
        case
            when stored.{{ id }} is null then 'insert'
            when built.{{ id }} is null then 'delete'
            else 'update'
        end as action,
        {{ 'stored.' ~ quoted(open[0]) if open else 'true' }} as was_open,
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


{#-
  Query: the same of a fold that went on from open versions, which are as they were unless they were closed: nothing has
  to be compared with what is stored. (An ignored column changes a version that stays open: R12.)
-#}
{% macro going_on(told, id, open) -%}
    select
        'write' as action,
        version.{{ id }} as acted_on,
        version.*
    from {{ told }}
    where version is not null and not (is_carried and version.{{ quoted(open[0]) }})
{%- endmacro %}


{#-
  Write the difference, in one commit; where there is none, Delta commits nothing (G3). A closed version is only read where
  one may differ: as long as all are open, a literal says so and prunes.

  Returns: how many rows were inserted, updated or deleted
-#}
{% macro merge_difference(target, columns, differing, id, open, are_open) -%}
    {%- set names = columns | map(attribute='name') | list -%}
    {%- set merge -%}
    merge into {{ target }} as target
    using {{ differing }} as differing
    on target.{{ id }} = differing.acted_on
        {%- if open and are_open %}
        and target.{{ quoted(open[0]) }} = true
        {%- endif %}
    when matched and differing.action = 'delete' then delete
    when matched then update set
        {%- for name in names %}
        target.{{ quoted(name) }} = differing.{{ quoted(name) }}{{ ',' if not loop.last }}
        {%- endfor %}
    when not matched then insert ({% for name in names %}{{ quoted(name) }}{{ ', ' if not loop.last }}{% endfor %})
        values ({% for name in names %}differing.{{ quoted(name) }}{{ ', ' if not loop.last }}{% endfor %})
    {%- endset -%}
    {{ return(run_query(merge)[0][0] | int) }}
{%- endmacro %}
