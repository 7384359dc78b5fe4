{#-
  Builds a history in one commit a run (G8). What a fold gives is compared with what is stored, and only versions that
  differ are written; where none does, nothing is (G3).
-#}
{% materialization history, adapter='spark' %}
    {{ return({'relations': [build_by_difference('gold', config.get('meta').tidemark)]}) }}
{% endmaterialization %}


{#- Builds a current state: the open versions of its history, written anew where they are few. -#}
{% materialization current, adapter='spark' %}
    {%- set declared = history_declaration(config.get('meta').tidemark.history) -%}
    {{ return({'relations': [build_by_difference('silver', declared)]}) }}
{% endmaterialization %}


{#-
  Write what of a table's rows differs, in one commit. A history is partitioned by the column that tells open versions from
  closed ones, as open ones change.

  Args:
      layer: where the table is: a history in gold, a current state in silver
      declared: what the history declared
-#}
{% macro build_by_difference(layer, declared) -%}
    {%- set build = prepared_build(layer, declared) -%}
    {%- set decision = build.decision -%}
    {%- if decision.case == 'nothing' -%}
        {%- do leave_as_is(build.target, decision, build.open, build.named) -%}
        {%- if decision.batch_id is not none -%}{%- do say('nothing new', decision) -%}{%- endif -%}
    {%- elif decision.case == 'full' -%}
        {%- do create_as(build.target, build.built, layer, build.open, build.named, pruned_by=pruned_by(declared, layer)) -%}
        {%- do record_build(build, 'built') -%}
    {%- else -%}
        {%- set written = write_in(way_to_write(build), build) -%}
        {%- do record_build(build, written.message, written.is_changed or decision.added) -%}
    {%- endif -%}
    {%- if build.fold_rows and not build.is_plain -%}
        {%- do unstage(build.fold_rows, is_large=build.account and build.account.is_whole) -%}
    {%- endif -%}
    {%- do release_touched(decision) -%}
    {{ run_hooks(post_hooks) }}
    {{ return(build.target) }}
{%- endmacro %}


{#-
  What a build writes and where, with the fold's result held where it is asked more than once.

  Returns: {target, declared, decision, open, named, account, made_of, is_in_order, is_plain, fold_rows, built, counts}
      open: the column that tells open versions from closed ones; none of a current state, which has no others
      named: the names of the table's columns
      account: how the build is accounted for, where it is
      made_of: which run wrote the history that a current state is built from
      is_in_order: whether all news stand behind the open versions that stand for what was before
      is_plain: whether all keys have one change: the log tells their versions as fast as a relation that would hold them
      fold_rows: the relation of the rows that the fold gave, where they are held or accounted for
      built: the query of the table's rows
      counts: what `counts_of_fold` gave
-#}
{% macro prepared_build(layer, declared) -%}
    {%- set open = own('is_current', declared.column_names) if layer == 'gold' else none -%}
    {%- set decision = decided(compiled_code) -%}
    {%- set target_relation = this.incorporate(type='table') -%}
    {%- set account = decision.account if decision.case != 'nothing' else none -%}
    {%- set made_of = none if open or decision.case == 'nothing' else (
        graph.tidemark.last_writers.get(decision.history) or written_by(decision.history)
    ) -%}
    {{ run_hooks(pre_hooks) }}
    {%- if decision.case != 'nothing' -%}{%- do sign_commits() -%}{%- endif -%}
    {%- if decision.case in ('keys', 'table') -%}
        {#- What goes on from stored versions reads them with all columns. -#}
        {%- do add_source_columns(target_relation, decision) -%}
    {%- endif -%}
    {%- set is_in_order = decision.carried and not decision.carried.refolded -%}
    {%- set is_plain = decision.alone and not decision.alone.others -%}
    {%- set fold_rows = '(' ~ compiled_code ~ '\n)' if is_plain and account
        else stage(compiled_code, 'fold_rows') if account or is_in_order else none -%}
    {%- if is_in_order -%}{%- do graph.tidemark.open_versions.update({target_relation | string: decision.open}) -%}{%- endif -%}
    {{ return({
        'target': target_relation, 'declared': declared, 'decision': decision, 'open': open,
        'named': decision.state.columns + declared.column_names.values() | batch(1) | list,
        'account': account, 'made_of': made_of, 'is_in_order': is_in_order, 'is_plain': is_plain,
        'fold_rows': fold_rows,
        'built': compiled_code if not fold_rows else (
            'select version.* from ' ~ fold_rows ~ ' where version is not null' if account
            else 'select * from ' ~ fold_rows
        ),
        'counts': counts_of_fold(fold_rows, open, account, is_in_order)
            if fold_rows and not (account and account.is_whole) else {}
    }) }}
{%- endmacro %}


{#-
  How a table that is there is written:

      none        a current state is of the history as it is
      all         a current state of few rows, anew
      living      of a current state the rows of keys with news
      append      versions of keys that nothing was known of
      open        the open versions anew, where they are few, and those that were closed
      going_on    versions behind open ones that stay as they are unless they were closed
      difference  what differs, by comparison
-#}
{% macro way_to_write(build) -%}
    {%- set decision = build.decision -%}
    {%- set declared = build.declared -%}
    {%- if not build.open -%}
        {%- if build.made_of and build.made_of == decision.made_of -%}
            {{ return('none') }}
        {%- elif are_few(build.target, declared, decision.history, own('is_current', declared.column_names)) -%}
            {{ return('all') }}
        {%- elif decision.case == 'keys' and not decision.touched -%}
            {{ return('living') }}
        {%- endif -%}
    {%- elif build.is_in_order -%}
        {%- if decision.carried.known_keys == 0 -%}
            {{ return('append') }}
        {%- elif build.counts.closed and are_few(build.target, declared, build.target, build.open) -%}
            {{ return('open') }}
        {%- elif build.account and declared.track is none and not declared.ignore -%}
            {{ return('going_on') }}
        {%- endif -%}
    {%- endif -%}
    {{ return('difference') }}
{%- endmacro %}


{#- Write in one of these ways. Returns: {is_changed, message}. -#}
{% macro write_in(way, build) -%}
    {%- if way == 'none' -%}
        {{ return({'is_changed': false, 'message': '0 rows changed'}) }}
    {%- endif -%}
    {%- set columns = columns_in(build.target) -%}
    {%- set what_is_built = ' select ' ~ names_of(columns) ~ ' from (' ~ build.built ~ ')' -%}
    {%- if way == 'all' -%}
        {%- do run_statement('insert overwrite ' ~ build.target ~ what_is_built) -%}
        {{ return({'is_changed': true, 'message': 'all rows written'}) }}
    {%- elif way == 'open' -%}
        {%- do write_open_anew(build, columns) -%}
        {{ return({'is_changed': true, 'message': 'all open rows written'}) }}
    {%- elif way == 'append' -%}
        {%- set changed = build.counts.versions -%}
        {%- if changed -%}{%- do run_statement('insert into ' ~ build.target ~ what_is_built) -%}{%- endif -%}
    {%- elif way == 'going_on' -%}
        {%- set changed = merge_going_on(build, columns) -%}
    {%- elif way == 'living' -%}
        {%- set changed = merge_living(build, columns) -%}
    {%- else -%}
        {%- set changed = merge_difference(build, columns) -%}
    {%- endif -%}
    {{ return({'is_changed': changed != 0, 'message': changed ~ ' rows changed'}) }}
{%- endmacro %}


{#-
  Tell dbt, the models behind this one and the next run what was written, and what became of the changes.

  Args:
      message: what dbt shows
      is_changed: whether the table has a new commit
-#}
{% macro record_build(build, message, is_changed=true) -%}
    {%- set decision, account, target_relation = build.decision, build.account, build.target -%}
    {%- if build.is_in_order -%}
        {%- set before = graph.tidemark.open_versions[target_relation | string] -%}
        {%- set is_known = account and before is not none -%}
        {%- do graph.tidemark.open_versions.update({target_relation | string: before + build.counts.more_open if is_known else none}) -%}
    {%- endif -%}
    {%- if account and decision.case == 'keys' and not account.is_whole -%}
        {%- do hand_on(build.fold_rows, decision, build.open) -%}
    {%- endif -%}
    {%- do say(
        message, decision,
        states_after(target_relation, build.made_of, invocation_id if is_changed else written_by(target_relation)),
        account_for(decision, build.declared, build.fold_rows, build.counts) if account else none
    ) -%}
{%- endmacro %}


{#-
  What the next run has to find to go on from the tables: who wrote a history last, or which history a current state is of.

  Args:
      left_as: the run whose commit is a history's last
-#}
{% macro states_after(target_relation, made_of, left_as) -%}
    {%- if made_of -%}
        {{ return({'made_of': made_of}) }}
    {%- endif -%}
    {%- do graph.tidemark.last_writers.update({target_relation | string: left_as}) -%}
    {{ return({'left_as': left_as, 'open': graph.tidemark.open_versions.get(target_relation | string)}) }}
{%- endmacro %}


{#-
  What is to be known of the rows that a fold gave, in one look at them.

  Args:
      fold_rows: the versions of a fold that is in order, or what `accounted_rows` gives
      open: the column that tells open versions from closed ones

  Returns: {versions, closed, opened, closed_only, no_op, collapsed, with_signs, more_open}, numbers: of versions, and of those
      that are closed; of changes by what became of them, and of those with signs; and of versions that are open beside
      those that were
-#}
{% macro counts_of_fold(fold_rows, open, account, is_in_order) -%}
    {%- set expressions = {
        'versions': 'count(version)' if account else 'count(*)', 'closed': 'count_if(not ' ~ ('version.' if account) ~ open ~ ')'
    } -%}
    {%- if account -%}
        {%- do expressions.update({'collapsed': 'sum(collapsed)', 'with_signs': 'count_if(size(signs) > 0)'}) -%}
        {%- for disposition in ['opened', 'closed_only', 'no_op'] -%}
            {%- do expressions.update({disposition: 'count_if(disposition = ' ~ text_literal(disposition) ~ ')'}) -%}
        {%- endfor -%}
        {%- if is_in_order -%}
            {%- do expressions.update({'more_open':
                'count_if(not is_carried and version.' ~ open ~ ') - count_if(is_carried and not version.' ~ open ~ ')'
            }) -%}
        {%- endif -%}
    {%- endif -%}
    {%- set row = run_query('select ' ~ expressions.values() | join(', ') ~ ' from ' ~ fold_rows)[0] -%}
    {%- set counts = {} -%}
    {%- for name in expressions -%}{%- do counts.update({name: (row[loop.index0] or 0) | int}) -%}{%- endfor -%}
    {{ return(counts) }}
{%- endmacro %}


{#-
  What became of the changes that a fold met: a history's build tells the accounting of it (G6).

  Returns: what `say` takes: {kept, added, staged}
      kept: what the next build has to know of the account
      added: disposition → how many more changes; none where the account as a whole was held
      staged: where it is held, then
-#}
{% macro account_for(decision, declared, fold_rows, counts) -%}
    {%- set account = decision.account -%}
    {%- set added = added_without_signs(account, counts) -%}
    {%- set account_name = held_name('account') -%}
    {%- if added is none -%}
        {%- set stored = '(' ~ stored_account(model.name) ~ ') as stored' -%}
        {%- do hold(
            'with ' ~ account_steps(
                fold_rows, decision, relation_of(declared.changes), none if account.is_whole else stored
            ) ~ ' select * from account',
            account_name
        ) -%}
    {%- endif -%}
    {{ return({
        'kept': {'last_end': account.last_end, 'last_transaction': account.last_transaction}, 'added': added,
        'staged': held_at(account_name) if added is none else none
    }) }}
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
{% macro add_source_columns(target_relation, decision) -%}
    {%- if decision.added -%}
        {%- set columns = decision.state.columns | map('first') | list -%}
        {%- set definitions = {} -%}
        {%- for column in decision.added -%}
            {%- do definitions.update({
                column[0]: quoted(column[0]) ~ ' ' ~ column[1] ~ ' after ' ~ quoted(columns[columns.index(column[0]) - 1])
            }) -%}
        {%- endfor -%}
        {%- do add_columns(target_relation, decision.added, definitions, columns_in(target_relation) | map(attribute='name') | list) -%}
    {%- endif -%}
{%- endmacro %}


{#-
  Query: what differs, by a row's id: `acted_on`, the `row` as a struct, NULL where it is to be removed, and whether the
  stored one `was_open`, NULL where there is none. Stored rows of untouched keys are not looked at.
-#}
{% macro difference(build, columns) -%}
    {%- set decision, open = build.decision, build.open -%}
    {%- set id = own('version_id', build.declared.column_names) -%}
    {%- set key = key_of(declaration_of(build.declared.changes), 'stored') -%}
    {%- set carried = decision.carried -%}
    {%- set types = {} -%}
    {%- for column in columns -%}{%- do types.update({column.name: column.type}) -%}{%- endfor -%}
    {%- for column in decision.state.columns -%}{%- do types.update({column[0]: column[1]}) -%}{%- endfor -%}
    with built as (

        {%- if open or decision.case != 'keys' %}
        {{ build.built }}
        {%- else %}
        select * from ({{ build.built }}) as stored where {{ is_touched(key, decision) }}
        {%- endif %}

    ),

    stored as (

        select * from {{ build.target }} as stored
        {%- if carried %}
        where ({{ open }} and {{ is_refolded(key, carried, otherwise=true) }})
            {{- ' or ' ~ is_refolded(key, carried) if carried.refolded }}
        {%- elif decision.case == 'keys' %}
        where {{ is_touched(key, decision) }}
        {%- endif %}

    )

    select
        coalesce(built.{{ id }}, stored.{{ id }}) as acted_on,
        if(built.{{ id }} is null, null, struct({{ names_of(columns, 'built.') }})) as row,
        {{ 'stored.' ~ open if open else 'true' }} as was_open
    from built
    full outer join stored on built.{{ id }} = stored.{{ id }}
    where
        {%- for column in columns %}
        not {{ comparable('built.' ~ quoted(column.name), types[column.name]) }} <=> {{ comparable('stored.' ~ quoted(column.name), types[column.name]) }}
        {{- ' or' if not loop.last }}
        {%- endfor %}
{%- endmacro %}


{#-
  Write what differs. A closed version is only read where one may differ: as long as all are open, a literal says so and
  prunes.
-#}
{% macro merge_difference(build, columns) -%}
    {%- set differing = '(' ~ difference(build, columns) ~ ')' -%}
    {%- set are_open = build.open and build.is_in_order -%}
    {%- set staged = stage(differing) if build.open and not build.is_in_order else none -%}
    {%- if staged -%}
        {%- set counts = run_query('select count(*), count_if(not was_open) from ' ~ staged)[0] -%}
        {%- set are_open = not counts[1] -%}
    {%- endif -%}
    {%- set differences = 'select acted_on, row from ' ~ (staged or differing) -%}
    {%- set on = 'target.' ~ own('version_id', build.declared.column_names) ~ ' = differences.acted_on'
        ~ (' and target.' ~ build.open ~ ' = true' if are_open) -%}
    {%- set changed = merge_rows(build.target, columns, differences, on) if not staged or counts[0] else 0 -%}
    {%- if staged -%}{%- do unstage(staged) -%}{%- endif -%}
    {{ return(changed) }}
{%- endmacro %}
