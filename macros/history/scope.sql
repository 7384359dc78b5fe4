{#-
  What this run of a history or current model has to read of the log, decided here alone:
      full      the table is new, refreshed or declared otherwise: the whole log
      nothing   the log has nothing that the last run had not
      keys      of the keys that have news, and of keys that share a row with them, the log or, where `carried` says
                that it is enough, the news and the open version
      table     the whole log, and then what differs is written: a truncate, a snapshot that closes what it lacks, or a
                log made anew, or what says that one is complete after all, or isn't, reaches keys that have no news, and
                so does a cut that shows less than before (G7), and a run that was killed, which may have gone by any of
                these; or the account of the history is to be begun anew

  News are changes landed since the last run, and those between its consistent cut and this run's (G7).

  Args:
      history: the name of the history that a current model reads
      sorted_changes: up to how many changes a history folds in one and the same way

  Returns: {case, after, batch_id, cut, key, log, fresh, news, hazards, scans, in_doubt, added, state, touched, carried, alone,
  account, left_as, left_otherwise, made_of, open}
      log: up to the cut; `fresh`, a relation that has its news
      touched, carried, alone: what `touched_with_linked`, `keys_to_carry` and `keys_alone` hold, where they are asked
      account: how this run is accounted for, where it is
      left_as: the run that wrote a history last; `left_otherwise`, what `is_left_otherwise` says, where that matters
      made_of: the run that had written its history when a current model read it
      open: how many versions the last build of a history left open, where it knew
-#}
{% macro history_scope(layer, changes_log, table, declared, history=none, sorted_changes=none) -%}
    {%- if not is_building() -%}
        {{ return(dict(
            scope_by_declaration(layer, table, declared), batch_id=none, hazards=every_hazard(), cut=none,
            log=changes_log | string, fresh=changes_log | string
        )) }}
    {%- endif -%}
    {%- set history_id = model_node(history).unique_id if history else none -%}
    {%- set progress, last, built = graph.tidemark.progress, own_progress(), log_as_built(table.unique_id) -%}
    {%- set scope = scope_before_news(layer, changes_log, table, declared, history_id, last, built) -%}
    {%- set log_progress = progress.get(table.unique_id, {'batch_id': -1, 'hazards': {}}) -%}
    {%- set stored = account_to_go_on_from(scope, last, log_progress) if history_id is none else none -%}
    {%- if is_idle(scope, table, log_progress, last, stored, progress.get(history_id)) -%}
        {{ return(as_it_was(scope, last, built, history_id)) }}
    {%- endif -%}
    {%- set fresh = fresh_part(scope, table, log_progress, built, last) -%}
    {%- set counts = what_is_new(
        scope, changes_log, fresh, log_progress, last, stored, may_be_known=history_id is not none
    ) -%}
    {%- set scope = dict(
        scope, case=case_of(scope, counts, declared, last, stored, progress.get(history_id)), fresh=fresh or scope.log,
        news=news(scope.after, scope.cut, last.get('cut'), counts['last_batch']),
        hazards=both_hazards(built.hazards, hazards_in(counts)),
        batch_id=[counts['last_batch'] or 0, scope.after, built.batch_id] | max
    ) -%}
    {%- if scope.case == 'nothing' -%}
        {{ return(as_it_was(scope, last, built, history_id)) }}
    {%- elif scope.case == 'keys' -%}
        {%- if stored -%}
            {%- do scope.update({'account': account_of_news(scope, stored, counts, declared, changes_log)}) -%}
        {%- endif -%}
        {%- set is_linked = scope.hazards.linked or scope.hazards.moves -%}
        {%- set is_carried = history_id is none and not table.documents and not table.reselected
            and is_in_step(scope, last, declared) -%}
        {%- do scope.update({'touched': touched_with_linked(scope) if is_linked else none}) -%}
        {%- do scope.update({'carried': keys_to_carry(scope, declared.granularity) if is_carried else none}) -%}
    {%- else -%}
        {%- if stored -%}
            {%- do doubt_reported(scope, changes_log, table, declared, built) -%}
            {%- do scope.update({'account': account_of_all(scope, counts, declared, changes_log)}) -%}
        {%- endif -%}
        {%- if history_id is none and scope.case == 'full' -%}
            {%- do scope.update({'alone': keys_alone(scope, table, declared, counts['changes'], sorted_changes)}) -%}
        {%- endif -%}
    {%- endif -%}
    {{ return(as_far_as(history_id, scope)) }}
{%- endmacro %}


{#- The scope by declaration alone, as where dbt builds no tables. -#}
{% macro scope_by_declaration(layer, table, declared) -%}
    {{ return(dict(
        build_scope(layer, what_makes_rows(declared, table), table.columns, own_progress(), table.name),
        key=table.key, scans=[], in_doubt=[], touched=none, carried=none, alone=none, account=none
    )) }}
{%- endmacro %}


{#-
  What the rows of a history depend on, and of its current state: of its declaration all but how many are rewritten; and `form`,
  which is raised where a rule by which histories are made from a log comes to say otherwise: those of another are made anew (G2).
-#}
{% macro what_makes_rows(declared, table) -%}
    {%- set rows = dict(declared) -%}
    {%- do rows.pop('rewritten_rows', none) -%}
    {{ return({'model': rows, 'key': table.key, 'form': 1}) }}
{%- endmacro %}


{#- The scope by declaration and progress, before the log is asked for news. -#}
{% macro scope_before_news(layer, changes_log, table, declared, history_id, last, built) -%}
    {%- set scope = scope_by_declaration(layer, table, declared) -%}
    {%- set cut = cut_of(declared.changes) -%}
    {%- set state = dict(scope.state) -%}
    {%- if history_id -%}
        {%- set built_as = last_build(history_id).get('declared') -%}
        {%- do state.update({'built_as': built_as}) -%}
        {%- if scope.case == 'increment' and last.get('built_as', built_as) != built_as -%}
            {#- The last run read a history that was not built yet as it is declared. -#}
            {%- do scope.update({'case': 'full', 'after': -1, 'added': []}) -%}
        {%- endif -%}
    {%- endif -%}
    {%- set scans = scans_of(declared.changes) -%}
    {%- set asks_doubts = declared.snapshot_deletes == 'close' or known_doubts(last) -%}
    {%- set in_doubt = snapshots_in_doubt(changes_log, table.unique_id, built, last) if asks_doubts else [] -%}
    {%- do state.update({
        'log_made_in': log_made_in(changes_log), 'cut': cut, 'scans': scans, 'in_doubt': in_doubt,
        'unread': unread_of(built) if asks_doubts else none
    }) -%}
    {%- set can_go_back = declared.snapshot_deletes == 'close' or transactions_of(declared.changes) -%}
    {{ return(dict(
        scope, log=log_shown(changes_log, built, cut), cut=cut, news=news(scope.after, cut, last.get('cut')), scans=scans, in_doubt=in_doubt, state=state,
        left_otherwise=scope.case == 'increment' and can_go_back and is_left_otherwise(history_id or model.unique_id),
        left_as=last.get('left_as'), made_of=last.get('made_of'), open=last.get('open')
    )) }}
{%- endmacro %}


{#-
  The scope of a run that leaves the table as it was. What it has looked at to find that is written down where less was, so that
  the next run needn't: landings of deliveries that were known, a cut that shows no more, what of its topics no log tells.

  Returns: a scope with a `batch_id` where `state` says more than the last build did
-#}
{% macro as_it_was(scope, last, built, history_id) -%}
    {%- set reached = as_far_as(history_id, dict(scope, batch_id=[scope.after, built.batch_id] | max)) -%}
    {%- set state = dict(last, batch_id=reached.batch_id, cut=reached.state.cut) -%}
    {%- if reached.state.unread is not none -%}{%- do state.update({'unread': reached.state.unread}) -%}{%- endif -%}
    {%- if state == last -%}
        {{ return(dict(scope, case='nothing', batch_id=none)) }}
    {%- endif -%}
    {{ return(dict(scope, case='nothing', batch_id=state.batch_id, state=state)) }}
{%- endmacro %}


{#- Whether nothing can be new: the log's build in this run had nothing to do, and nothing else says otherwise. -#}
{% macro is_idle(scope, table, log_progress, last, stored, reached) -%}
    {{ return(
        table.unique_id in graph.tidemark.untouched and scope.case == 'increment' and not scope.added
        and scope.after == log_progress.batch_id and scope.cut == last.get('cut') and not is_moved(scope, last)
        and not is_made_anew_alone(reached, last) and (not stored or stored.is_base)
    ) }}
{%- endmacro %}


{#-
  What the log has since the last run: counts, and the hazards of what its build has not written down yet.

  Args:
      fresh: what `fresh_part` gave
      may_be_known: whether another model of this run may have asked the same, as a current model's history has
-#}
{% macro what_is_new(scope, changes_log, fresh, log_progress, last, stored, may_be_known) -%}
    {%- set question = [changes_log | string, scope.news, log_progress.batch_id, last.get('cut')] | string -%}
    {%- if may_be_known and question in graph.tidemark.scope_answers -%}
        {{ return(graph.tidemark.scope_answers[question]) }}
    {%- endif -%}
    {%- set query -%}
    select
        max(batch_id) as last_batch,
        count_if({{ scope.news }}) as changes,
        count_if(({{ scope.news }}) and op = 't') as new_truncates,
        count_if(({{ scope.news }}) and {{ is_snapshot_read() }}) as new_snapshot_reads,
        count_if({{ is_hidden_again(scope, last.get('cut')) }}) as hidden_again,
        {{ hazard_counts() }}{{ ', ' ~ account_counts(scope, stored) if stored }}
    from {{ followed(fresh or changes_log, stored.watermarks, scope.after, scope.news) if stored and stored.watermarks
        else fresh or changes_log }}
    where {{ scope.news }} or {{ landed_since(log_progress.batch_id) }}
    {%- endset -%}
    {%- set counts = run_query(query)[0] -%}
    {#- An account is asked of news alone. -#}
    {%- if scope.after <= log_progress.batch_id -%}
        {%- do graph.tidemark.scope_answers.update({question: counts}) -%}
    {%- endif -%}
    {{ return(counts) }}
{%- endmacro %}


{#- Which of the cases a run is. A column that came without news is added to what is stored (R8). -#}
{% macro case_of(scope, counts, declared, last, stored, reached) -%}
    {%- if scope.case == 'full' -%}
        {{ return('full') }}
    {%- elif (scope.added and not counts['changes']) or counts['new_truncates']
        or (counts['new_snapshot_reads'] and declared.get('snapshot_deletes') == 'close')
        or counts['hidden_again'] or is_moved(scope, last) or is_made_anew_alone(reached, last)
        or (stored and needs_all(stored, counts)) -%}
        {{ return('table') }}
    {%- endif -%}
    {{ return('keys' if counts['changes'] else 'nothing') }}
{%- endmacro %}


{#-
  The news of a log where its build in this run still holds them, as it has written them: none where the log as a whole is
  to be asked, as something beside them may be news, or their rows are not in the log's form.
-#}
{% macro fresh_part(scope, table, log_progress, built, last) -%}
    {%- set fresh = graph.tidemark.new_changes.get(table.unique_id) -%}
    {%- if fresh and scope.case == 'increment' and scope.after == fresh.after and scope.after == log_progress.batch_id
        and scope.cut is none and last.get('cut') is none and not built.get('late')
        and fresh.columns == table.columns | map(attribute='name') | list -%}
        {{ return(fresh.relation) }}
    {%- endif -%}
    {{ return(none) }}
{%- endmacro %}


{#-
  Whether the changes that a model has read may say otherwise: their log was made anew, or which snapshots are complete
  (R16): scans were told of, or what no log tells came or went, be it for a run that was killed alone.
-#}
{% macro is_moved(scope, last) -%}
    {{ return(
        scope.state.log_made_in != last.get('log_made_in') or scope.state.scans != known_scans(last)
        or scope.state.in_doubt != known_doubts(last) or scope.left_otherwise
    ) }}
{%- endmacro %}


{#-
  Whether a history is not as the last build that was written down has left it. A run that was killed behind its commit went
  by doubts, scans and a cut of its own: where those are again what they were before it, nothing else tells of it (G4). It is
  asked before this run's build, whose current state needs the same answer.

  Args:
      history: its unique id
-#}
{% macro is_left_otherwise(history) -%}
    {%- set answers = graph.tidemark.left_otherwise -%}
    {%- if history not in answers -%}
        {%- set left_as = graph.tidemark.progress.get(history, {}).get('left_as') -%}
        {%- do answers.update({
            history: left_as is not none and written_by(relation_of(graph.nodes[history].name)) != left_as
        }) -%}
    {%- endif -%}
    {{ return(answers[history]) }}
{%- endmacro %}


{#- Where missed deletes are reported, not closed, an account of the whole log is all that asks which snapshots are in doubt. -#}
{% macro doubt_reported(scope, changes_log, table, declared, built) -%}
    {%- if scope.hazards.reads and declared.snapshot_deletes == 'report' -%}
        {%- set in_doubt = snapshots_in_doubt(changes_log, table.unique_id, built, own_progress()) -%}
        {%- do scope.update({'in_doubt': in_doubt}) -%}
        {%- do scope.state.update({'in_doubt': in_doubt, 'unread': unread_of(built)}) -%}
    {%- endif -%}
{%- endmacro %}


{#- The snapshots that a model's last run took for in doubt (`snapshots_in_doubt`). -#}
{% macro known_doubts(state) -%}
    {{ return(state.get('in_doubt') or []) }}
{%- endmacro %}


{#- The scans that a model's last run knew of, as `scans_of` gave them. -#}
{% macro known_scans(state) -%}
    {{ return(state.get('scans') or []) }}
{%- endmacro %}


{#-
  Condition: whether a change of the log is new to a model that has read up to a landing and to a cut.

  Args:
      newest: the last landing, where that is known
-#}
{% macro news(after, cut, last_cut, newest=none) -%}
    {{ landed_since(after, newest) }}
    {%- set moved = [cut, last_cut] | reject('none') | list if cut != last_cut else [] -%}
    {{ ' or position >= ' ~ text_literal(moved | min) if moved }}
{%- endmacro %}


{#- Condition: whether a change is one that a model has read, and that a cut shows no more (G7). -#}
{% macro is_hidden_again(scope, last_cut) -%}
    {%- if scope.cut is none or scope.cut == last_cut -%}
        false
    {%- else -%}
        batch_id <= {{ scope.after }} and position >= {{ text_literal(scope.cut) }}
        {{- ' and position < ' ~ text_literal(last_cut) if last_cut is not none }}
    {%- endif -%}
{%- endmacro %}


{#-
  Whether a current state was made of a history that a run without it has written since.

  Args:
      reached: the progress of the history; none for a history itself
      last: the progress of the current state
-#}
{% macro is_made_anew_alone(reached, last) -%}
    {{ return(reached is mapping and last.get('made_of') and reached.get('left_as') not in [none, last.made_of]) }}
{%- endmacro %}


{#-
  A scope whose progress is not ahead of the history's: where that is no part of this run, the table holds no more than
  it did then, and what has come since is to be read once more.
-#}
{% macro as_far_as(history, scope) -%}
    {%- if history is none or history in selected_resources or history in graph.tidemark.states -%}
        {{ return(scope) }}
    {%- endif -%}
    {%- set reached = graph.tidemark.progress.get(history, {'batch_id': -1}) -%}
    {{ return(dict(
        scope, batch_id=[scope.batch_id, reached.batch_id] | min,
        state=dict(
            scope.state, log_made_in=reached.get('log_made_in'), cut=reached.get('cut'), scans=known_scans(reached),
            in_doubt=known_doubts(reached), unread=reached.get('unread')
        )
    )) }}
{%- endmacro %}


{#- The run that made a log anew: it may say otherwise of changes that histories have read. A run asks once. -#}
{% macro log_made_in(changes_log) -%}
    {%- set run_of_log = memory().get('made_in', {}) -%}
    {%- if changes_log | string not in run_of_log -%}
        {%- set made_in = namespace(run='') -%}
        {%- for row in run_query('show tblproperties ' ~ changes_log) if row[0] == 'tidemark.made_in' -%}
            {%- set made_in.run = row[1] -%}
        {%- endfor -%}
        {%- do run_of_log.update({changes_log | string: made_in.run}) -%}
    {%- endif -%}
    {{ return(run_of_log[changes_log | string]) }}
{%- endmacro %}


{#- Let go of the keys that a scope holds. -#}
{% macro release_touched(scope) -%}
    {%- if scope.carried -%}{%- do unstage(scope.carried.relation) -%}{%- endif -%}
    {%- if scope.alone -%}{%- do unstage(scope.alone.relation, is_large=true) -%}{%- endif -%}
    {%- if scope.account and scope.account.before -%}{%- do unstage(scope.account.before) -%}{%- endif -%}
    {%- if scope.touched -%}{%- do unstage(scope.touched) -%}{%- endif -%}
{%- endmacro %}
