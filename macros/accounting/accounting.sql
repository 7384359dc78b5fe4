{#-
  What became of each change of one table (G6), and what the contract asks to be counted: a row per disposition, and a
  row per sign with the first keys that it met.

  It is a by-product of the table's history: the fold that builds the one tells what became of the changes that it met,
  and the account is what it was and what those add. It is written down with the history's progress, in one commit for
  all tables of a run when that ends, and this model is a view of that.

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


{#-
  How the whole of a log is accounted for.

  Returns: {is_whole, shared, ends, order, quarantined, held_back, no_op}
      shared: whether one change can meet several keys, and then counts as the most that it did
      ends: whether complete snapshots are looked at (R16)
      order: of which changes the order is told: `all`, those that are `new`, or `none`, as they are in order
      quarantined, held_back, no_op: how many changes no fold meets
-#}
{% macro whole_account(scope, declared) -%}
    {{ return({
        'is_whole': true, 'shared': is_shared(scope.hazards, declared),
        'ends': scope.hazards.reads and declared.snapshot_deletes != 'ignore', 'order': 'all',
        'quarantined': 0, 'held_back': 0, 'no_op': 0
    }) }}
{%- endmacro %}


{#-
  The account that a history's build keeps up, where its model has been a part of a run. It is a base to go on from where
  one was kept before.

  Returns: {is_base, after, watermarks, last_end, last_transaction}, or none
      watermarks: those of the log before the news, as `log_summary` has them; none where they are not known
      last_end, last_transaction: of the last change that ended versions of other keys than its own (a truncate, the end
          of a snapshot) the position and the transaction: what is older may change what that did
-#}
{% macro account_to_go_on_from(scope, last, log_progress) -%}
    {%- set node = accounting_of(model.name) -%}
    {%- set stored = last.get('account') -%}
    {#- `dbt retry` selects nothing. -#}
    {%- if node is none or (not stored and selected_resources and node.unique_id not in selected_resources) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set is_base = stored is mapping and scope.case == 'increment' -%}
    {{ return(dict(
        stored or {'last_end': none, 'last_transaction': none}, is_base=is_base, after=scope.after,
        watermarks=log_progress.get('watermarks') if is_base and log_progress.batch_id == scope.after else none
    )) }}
{%- endmacro %}


{#- Expression list over a log: what says whether that account can go on from the news alone, and with which counts. -#}
{% macro account_counts(scope, stored) -%}
    {%- set is_new = landed_since(scope.after) -%}
    {{ unfolded_counts(scope.cut, is_new, scope.news) }},
    {%- set reaches_back = [] -%}
    {%- if stored.last_end is not none -%}
        {%- do reaches_back.append('position <= ' ~ text_literal(stored.last_end)) -%}
    {%- endif -%}
    {%- if stored.last_transaction is not none -%}
        {%- do reaches_back.append('transaction_id = ' ~ text_literal(stored.last_transaction)) -%}
    {%- endif -%}
    {%- do reaches_back.append(is_snapshot_read() ~ (
        '' if scope.scans else ' and ' ~ marks_last()
    )) -%}
    count_if(({{ scope.news }}) and ({{ reaches_back | join(' or ') }})) as reaching_back,
    {%- set places = [] -%}
    {%- for one in stored.watermarks or [] -%}
        {%- do places.append(
            'array(' ~ text_list(place_of_watermark(one)) ~ '), struct(' ~ one.log_number ~ ', ' ~ one.offset ~ 'L)'
        ) -%}
    {%- endfor %}
    count_if({{ is_new }} and {{
        'struct(log_number, `offset`) <= map(' ~ places | join(', ') ~ ')[array(source_label, topic, cast(`partition` as string))]'
        if places else 'false'
    }}) as late,
    {%- set in_new_log = 'log_number > 0 and ' ~ highest_before(stored) ~ ' is null' %}
    {%- set falls = "op != 'r' and " ~ falls_behind('position', highest_before(stored)) %}
    count_if({{ is_new ~ ' and (' ~ falls ~ ' or ' ~ in_new_log ~ ')' if places else 'true' }}) as falling_back
{%- endmacro %}


{#- Relation: a log of which `account_counts` can tell whether news are in the order of their partitions. -#}
{% macro followed(changes_log, scope, stored) -%}
    {%- if not stored or not stored.watermarks -%}
        {{ changes_log }}
    {%- else -%}
        (
            select
                *,
                max(if({{ landed_since(scope.after) }}, position, null)) over (
                    partition by source_label, topic, `partition`, log_number
                    order by `offset` rows between unbounded preceding and 1 preceding
                ) as highest
            from {{ changes_log }}
            where {{ scope.news }}
        )
    {%- endif -%}
{%- endmacro %}


{#- Expression over such a log: the highest position before a change in its log and partition, from before the news too. -#}
{% macro highest_before(stored) -%}
    {%- set positions = [] -%}
    {%- for one in stored.watermarks or [] if one.position is not none -%}
        {%- do positions.append(
            'array(' ~ text_list(place_of_watermark(one) + [one.log_number]) ~ '), ' ~ text_literal(one.position)
        ) -%}
    {%- endfor -%}
    {%- if positions -%}
        greatest(highest, map({{ positions | join(', ') }})[
            array(source_label, topic, cast(`partition` as string), cast(log_number as string))
        ])
    {%- else -%}
        highest
    {%- endif -%}
{%- endmacro %}


{#-
  Whether an account has to be begun anew: there is none to go on from; news are older than the last change that ended
  versions of other keys, or are such an end (what that did to the others may be another thing now); or a cut shows less
  than before.
-#}
{% macro needs_all(stored, counts) -%}
    {{ return(not stored.is_base or counts['reaching_back'] > 0 or counts['hidden_again'] > 0) }}
{%- endmacro %}


{#- How a run that reads the whole log is accounted for. -#}
{% macro account_of_all(scope, counts, declared, changes_log) -%}
    {%- set account = dict(whole_account(scope, declared), before=none, **(
        as_unfolded(counts) if scope.case == 'full' else unfolded(changes_log, scope.cut)
    )) -%}
    {%- do account.update(last_end(scope)) -%}
    {{ return(account) }}
{%- endmacro %}


{#- How a run that reads the news alone is accounted for. What came behind other changes of its partition is told of all. -#}
{% macro account_of_news(scope, stored, counts, declared, changes_log) -%}
    {%- set order = 'all' if not stored.watermarks or counts['late']
        else 'new' if counts['falling_back'] else 'none' -%}
    {%- set held_back = run_query(
        'select count(*) from ' ~ changes_log ~ ' where ' ~ is_for_histories() ~ ' and not coalesce(position < '
        ~ text_literal(scope.cut) ~ ', false)'
    )[0][0] if scope.cut is not none else 0 -%}
    {{ return(dict(
        stored, is_whole=false, shared=is_shared(scope.hazards, declared), ends=false, before=none,
        order=order, **dict(as_unfolded(counts), held_back=held_back | int)
    )) }}
{%- endmacro %}


{#- Whether one change of a log can meet several keys. -#}
{% macro is_shared(hazards, declared) -%}
    {{ return(hazards.moves or hazards.truncates or (hazards.reads and declared.snapshot_deletes == 'close')) }}
{%- endmacro %}


{#- How many changes of a log no fold meets, and why. -#}
{% macro unfolded(changes_log, cut) -%}
    {{ return(as_unfolded(run_query('select ' ~ unfolded_counts(cut) ~ ' from ' ~ changes_log)[0])) }}
{%- endmacro %}


{#- Those counts of a row, as numbers. -#}
{% macro as_unfolded(counts) -%}
    {%- set numbers = {} -%}
    {%- for name in ['quarantined', 'no_op', 'held_back'] -%}
        {%- do numbers.update({name: counts[name] | int}) -%}
    {%- endfor -%}
    {{ return(numbers) }}
{%- endmacro %}


{#- Expression list: those counts, of the changes that have landed since, and of those that a cut shows since. -#}
{% macro unfolded_counts(cut, landed='true', shown='true') -%}
    {%- set is_shown = 'coalesce(position < ' ~ text_literal(cut) ~ ', false)' if cut is not none else 'true' -%}
    count_if(({{ landed }}) and not {{ is_for_histories() }}) as quarantined,
    count_if(
        ({{ shown }}) and problem is null and {{ is_shown }} and {{ is_other_half() }}
    ) as no_op,
    count_if({{ is_for_histories() }} and not {{ is_shown }}) as held_back
{%- endmacro %}


{#- Query: what a fold has noted of each committed change, from its last step; `version` is one more column of it. -#}
{% macro told_of_versions(table, scope, tracked, version=none, versions='versions') -%}
    select
        *,
        if(size(signs) > 0, {{ key_text('key') }}, null) as key_of_signs
    from (
        select
            key,
            {{ version ~ ',' if version }}
            {{ told_columns(scope, ignored_columns(table, tracked)) }}
        from {{ versions }}
    ) as noted
{%- endmacro %}


{#-
  Steps to `account`: a row per disposition and per sign.

  Args:
      noted: what `told_of_versions` gave
      changes_log: the changes, those beyond a cut too
      before: the same of what the stored account has counted of the keys that were folded whole
      stored: the account that this one goes on from
-#}
{% macro account_steps(noted, scope, changes_log, before=none, stored=none) -%}
{%- set account = scope.account -%}
{%- set parts = [[noted, 1]] + ([[before, -1]] if before else []) -%}
marks as (

    {%- for part, factor in parts %}
    {{ 'union all' if not loop.first }}
    {{ marks_of(part, factor, scope) }}
    {%- endfor %}
    {%- if account.order != 'none' %}
    union all
    select
        'sign' as kind,
        name,
        key,
        1 as records,
        false as is_sample
    from (
        {{ told_by_order(changes_log, account) }}
    ) as in_order
    where name is not null
    {%- endif %}
    {%- for name in ['quarantined', 'held_back', 'no_op'] if account[name] %}
    union all
    select 'disposition', '{{ name }}', null, {{ account[name] }}, false
    {%- endfor %}
    {%- if stored %}
    {%- set replaced = ['held_back'] + (['position_regressions', 'new_logs'] if account.order == 'all' else []) %}
    union all
    select
        kind,
        name,
        mark.key,
        mark.records,
        mark.is_sample
    from {{ stored }}
    lateral view explode(array_append(
        transform(sample_keys, sample -> struct(sample as key, cast(0 as bigint) as records, true as is_sample)),
        struct(cast(null as string) as key, records, false as is_sample)
    )) exploded as mark
    where name not in ({{ text_list(replaced) }})
    {%- endif %}

),

by_key as (

    select
        kind,
        name,
        sum(records) as records,
        -- a stored sample of a key that was folded whole is one only where that says so again
        if(max(records) > 0 or (bool_or(is_sample) and min(records) >= 0), key, null) as sample
    from marks
    group by kind, name, key

),

account as (

    select
        kind,
        name,
        sum(records) as records,
        array_sort(collect_list(if(number <= 10, sample, null))) as sample_keys
    from (
        select *, row_number() over (partition by kind, name order by sample asc nulls last) as number from by_key
    ) as numbered
    group by kind, name
    having sum(records) != 0

)
{%- endmacro %}


{#-
  What news add to an account that they have shown no signs to, which is the common case: numbers alone, that need no look at
  keys.

  Args:
      counts: what `counts_of_fold` gave

  Returns: disposition → how many changes; none where there are signs, or where changes can meet several keys
-#}
{% macro added_without_signs(account, counts) -%}
    {%- if account.is_whole or account.shared or account.before or account.order != 'none' or counts.with_signs -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return({
        'opened': counts.opened, 'closed_only': counts.closed_only, 'collapsed': counts.collapsed,
        'no_op': counts.no_op + account.no_op, 'quarantined': account.quarantined, 'held_back': account.held_back
    }) }}
{%- endmacro %}


{#- Query: the marks of what a fold has noted, as {kind, name, key, records, is_sample}. -#}
{% macro marks_of(noted, factor, scope) -%}
    {%- set of_changes = scope.account.shared -%}
    select
        mark.kind,
        mark.name,
        mark.key,
        cast({{ factor }} * mark.records as bigint) as records,
        false as is_sample
    from {{ noted }}
    lateral view explode(concat(
        {%- if not of_changes %}
        array(
            struct('disposition' as kind, outcome as name, cast(null as string) as key, 1 as records),
            struct('disposition' as kind, 'collapsed' as name, cast(null as string) as key, cast(collapsed as int) as records)
        ),
        {%- endif %}
        transform(signs, sign -> struct('sign' as kind, sign.name as name, key_of_signs as key, sign.records as records))
    )) exploded as mark
    where mark.records != 0 and mark.name is not null
    {%- if of_changes %}
    union all
    select
        'disposition' as kind,
        element_at({{ text_array(outcomes()) }}, max(weight)) as name,
        null as key,
        cast({{ factor }} as bigint) as records,
        false as is_sample
    from (
        select
            change.change_id,
            change.weight
        from {{ noted }}
        lateral view explode(array_append(
            transform(collapsed_changes, id -> struct(id as change_id, {{ outcomes().index('collapsed') + 1 }} as weight)),
            struct(change_id, cast(array_position({{ text_array(outcomes()) }}, outcome) as int) as weight)
        )) exploded as change
        where change.weight is not null
        {%- if scope.hazards.truncates and scope.account.is_whole %}
        union all
        select change_id, 1 as weight from {{ scope.log }} as log where op = 't' and problem is null
        {%- endif %}
    ) as of_changes
    group by change_id
    {%- endif %}
{%- endmacro %}


{#- What can become of a change that a fold meets; a change that meets many keys counts as the last of these that it did. -#}
{% macro outcomes() -%}
    {{ return(['no_op', 'collapsed', 'closed_only', 'opened']) }}
{%- endmacro %}


{#- The last change of a log that can end versions of other keys than its own, as {last_end, last_transaction}. -#}
{% macro last_end(scope) -%}
    {%- if scope.hazards.truncates or scope.hazards.reads -%}
        {%- set row = run_query(
            'select try_element_at(ends, -1).place.position, try_element_at(ends, -1).transaction_id from ('
            ~ ends(scope, scope.hazards.truncates, scope.hazards.reads) ~ ') as ended'
        )[0] -%}
        {{ return({'last_end': row[0], 'last_transaction': row[1]}) }}
    {%- endif -%}
    {{ return({'last_end': none, 'last_transaction': none}) }}
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


{#- Makes the view of an account, and anew where it is one of another model, as behind a new name. -#}
{% materialization accounting, adapter='spark' %}
    {%- set target_relation = this.incorporate(type='view') -%}
    {%- set existing = load_relation(this) -%}
    {%- set query = compiled_code | trim -%}
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
