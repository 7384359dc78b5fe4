{#-
  What became of each change of one table (G6), and what the contract asks to be counted: a row per disposition, and a
  row per sign with the first keys that it met.

  It is a by-product of building the table's history: the fold tells what became of each change that it met, and that is
  added to the account as it was. It is written down with the history's progress, in one commit for all tables of a run
  when that ends, and this model is a view of that.

  Args:
      history: the name of the table's history model
-#}
{% macro accounting(history) -%}
    {%- do check_options('accounting', dict(kwargs, history=history)) -%}
    {%- do config(materialized='accounting', meta={'tidemark': {'accounts': history}}) -%}
    {%- do read(history) -%}
    {%- if execute -%}{{ stored_account(history) }}{%- endif -%}
{%- endmacro %}


{#-
  Query: the account of a history, as its last build wrote it down.

  Args:
      account: what of that is wanted, as an array; all of it
-#}
{% macro stored_account(history, account='account') -%}
    select
        entry.kind,
        entry.name,
        entry.records,
        entry.sample_keys
    from {{ progress_relation() }}
    lateral view inline({{ account }}) entry as kind, name, records, sample_keys
    where model = {{ text_literal(model_node(history).unique_id) }}
{%- endmacro %}


{#-
  Expression: an account with what news have added to it. What is held back is counted anew each time.

  Args:
      account: the stored one, an array
      added: disposition → how many changes, a map
-#}
{% macro account_with_added(account, added) -%}
    {%- set before = "filter(" ~ account ~ ", counted -> counted.name != 'held_back')" -%}
    concat(
        transform(
            {{ before }},
            counted -> named_struct(
                'kind', counted.kind,
                'name', counted.name,
                'records', counted.records + if(counted.kind = 'disposition', coalesce({{ added }}[counted.name], 0), 0),
                'sample_keys', counted.sample_keys
            )
        ),
        transform(
            filter(
                map_entries({{ added }}),
                entry -> entry.value > 0
                    and not exists({{ before }}, counted -> counted.kind = 'disposition' and counted.name = entry.key)
            ),
            entry -> named_struct(
                'kind', 'disposition',
                'name', entry.key,
                'records', entry.value,
                'sample_keys', cast(array() as array<string>)
            )
        )
    )
{%- endmacro %}


{#-
  Relation: an account as it is now. In a run that has built its history that is what will be written down when the run ends.

  Args:
      account: the relation of an accounting model, or of anything like it
-#}
{% macro account_now(account) -%}
    {%- set node = node_of(account) -%}
    {%- set history = declared_by(node).get('accounts') if node else none -%}
    {%- set of_this_run = memory().get('accounts', {}).get(model_node(history).unique_id) if history else none -%}
    {%- if of_this_run and of_this_run.staged -%}
        {{ return('parquet.' ~ quoted(of_this_run.staged)) }}
    {%- elif of_this_run -%}
        {%- set added = "from_json(" ~ text_literal(tojson(of_this_run.added)) ~ ", 'map<string, bigint>')" -%}
        {{ return('(' ~ stored_account(history, account_with_added('account', added)) ~ ')') }}
    {%- endif -%}
    {{ return(account) }}
{%- endmacro %}


{#- The accounting model of a history; none where there is none. -#}
{% macro accounting_of(history) -%}
    {%- for node in graph.nodes.values()
        if node.resource_type == 'model' and declared_by(node).get('accounts') == history -%}
        {{ return(node) }}
    {%- endfor -%}
    {{ return(none) }}
{%- endmacro %}


{#- Makes the view of an account, and anew where it is one of another model, as behind a new name. -#}
{% materialization accounting, adapter='spark' %}
    {%- set target_relation = this.incorporate(type='view') -%}
    {%- set existing = load_relation(this) -%}
    {%- set query = stored_account(config.get('meta').tidemark.accounts) | trim -%}
    {{ run_hooks(pre_hooks) }}
    {%- if existing is not none and existing.type != 'view' -%}
        {#- In a lakehouse of an older layout it was a table. -#}
        {%- do run_statement('drop table if exists ' ~ this) -%}
    {%- endif -%}
    {#- dbt has listed what the catalog knows before the run, the text of a view too. -#}
    {%- if existing is none or query not in existing.information or should_full_refresh() -%}
        {%- call statement('main') %}
        create or replace view {{ target_relation }}
        comment {{ text_literal(model.description) }}
        as
        {{ query }}
        {% endcall -%}
    {%- else -%}
        {%- do store_raw_result(name='main', message='nothing new', code=none, rows_affected=0) -%}
    {%- endif -%}
    {{ run_hooks(post_hooks) }}
    {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
