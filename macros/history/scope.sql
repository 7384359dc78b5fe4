{#-
  What this run of a history, current or accounting model has to read of the log, decided here alone:
      full      the table is new, refreshed or declared otherwise: the whole log
      nothing   the log has nothing that the last run had not
      keys      the log of the keys that have new changes, and of keys that share a row with them
      table     the whole log, and then what differs is written: a truncate, a snapshot that closes what it lacks, or a
                log made anew reaches keys that have no new change

  Args:
      by_key: whether the model can be built for some keys alone; where not, `keys` is `table`

  Returns: {case, after, batch_id, log, hazards, added, state, touched}
-#}
{% macro history_scope(layer, log, table, declared, by_key=true) -%}
    {%- set progress = progress_of([model.unique_id, table.unique_id]) if is_building() else {} -%}
    {%- set scope = dict(
        build_scope(layer, {'model': declared, 'key': table.key}, table.columns, progress), log=log | string
    ) -%}
    {%- if not is_building() -%}
        {{ return(dict(scope, batch_id=none, hazards=every_hazard())) }}
    {%- endif -%}
    {%- set made_in = log_made_in(log) -%}
    {%- do scope.state.update({'log_made_in': made_in}) -%}
    {%- set known = progress.get(table.unique_id, {'batch_id': -1, 'hazards': {}}) -%}
    {%- set found = run_query(
        "select max(batch_id), count_if(op = 't'), count_if(op = 'r' and snapshot != 'incremental'), " ~ hazard_counts()
        ~ ' from ' ~ log ~ ' where batch_id > ' ~ [scope.after, known.batch_id] | min
    )[0] -%}
    {%- set scope = dict(scope, hazards=both_hazards(known.hazards, named_hazards(found, 3)), batch_id=found[0]) -%}
    {%- if scope.case == 'full' -%}
        {{ return(dict(scope, batch_id=[found[0] or 0, known.batch_id] | max)) }}
    {%- elif made_in != progress[model.unique_id].get('log_made_in') -%}
        {{ return(dict(scope, case='table', batch_id=[found[0] or 0, scope.after] | max)) }}
    {%- elif found[0] is none or found[0] <= scope.after -%}
        {{ return(dict(scope, case='nothing', batch_id=none)) }}
    {%- elif not by_key or found[1] or (found[2] and declared.get('snapshot_deletes') == 'close') -%}
        {{ return(dict(scope, case='table')) }}
    {%- endif -%}
    {%- set is_linked = scope.hazards.linked or scope.hazards.moves -%}
    {{ return(dict(scope, case='keys', touched=touched_with_linked(log, scope) if is_linked else [])) }}
{%- endmacro %}


{#- The run that made a log anew: it may say otherwise of changes that histories have read. -#}
{% macro log_made_in(log) -%}
    {%- for row in run_query('show tblproperties ' ~ log) if row[0] == 'tidemark.made_in' -%}
        {{ return(row[1]) }}
    {%- endfor -%}
    {{ return('') }}
{%- endmacro %}


{#- Condition: whether a key has a new change, or shares a row with one that has. -#}
{% macro is_touched(key, scope) -%}
    {%- if scope.touched -%}
        exists (select 1 from {{ scope.touched[-1] }} as touched where touched.key = {{ key_text(key) }})
    {%- else -%}
        exists (select 1 from {{ scope.log }} as news where news.batch_id > {{ scope.after }} and news.key <=> {{ key }})
    {%- endif -%}
{%- endmacro %}


{#-
  Hold the keys with new changes and those that a change of key links with them, on both sides and as far as links go:
  a value that was left out can come from any of them (R7). Returns the names of what is held: each has the one before
  it in it, and the last all keys, `key` as JSON text.
-#}
{% macro touched_with_linked(log, scope) -%}
    {%- set links = (
        '(select ' ~ key_text('key') ~ ' as one, previous_key as other from ' ~ log ~ ' where previous_key is not null'
        ~ ' union select previous_key, ' ~ key_text('key') ~ ' from ' ~ log ~ ' where previous_key is not null)'
    ) -%}
    {%- set held = [stage(
        'select distinct ' ~ key_text('key') ~ ' as key from ' ~ log ~ ' where batch_id > ' ~ scope.after, 'touched_0'
    )] -%}
    {%- set walk = namespace(grows=true) -%}
    {%- for step in range(1, 10000) if walk.grows -%}
        {%- do held.append(stage(
            'select key from ' ~ held[-1] ~ ' union select one from ' ~ links ~ ' as links join ' ~ held[-1]
            ~ ' as held on links.other = held.key', 'touched_' ~ step
        )) -%}
        {%- set sizes = run_query(
            'select (select count(*) from ' ~ held[-2] ~ '), (select count(*) from ' ~ held[-1] ~ ')'
        )[0] -%}
        {%- set walk.grows = sizes[0] < sizes[1] -%}
    {%- endfor -%}
    {{ return(held) }}
{%- endmacro %}


{#- Every hazard, for a fold that stands alone. -#}
{% macro every_hazard() -%}
    {%- set hazards = {} -%}
    {%- for name in hazard_conditions() -%}{%- do hazards.update({name: true}) -%}{%- endfor -%}
    {{ return(hazards) }}
{%- endmacro %}


{#- Let go of the keys that a scope holds. -#}
{% macro release_touched(scope) -%}
    {%- for name in (scope.get('touched') or []) | reverse -%}
        {%- do unstage(name) -%}
    {%- endfor -%}
{%- endmacro %}
