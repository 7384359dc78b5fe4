{#-
  Builds a changes log: created once, appended to, and merged into only where a record changes what is there (a
  delivery with a lower offset landed late). Writes nothing where nothing is new (G3).
-#}
{% materialization changes, adapter='spark' %}
    {%- set decision = decided(compiled_code) -%}
    {%- set target_relation = this.incorporate(type='table') -%}
    {{ run_hooks(pre_hooks) }}
    {%- if decision.case == 'nothing' -%}
        {%- do leave_as_is(target_relation, decision) -%}
        {%- if not flags.EMPTY -%}{%- do graph.tidemark.untouched.update({model.unique_id: true}) -%}{%- endif -%}
    {%- elif decision.case == 'full' -%}
        {%- do create_log(
            target_relation, placed_changes(compiled_code, decision).query if decision.is_held else compiled_code, decision
        ) -%}
        {%- do release_delivered(decision) -%}
        {%- set kept = settle(target_relation, decision, log_summary(target_relation, []), [0, 0]) -%}
        {%- do say('built', decision, kept) -%}
    {%- else -%}
        {%- do add_row_fields(target_relation, decision.added) -%}
        {%- set staged = staged_changes(compiled_code, decision) -%}
        {%- set summary = log_summary(
            staged, decision.watermarks if decision.case == 'some' else [], lowest_position(decision.connectors)
        ) -%}
        {%- set counts = write_new(staged, target_relation, decision, summary) -%}
        {%- if decision.case == 'some' and counts == [0, 0] and not decision.is_ahead -%}
            {#- G3: deliveries that were known move nothing, wherever they stand, and what is known of the log stays. -#}
            {%- do summary.update({'late': [], 'watermarks': []}) -%}
        {%- endif -%}
        {%- if decision.case == 'some' and counts == [summary.bounds.changes, 0] and has_one_session() -%}
            {%- do hand_on_news(staged, decision) -%}
        {%- else -%}
            {%- do unstage(staged) -%}
            {%- do release_delivered(decision) -%}
        {%- endif -%}
        {%- do say(
            counts[0] ~ ' changes' ~ (', ' ~ counts[1] ~ ' revised' if counts[1] else ''), decision,
            settle(target_relation, decision, summary, counts)
        ) -%}
    {%- endif -%}
    {{ run_hooks(post_hooks) }}
    {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}


{#- The changes of a batch, held: as they are where no window was needed to place them, and else once more. -#}
{% macro staged_changes(sql, decision) -%}
    {%- if not decision.is_held -%}{{ return(stage(sql)) }}{%- endif -%}
    {%- set placed = placed_changes(sql, decision) -%}
    {%- if placed.needs_window -%}{{ return(stage(placed.query)) }}{%- endif -%}
    {%- set staged = quoted(held_name('staged')) -%}
    {%- do run_statement('create or replace temporary view ' ~ staged ~ ' as ' ~ placed.query) -%}
    {{ return(staged) }}
{%- endmacro %}


{#- Hold what a compiled query delivers. Returns: {query, needs_window}, of the changes among it. -#}
{% macro placed_changes(sql, decision) -%}
    {%- set delivered = stage(sql, 'delivered') -%}
    {%- set placing = placing_of(delivered, decision) -%}
    {{ return({'query': placed_query(decision, delivered, placing), 'needs_window': placing.needs_window}) }}
{%- endmacro %}


{#- Let go of what a model's compiled query delivered. -#}
{% macro release_delivered(decision) -%}
    {%- if decision.is_held -%}{%- do unstage(quoted(held_name('delivered')), is_large=true) -%}{%- endif -%}
{%- endmacro %}


{#- `made_in` tells histories that the log may say otherwise of changes that they have read. -#}
{% macro create_log(target_relation, sql, decision) -%}
    {%- do create_as(
        target_relation, sql, 'silver', none, decision.state.columns, {'tidemark.made_in': invocation_id},
        ['batch_id', 'position', 'changed_at']
    ) -%}
    {%- do graph.tidemark.new_changes.pop(model.unique_id, none) -%}
{%- endmacro %}


{#-
  Tell the histories that are built in the same run where the new part of the log is held: they needn't look for it. It is
  a view of the files as they are now, whatever another writer does in their folder, and stays until the next run's.
-#}
{% macro hand_on_news(staged, decision) -%}
    {%- do graph.tidemark.new_changes.update({model.unique_id: {
        'after': decision.after, 'batch_id': decision.batch_id, 'columns': decision.state.columns | map('first') | list,
        'relation': staged
    }}) -%}
{%- endmacro %}


{#-
  Make a log anew where it shows that its positions rest on a wrong belief: on one log of the source where there are
  more (R5), on positions in reads that have none, on reads or changes that came later and move them, or on such as no longer
  count, or not where they came again (R4).

  Args:
      summary: what `log_summary` found in the new part of the log
      counts: [new changes, revised changes] of it

  Returns: what the next run has to know: {hazards, watermarks, read_places, borders, has_placeless}
-#}
{% macro settle(target_relation, decision, summary, counts) -%}
    {%- set is_part = decision.case == 'some' -%}
    {%- set has_placeless = decision.has_placeless or summary.hazards.placeless -%}
    {%- set is_doubtful = summary.is_doubtful or (decision.borders and (not is_part or summary.begins)) -%}
    {%- if is_doubtful and is_part and not decision.borders -%}
        {#- Out of order alone is no border: the whole log tells, and is read faster than all records. -#}
        {%- set is_doubtful = log_summary(target_relation, []).is_doubtful -%}
    {%- endif -%}
    {%- set read_places = merged_read_places(decision.read_places if is_part else [], summary.read_places) -%}
    {%- set follows_later_reads = is_part and (
        stand_before_reads(target_relation, summary.late, decision)
        or stand_before_new_reads(target_relation, read_places | reject('in', decision.read_places) | list, decision)
        or stand_behind_what_follows(target_relation, summary.bounds.lowest, decision)
        or counts[1] > 0 and has_placeless
        or came_again_beside_reads(summary, counts, decision)
    ) -%}
    {%- if is_doubtful or has_placeless != decision.has_placeless or follows_later_reads -%}
        {%- set captured = captured_table(model.sources[0][0], model.sources[0][1], config.get('meta').tidemark) -%}
        {%- set scope = dict(
            decision, after=-1, follows_reads=true, watermarks=[], read_places=[], connectors=none, has_placeless=has_placeless
        ) -%}
        {%- set filled = stage('with ' ~ read_steps(captured, scope) ~ ' select * from filled', 'filled') -%}
        {%- do scope.update({
            'connectors': counted_connectors(run_query('select ' ~ connector_counts() ~ ' from ' ~ filled)[0])
        }) -%}
        {%- do scope.update({'borders': found_borders(filled, captured, scope)}) -%}
        {%- set is_anew = scope.borders != decision.borders or has_placeless != decision.has_placeless
            or follows_later_reads -%}
        {%- if is_anew -%}
            {%- do create_log(target_relation, log_query(captured, scope, filled), decision) -%}
        {%- endif -%}
        {%- do unstage(filled) -%}
        {%- if is_anew -%}
            {%- set whole = log_summary(target_relation, []) -%}
            {{ return({
                'borders': scope.borders, 'has_placeless': has_placeless, 'watermarks': whole.watermarks,
                'read_places': whole.read_places, 'hazards': whole.hazards
            }) }}
        {%- endif -%}
    {%- endif -%}
    {{ return({
        'borders': decision.borders,
        'has_placeless': has_placeless,
        'watermarks': merged_watermarks(decision.watermarks, summary.watermarks) if is_part else summary.watermarks,
        'read_places': read_places,
        'hazards': both_hazards(decision.hazards, summary.hazards) if is_part else summary.hazards
    }) }}
{%- endmacro %}


{#- New columns of the source become fields of `after` and `before` (R8). -#}
{% macro add_row_fields(target_relation, added) -%}
    {%- if added -%}
        {%- set definitions = {} -%}
        {%- for column in added -%}
            {%- do definitions.update({
                column[0]: 'after.' ~ quoted(column[0]) ~ ' ' ~ column[1] ~ ', before.' ~ quoted(column[0]) ~ ' ' ~ column[1]
            }) -%}
        {%- endfor -%}
        {%- do add_columns(
            target_relation, added, definitions,
            columns_in(target_relation, 'after.*') | map(attribute='name') | list
        ) -%}
    {%- endif -%}
{%- endmacro %}


{#-
  Write what of a staged batch a changes log lacks or holds otherwise. Where the whole batch stands behind the log, as it
  mostly does, nothing of it is there yet: deliveries of one change agree in position, unless a position follows reads (R4) or
  can have been lower (`lowest_position`); streamed ones that tell different commits agree in the source's time, of which
  older versions tell milliseconds. What lands late can be the first delivery of a change that the log has from a later one:
  where their positions can differ, that stands anywhere. A log that is ahead of what was written down of it may hold the
  batch already (G4).

  Args:
      summary: of the batch, as `log_summary` has it

  Returns: [new changes, revised changes]
-#}
{% macro write_new(staged, target_relation, decision, summary) -%}
    {%- set bounds, is_part = summary.bounds, decision.case == 'some' -%}
    {%- set can_differ = positions_can_differ(decision.connectors) -%}
    {%- set earliest = (bounds.earliest or 0) // 1000 * 1000 -%}
    {%- set written = decision.watermarks | map(attribute='position') | reject('none') | list if is_part else [] -%}
    {%- set is_placed = not decision.follows_reads and not bounds.placeless and not (summary.late and can_differ) -%}
    {%- set latest = decision.watermarks | map(attribute='latest') | reject('none') | max | default(-1, true) if is_part -%}
    {%- set is_later = not can_differ or earliest > latest -%}
    {%- if written and is_placed and is_later and bounds.changes and bounds.lowest > written | max and not decision.is_ahead -%}
        {%- do run_statement('insert into ' ~ target_relation ~ ' by name select * from ' ~ staged) -%}
        {{ return([bounds.changes, 0]) }}
    {%- endif -%}
    {%- if not is_placed or not bounds.changes or decision.case == 'rederive' -%}
        {{ return(write_revisions(staged, target_relation, decision, 'change_id')) }}
    {%- endif -%}
    {%- set part = 'log.position >= ' ~ text_literal(bounds.lowest) -%}
    {%- if can_differ -%}
        {%- set part = part ~ ' or log.changed_at >= timestamp_micros(' ~ earliest ~ ')' -%}
    {%- endif -%}
    {{ return(write_revisions(staged, target_relation, decision, 'change_id', part)) }}
{%- endmacro %}


{#-
  Write what of a staged batch a log lacks or holds from a later delivery.

  Args:
      id: the column that names a row
      part: condition over `log` for all that can be of the batch; none where that can be anything

  Returns: [new rows, revised rows]
-#}
{% macro write_revisions(staged, target_relation, decision, id, part=none) -%}
    {%- set revised = revisions(staged, target_relation, decision.case, part, id) -%}
    {%- set counts = run_query(
        "select count_if(action = 'insert'), count_if(action != 'insert') from (" ~ revised ~ ')'
    )[0] -%}
    {%- if counts[1] and decision.case == 'rederive' -%}
        {%- do create_log(target_relation, 'select * from ' ~ staged, decision) -%}
    {%- elif counts[1] -%}
        {%- if decision.watermarks is defined -%}
            {#- Histories can't go on from versions of deliveries that no longer count. -#}
            {%- do run_statement(
                'alter table ' ~ target_relation ~ " set tblproperties ('tidemark.made_in' = " ~ text_literal(invocation_id)
                ~ ')'
            ) -%}
        {%- endif -%}
        {%- set columns = columns_in(target_relation) -%}
        {%- do merge_rows(
            target_relation, columns,
            'select ' ~ id ~ ', struct(' ~ names_of(columns, 'revised.') ~ ') as row from (' ~ revised ~ ') as revised',
            'target.' ~ id ~ ' = differences.' ~ id
        ) -%}
    {%- elif counts[0] -%}
        {%- do run_statement(
            'insert into ' ~ target_relation ~ ' by name select * except (action) from (' ~ revised ~ ')'
        ) -%}
    {%- endif -%}
    {{ return([counts[0], counts[1]]) }}
{%- endmacro %}


{#-
  Query: what of a staged batch the log lacks (`insert`), or holds from a later delivery (`update`); for a whole log
  also what it holds and should not (`delete`). Of the log, only `part` is read, as `write_revisions` has it; and but
  for a whole log, only rows with an id of the batch are joined: these few ids are sent to the log, which is not moved.
-#}
{% macro revisions(staged, target_relation, case, part, id) -%}
    {%- set place = place_of_delivery(id) + (['content_order'] if id == 'change_id' else []) -%}
    with ids as (select {{ id }} from {{ staged }}),

    stored as (

        select log.{{ id }}, log.position, log.{{ place | join(', log.') }}
        from {{ target_relation }} as log
        {%- if case != 'rederive' %}
        left semi join ids on log.{{ id }} = ids.{{ id }}
        {%- endif %}
        {%- if part is not none %}
        where {{ part }}
        {%- endif %}

    )

    select
        staged.*,
        case
            when stored.{{ id }} is null then 'insert'
            when staged.{{ id }} is null then 'delete'
            else 'update'
        end as action
    from {{ staged }} as staged
    {{ 'full' if case == 'rederive' else 'left' }} join stored on staged.{{ id }} = stored.{{ id }}
    where stored.{{ id }} is null
        or staged.{{ id }} is null
        or struct(staged.{{ place | join(', staged.') }}) < struct(stored.{{ place | join(', stored.') }})
        {%- if case == 'rederive' %}
        or not staged.position <=> stored.position
        {%- endif %}
{%- endmacro %}
