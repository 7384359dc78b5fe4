{#-
  Going on from what is stored. Of a key whose news all stand behind what was known of it, a fold needs the open version
  alone: it stands for all changes before. The other keys with news are folded from their whole log: a late change, the
  rest of a transaction, and what returns after it was gone.
-#}


{#-
  Whether versions can be carried at all: the history says what the log said before the news, no more and no less, and
  no step looks at more of a key's past than its open version tells. (It has no edits of documents.)
-#}
{% macro is_in_step(scope, last, declared) -%}
    {{ return(
        scope.cut is none and last.get('cut') is none
        and not (declared.snapshot_deletes == 'close' and scope.hazards.reads)
        and last.get('left_as') and written_by(this) == last.left_as
    ) }}
{%- endmacro %}


{#-
  Whether an open version may not be enough where the change before the news lacked columns: one that it had not at all (R8) or,
  with `unavailable`, one that it left out (R7). Gold doesn't say whether a column was NULL or not there, so it can't fill what
  is unavailable in the news; what was left out and is known it has, and what isn't it names. Whether a chain is broken (R19),
  or which of two rows leaves a key (R14), is told by what the change before carried itself. A column that all of the news have
  not is asked for by none of these.

  Returns: none, or {unavailable}
-#}
{% macro needs_columns(scope) -%}
    {%- set hazards = scope.hazards -%}
    {%- set looks_back = (scope.account or hazards.leaves) and hazards.whole_before -%}
    {%- if (hazards.absent and (hazards.unavailable or looks_back)) or (looks_back and hazards.unavailable) -%}
        {{ return({'unavailable': looks_back and hazards.unavailable}) }}
    {%- endif -%}
    {{ return(none) }}
{%- endmacro %}


{#-
  Which run wrote a table last, by what `sign_commits` had it note in its commit: it tells whether a run that was not
  written down, or anyone else, has changed the table. Commits that join its files or set properties (`tidemark upkeep`, or OPTIMIZE by hand)
  change no row, and are looked past.

  Returns: the id of the run; none where the last commit names none
-#}
{% macro written_by(relation) -%}
    {%- for limit in [1, 10] -%}
        {%- for commit in run_query('describe history ' ~ relation ~ ' limit ' ~ limit)
            if commit['operation'] not in ['OPTIMIZE', 'REORG', 'VACUUM START', 'VACUUM END', 'SET TBLPROPERTIES'] -%}
            {{ return(commit['userMetadata']) }}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(none) }}
{%- endmacro %}


{#- Have the commits that follow on this connection name this run, or behind it none: a session may be anyone's. -#}
{% macro sign_commits(is_over=false) -%}
    {%- set setting = '`spark.databricks.delta.commitInfo.userMetadata`' -%}
    {%- do run_statement('reset ' ~ setting if is_over else 'set ' ~ setting ~ ' = `' ~ invocation_id ~ '`') -%}
{%- endmacro %}


{#-
  Hold the keys with news, and say which of them are folded from their whole log; where changes of key link some with others,
  these too.

  Returns: {relation, are_texts, refolded, known_keys}: the name of a relation with `key` and `is_refolded`, whether keys are
      JSON texts there, how many are refolded, and of how many anything is known
-#}
{% macro keys_to_carry(scope, granularity) -%}
    {%- set known = known_of_keys(scope, granularity) -%}
    {%- set keys = stage(known_of_linked(scope, known) if scope.touched else known, 'keys') -%}
    {%- set counts = run_query('select count_if(is_refolded), count_if(is_known) from ' ~ keys)[0] -%}
    {{ return({
        'relation': keys, 'are_texts': scope.touched is not none, 'refolded': counts[0] | int, 'known_keys': counts[1] | int
    }) }}
{%- endmacro %}


{#-
  Query: keys with news, and whether what was known of them before is more than their open version. Only columns that are
  narrow are read of the log.
-#}
{% macro known_of_keys(scope, granularity) -%}
    {%- set needs = needs_columns(scope) %}
    select
        key,
        last_known is not null as is_known,
        last_known is not null and not coalesce(
            {{ is_state_op('last_known') }}
            and first.place > last_known.place
            -- versions that open at one position have their ids by what opened there before (R13)
            and first.place.position != last_known.place.position
            {%- if scope.hazards.truncates %}
            and last_known.place > (select max({{ place('log') }}) from {{ scope.log }} as log where op = 't')
            {%- endif %}
            {%- if granularity != 'event' or scope.hazards.leaves %}
            and not coalesce(first.transaction_id = last_known.transaction_id, false)
            {%- endif %}
            {%- if needs %}
            and forall(absent_in_news, absent -> size(array_except(last_known.lacked, absent)) = 0)
            {%- endif %}
            {%- if scope.hazards.reads %}
            -- an earlier time moves a read back (R10)
            and first_at >= {{ 'greatest(known_until, (select max(changed_at) from ' ~ scope.log ~ " as log where op = 't'))"
                if scope.hazards.truncates else 'known_until' }}
            {%- endif %},
            false
        ) as is_refolded
    from (
        select
            key,
            max(struct(place, op, transaction_id{{ ', lacked' if needs }})) filter (where not is_news) as last_known,
            {%- if needs %}
            collect_set(absent_columns) filter (where is_news) as absent_in_news,
            {%- endif %}
            max(changed_at) filter (where not is_news) as known_until,
            min(struct(place, transaction_id)) filter (where is_news) as first,
            min(changed_at) filter (where is_news) as first_at
        from (
            select
                {{ key_met() ~ ' as key' if scope.touched else 'key' }}, op, transaction_id, changed_at,
                {{ place('log') }} as place,
                {%- if needs %}
                absent_columns,
                {{ 'array_union(absent_columns, unavailable_columns)' if needs.unavailable else 'absent_columns' }} as lacked,
                {%- endif %}
                {{ scope.news }} as is_news
            from {{ scope.log }} as log
            where {{ is_change_of_key(scope.hazards) }}
                and {{ is_touched('log.key', scope, key_met()) }}
        ) as of_key
        group by key
    ) as of_keys
{%- endmacro %}


{#-
  Condition: whether a held key is folded from its whole log or, otherwise, from its open version and its news.

  Args:
      text: the key as JSON text, where a change is met at another (`key_met`)
-#}
{% macro is_refolded(key, carried, otherwise=false, text=none) -%}
    exists (
        select 1 from {{ carried.relation }} as carried
        where {{ 'not ' if otherwise }}is_refolded and {{ is_held_key(key, carried, text) }}
    )
{%- endmacro %}


{#- Condition: whether a row of `carried`, the held keys, is a key. -#}
{% macro is_held_key(key, carried, text=none) -%}
    carried.key {{ '= ' ~ (text or key_text(key)) if carried.are_texts else '<=> ' ~ key }}
{%- endmacro %}


{#- Query: the open versions that stand for the changes before the news, in the form of `own_changes`. -#}
{% macro carried_versions(table, carried, names, moves) -%}
    {%- set key = key_of(table, 'stored') -%}
    select
        {{ key }} as key,
        {{ place_of_version(names) }} as place,
        concat('version ', {{ own('version_id', names) }}) as change_id,
        {{ own('opened_by', names) }} as op,
        {{ own('transaction_id', names) }} as transaction_id,
        {{ own('valid_from', names) }} as changed_at,
        {{ own('opened_by', names) }} = 'snapshot' as is_read,
        true as is_state,
        {{ struct_of_columns(table.columns | map(attribute='name') | list) }} as state,
        null as before,
        {%- if moves %}
        null as left_key,
        {%- endif %}
        {{ own('unresolved_columns', names) }} as unavailable_columns,
        cast(array() as array<string>) as absent_columns,
        {{ own('exact_values', names) }} as exact_values,
        {{ own('previous_key', names) }} as previous_key,
        false as is_pair,
        cast(null as string) as next_key,
        {{ own('position', names) }} as position,
        {{ own('topic', names) }} as topic,
        {{ own('partition', names) }} as `partition`,
        {{ own('offset', names) }} as `offset`
    from {{ this }} as stored
    where {{ own('is_current', names) }} and {{ is_refolded(key, carried, otherwise=true) }}
{%- endmacro %}


{#- Condition: whether a step is a carried version: its `op` is the word that opened it, and not a letter. -#}
{% macro is_carried(op='op') -%}
    length({{ op }}) > 1
{%- endmacro %}


{#- Condition: whether the step before a change is a carried version. -#}
{% macro follows_carried() -%}
    coalesce({{ is_carried('lag(op) over by_place') }}, false)
{%- endmacro %}
