{#-
  How far a model has read, in numbers of landings, and under which declaration. Progress is only a way to read less: a
  model that reads a landing twice arrives at the same table (G4), and a lost record of progress costs time alone.
-#}
{% macro progress_table() -%}
    {{ lakehouse_table('ops', 'progress') }}
{%- endmacro %}


{#- The same table as the catalog knows it, for views: they outlive a move of the lakehouse. -#}
{% macro progress_relation() -%}
    {{ api.Relation.create(schema=layer_schema('ops'), identifier='progress') }}
{%- endmacro %}


{#-
  Before a run: read how far each model came. It is the same until the run ends, and read once for all of its models. dbt
  has no place for that but its graph, which is one object for a whole run.
-#}
{% macro read_progress() -%}
    {%- do graph.update({'tidemark': dict(empty_memory(), progress=progress_so_far())}) -%}
    {%- if not flags.EMPTY -%}{%- do ask_bronze() -%}{%- endif -%}
{%- endmacro %}


{#-
  What `graph.tidemark` has at the beginning of a run. What a table's models leave there, those behind them need not ask again:

      progress       model → what its last build wrote down (`progress_so_far`)
      landed         the last landing that this run reads (`ask_bronze`)
      fields         feed → the fields that its records have (`fields_seen`)
      news           [feed, landing, connector] → what has come of it since (`landed_news`)
      waiting        changes model → how many records wait for it
      untouched      the logs whose build in this run had nothing to do
      new_changes    log → where its build in this run holds what it has added (`hand_on_news`)
      columns        log → the columns that its rows have (`undeclared_in`)
      landed_places  the questions after places of declared borders that found them (`only_landed_places`)
      made_in        log → the run that made it anew (`log_made_in`)
      scope_answers  what was asked of a log → what `history_scope` found
      unread         what of topics no log tells (`unread_ranges`)
      cuts           model of transactions → changes model → the position where its cut is (`cut_of`)
      scans          changes model → the scans of its table that ended well (`scans_of`)
      doubts         log → the snapshots that it puts in doubt (`snapshots_in_doubt`)
      living_rows    history → where the rows of keys with news are held (`hand_on`)
      open_versions  history → how many of its versions are open
      last_writers   history → the run that wrote it last (`written_by`)
      left_otherwise history → whether a run that wrote down nothing has written it (`is_left_otherwise`)
      states         model → what its build in this run wrote down (`say`)
      accounts       history → what its build in this run told of its account (`account_for`)
-#}
{% macro empty_memory() -%}
    {{ return({
        'progress': {},
        'landed': -1,
        'fields': {},
        'news': {},
        'waiting': {},
        'untouched': {},
        'new_changes': {},
        'columns': {},
        'landed_places': {},
        'made_in': {},
        'scope_answers': {},
        'unread': none,
        'cuts': {},
        'scans': {},
        'doubts': {},
        'living_rows': {},
        'open_versions': {},
        'last_writers': {},
        'left_otherwise': {},
        'states': {},
        'accounts': {}
    }) }}
{%- endmacro %}


{#- What `graph.tidemark` has; nothing outside of a build, which alone reads progress. -#}
{% macro memory() -%}
    {{ return(graph.get('tidemark') or {}) }}
{%- endmacro %}


{#- What every model, or some, wrote down last: unique id → {batch_id, declared, columns, …}. -#}
{% macro progress_so_far(model_ids=none) -%}
    {%- set progress = {} -%}
    {%- for row in run_query(
        'select model, batch_id, state from ' ~ progress_table()
        ~ (' where model in (' ~ text_list(model_ids) ~ ')' if model_ids is not none else '')
    ) -%}
        {%- do progress.update({row[0]: dict(fromjson(row[2]), batch_id=row[1] | int)}) -%}
    {%- endfor -%}
    {{ return(progress) }}
{%- endmacro %}


{#-
  What the last run of this model wrote down; nothing where dbt builds no tables, or it was never built. Where another hook fails
  before Tidemark's, dbt leaves that out and builds models all the same, which would all be made anew.
-#}
{% macro own_progress() -%}
    {%- if is_building() and not memory() -%}
        {{ exceptions.raise_compiler_error(
            model.name ~ ": `tidemark_start`, of dbt_project.yml's on-run-start, has not run: a hook before it failed, and dbt's"
            ~ ' lines above say of what, or it was taken out. Mend that, and run again.'
        ) }}
    {%- endif -%}
    {{ return(graph.tidemark.progress.get(model.unique_id, {}) if is_building() else {}) }}
{%- endmacro %}


{#-
  What a history shows of its log, as its last build wrote it down: {batch_id, cut, columns, late, …}, `late` as its log has it;
  none where it was never built, or of another log than there is. Within a run that builds it, that build counts.
-#}
{% macro shown_in(history, changes) -%}
    {%- set id = node_of(history).unique_id -%}
    {%- set log_id = node_of(changes).unique_id -%}
    {%- set kept = memory() -%}
    {%- set progress = kept.progress if kept else progress_so_far([id, log_id]) -%}
    {%- set last = progress.get(id) or {} -%}
    {%- set shown = dict(last, **(kept.states.get(id) or {} if kept else {})) -%}
    {#- A build that had nothing to do read no further. Under `--empty` `changes` is a query: its table is asked. -#}
    {%- set batch_id = shown.get('batch_id') if shown.get('batch_id') is not none else last.get('batch_id') -%}
    {%- if batch_id is none or shown.get('log_made_in', '') != log_made_in(relation_of(node_of(changes).name)) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set log = dict(progress.get(log_id) or {}, **(kept.states.get(log_id) or {} if kept else {})) -%}
    {{ return(dict(shown, batch_id=batch_id, late=log.get('late'))) }}
{%- endmacro %}


{#- What a table's last build wrote down, in this run or an earlier one; empty where it was never built. -#}
{% macro last_build(unique_id) -%}
    {{ return(graph.tidemark.states.get(unique_id) or graph.tidemark.progress.get(unique_id) or {}) }}
{%- endmacro %}


{#-
  The same of a log: with columns that came late (`with_late_columns`) it has rows that lack some. How far it was looked at since
  (`logs_left`) is nothing of the log's.
-#}
{% macro log_as_built(changes_id) -%}
    {%- set last = last_build(changes_id) or {'batch_id': -1, 'hazards': {}} -%}
    {%- set built = dict(last, hazards=hazards_of_log(last)) -%}
    {%- do built.pop('looked_at', none) -%}
    {{ return(built) }}
{%- endmacro %}


{#-
  Tell dbt what a model did, and keep what it has to know the next time until the run ends.

  Args:
      account: of a history that is accounted for, what `account_for` gave
-#}
{% macro say(message, decision, more={}, account=none) -%}
    {%- set state = dict(decision.state, batch_id=decision.batch_id, **more) -%}
    {%- if account -%}
        {%- do state.update({'account': account.kept}) -%}
        {%- do graph.tidemark.accounts.update({model.unique_id: account}) -%}
    {%- endif -%}
    {%- do graph.tidemark.states.update({model.unique_id: state}) -%}
    {%- do store_raw_result(name='main', message=message, code=none, rows_affected=none) -%}
{%- endmacro %}


{#- After a run: write down, in one commit, how far each model came. Writes nothing where nothing moved (G3). -#}
{% macro tidemark_end(results) -%}
    {%- if is_build_command() and memory() -%}
        {%- do sign_commits(is_over=true) -%}
        {%- do compile_queries(true) -%}
        {%- set moved = {} -%}
        {#- A model can fail behind what it said: in a hook of its own. -#}
        {%- for id in results | selectattr('status', 'equalto', 'success') | map(attribute='node.unique_id')
            if id in graph.tidemark.states -%}
            {%- do moved.update({id: dict(graph.tidemark.accounts.get(id) or {}, state=graph.tidemark.states[id])}) -%}
        {%- endfor -%}
        {%- do moved.update(logs_left(moved)) -%}
        {%- if moved -%}{%- do run_query(write_progress(moved)) -%}{%- endif -%}
    {%- endif -%}
{%- endmacro %}


{#-
  Statement: what models have said takes the place of what they said before. It comes in one text: a query of many parts takes
  long to plan. Accounts with sample keys come from where they are held, and stand in no text.
-#}
{% macro write_progress(moved) -%}
    {%- set rows = [] -%}
    {%- set staged = {} -%}
    {%- for id, build in moved.items() -%}
        {%- do rows.append({
            'model': id, 'batch_id': build.state.batch_id, 'state': tojson(build.state), 'added': build.get('added')
        }) -%}
        {%- if build.get('staged') -%}{%- do staged.update({id: build.staged}) -%}{%- endif -%}
    {%- endfor -%}
    insert overwrite {{ progress_table() }}
    with moved as (

        select inline(from_json(
            {{ text_literal(tojson(rows)) }},
            'array<struct<model: string, batch_id: bigint, state: string, added: map<string, bigint>>>',
            map('mode', 'FAILFAST')
        ))

    )
    {%- if staged %},

    accounts as (

        {%- for id, location in staged.items() %}
        select {{ text_literal(id) }} as model, collect_list(struct(kind, name, records, sample_keys)) as account
        from parquet.{{ quoted(location) }}
        {{- ' union all' if not loop.last }}
        {%- endfor %}

    )
    {%- endif %}

    {%- set new_values = {
        'batch_id': 'moved.batch_id',
        'state': 'moved.state',
        'run_id': text_literal(invocation_id),
        'recorded_at': "timestamp'" ~ run_started_at.strftime('%Y-%m-%d %H:%M:%S.%f') ~ "'",
        'account': 'coalesce(' ~ account_with_added('stored.account', 'moved.added') ~ ', stored.account)'
    } -%}
    {%- if staged -%}
        {%- do new_values.update({'account': 'coalesce(accounts.account, ' ~ new_values.account ~ ')'}) -%}
    {%- endif %}

    select
        coalesce(moved.model, stored.model) as model,
        {%- for name, new in new_values.items() %}
        if(moved.model is null, stored.{{ name }}, {{ new }}) as {{ name }}{{ ',' if not loop.last }}
        {%- endfor %}
    from {{ progress_table() }} as stored
    full join moved on stored.model = moved.model
    {%- if staged %}
    left join accounts on moved.model = accounts.model
    {%- endif %}
{%- endmacro %}
