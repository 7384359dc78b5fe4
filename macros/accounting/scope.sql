{#- How a run of a history is accounted for: by the whole log, or by its news, which are added to what is stored. -#}


{#-
  How the whole of a log is accounted for.

  Returns: {is_whole, shared, ends, order, quarantined, held_back, no_op}
      shared: whether one change can meet several keys: it is counted once, by its greatest effect
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


{#-
  Expression list over a log, `followed` where its watermarks are known: what says whether that account can go on from the news
  alone, and with which counts.
-#}
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
        '' if scope.scans or scope.in_doubt else ' and ' ~ marks_last()
    )) -%}
    count_if(({{ scope.news }}) and ({{ reaches_back | join(' or ') }})) as reaching_back,
    {%- set is_late = 'struct(log_number, `offset`) <= struct(watermark.log_number, watermark.`offset`)' %}
    count_if({{ is_new ~ ' and ' ~ is_late if stored.watermarks else 'false' }}) as late,
    {%- set falls = "(op != 'r' and " ~ falls_behind('highest') ~ ') or (log_number > 0 and highest is null)' %}
    count_if({{ is_new ~ ' and (' ~ falls ~ ')' if stored.watermarks else 'true' }}) as falling_back
{%- endmacro %}


{#-
  Relation: a log, or its news, with the highest position before a change in its log and partition, `highest`.

  Args:
      watermarks: those of the log before the news, where it is asked for these: they then have that of their partition beside
          them, `watermark`, {log_number, offset, position}
      after: the last landing before the news
      news: a condition
-#}
{% macro followed(changes_log, watermarks=none, after=none, news=none) -%}
    {%- set of_partition = [] -%}
    {%- for one in watermarks or [] -%}
        {%- set position = 'cast(null as string)' if one.position is none else text_literal(one.position) -%}
        {%- do of_partition.append(
            'array(' ~ text_list(partition_of(one)) ~ '), struct(' ~ one.log_number ~ ' as log_number, ' ~ one.offset
            ~ 'L as `offset`, ' ~ position ~ ' as position)'
        ) -%}
    {%- endfor -%}
    {%- set highest -%}
        max({{ 'if(' ~ landed_since(after) ~ ', position, null)' if watermarks else 'position' }}) over (
            partition by source_label, topic, `partition`, log_number
            order by `offset` rows between unbounded preceding and 1 preceding
        )
    {%- endset -%}
    (
        select
            *,
            {{ 'greatest(' ~ highest ~ ', if(log_number = watermark.log_number, watermark.position, null))' if watermarks
                else highest }} as highest
        {%- if watermarks %}
        from (
            select
                *,
                map({{ of_partition | join(', ') }})[array(source_label, topic, cast(`partition` as string))] as watermark
            from {{ changes_log }}
            where {{ news }}
        ) as news
        {%- else %}
        from {{ changes_log }}
        {%- endif %}
    )
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
    {%- set account = dict(whole_account(scope, declared), before=none, **as_unfolded(
        counts if scope.case == 'full' else run_query('select ' ~ unfolded_counts(scope.cut) ~ ' from ' ~ changes_log)[0]
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


{#- The last change of a log that can end versions of other keys than its own, as {last_end, last_transaction}. -#}
{% macro last_end(scope) -%}
    {%- if scope.hazards.truncates or scope.hazards.reads -%}
        {%- set row = run_query(
            'select try_element_at(ends, -1).place.position, try_element_at(ends, -1).transaction_id from ('
            ~ ends(scope, truncates=scope.hazards.truncates, snapshots=scope.hazards.reads) ~ ') as ended'
        )[0] -%}
        {{ return({'last_end': row[0], 'last_transaction': row[1]}) }}
    {%- endif -%}
    {{ return({'last_end': none, 'last_transaction': none}) }}
{%- endmacro %}


{#- Whether one change of a log can meet several keys. -#}
{% macro is_shared(hazards, declared) -%}
    {{ return(hazards.moves or hazards.truncates or (hazards.reads and declared.snapshot_deletes == 'close')) }}
{%- endmacro %}


{#- How many changes of a log no fold meets, and why: what a row of `unfolded_counts` says, as numbers. -#}
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
