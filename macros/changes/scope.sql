{#-
  What this run of a changes model has to read, decided here alone:
      full      every record, and the table is made anew
      nothing   no landing since the last run: no record
      some      the landings since the last run
      rederive  every record, and then what differs is written: without a key a change's number depends on records of
                other landings (R3)

  Positions can depend on what stands before them: on reads (S in R4), and those of reads that tell none on changes. Where
  both are of one landing `follows_reads` says so, and of what was before it `watermarks` know the last. The table is made anew
  where a landing came out of order and that isn't enough, and where it `is_ahead` of what was written down, by a run that was
  killed (G4), and has placed changes by reads or borders that `watermarks` and `borders` know nothing of.

  Returns: {case, after, batch_id, added, state, borders, watermarks, read_places, hazards, follows_reads, has_placeless, is_ahead,
  connectors, records}
      connectors: the known ones whose rules hold for a record to read; none where that wasn't asked
      records: how many there are to read; none where that wasn't asked
-#}
{% macro changes_scope(captured) -%}
    {%- set last = own_progress() -%}
    {%- set scope = log_scope_as_declared(captured, last) -%}
    {%- if not is_building() -%}
        {{ return(scope) }}
    {%- endif -%}
    {%- do only_of_this_bronze(scope, last) -%}
    {%- if captured.new_logs -%}{%- do only_landed_places(captured.new_logs) -%}{%- endif -%}
    {%- set of_feed = ' from ' ~ captured.records ~ ' where feed = ' ~ text_literal(captured.feed)
        ~ ' and batch_id <= ' ~ graph.tidemark.landed -%}
    {%- set after = looked_at(last) if scope.case == 'increment' else scope.after -%}
    {%- set landed = landed_news(captured.feed, after, captured.connector) -%}
    {%- if landed['last_batch'] is none and last.get('subject') not in [none, captured.feed] and not should_full_refresh() -%}
        {%- do no_feed(
            model.sources[0][0], model.sources[0][1], "the feed '" ~ captured.feed ~ "', of which nothing has landed,",
            '; the log is of ' ~ last.subject ~ ', and `--full-refresh` makes it empty'
        ) -%}
    {%- endif -%}
    {%- if landed['last_batch'] is none and scope.case != 'full' and not scope.added -%}
        {{ return(dict(scope, case='nothing')) }}
    {%- endif -%}
    {%- set follows_reads = landed['resting_on_reads'] + landed['reads'] > 0 -%}
    {%- set connectors = counted_connectors(landed) + ([captured.connector] if captured.connector else []) -%}
    {%- do scope.update({'records': landed['records'] | int}) -%}
    {%- set records_before = 0 if scope.case != 'increment' else last.records if last.records is defined else
        run_query('select count(*) from ' ~ this)[0][0] | int -%}
    {%- do scope.state.update({'records': records_before + scope.records}) -%}
    {%- set batch_id = [landed['last_batch'] or 0, scope.after] | max -%}
    {%- if scope.case == 'full' -%}
        {{ return(dict(scope, batch_id=batch_id, follows_reads=follows_reads, connectors=connectors)) }}
    {%- elif not captured.key -%}
        {{ return(dict(scope, case='rederive', batch_id=batch_id, after=-1, watermarks=[], read_places=[], records=none)) }}
    {%- endif -%}
    {%- set is_ahead = has_rows('select 1 from ' ~ this ~ ' where ' ~ landed_since(scope.after)) -%}
    {%- if must_be_made_anew(scope, of_feed, follows_reads, is_ahead) -%}
        {{ return(dict(scope, case='full', batch_id=batch_id, after=-1, watermarks=[], read_places=[], records=none)) }}
    {%- endif -%}
    {{ return(dict(
        scope, case='some', batch_id=batch_id, follows_reads=follows_reads, connectors=connectors, is_ahead=is_ahead
    )) }}
{%- endmacro %}


{#- Stop where a table has landings that bronze lacks: their numbers come again, with other records. -#}
{% macro only_of_this_bronze(scope, last) -%}
    {%- if scope.case == 'increment' and looked_at(last) > [graph.tidemark.landed, 0] | max -%}
        {{ exceptions.raise_compiler_error(
            model.name ~ ': the last build read landing ' ~ looked_at(last) ~ ', and bronze ends with landing '
            ~ graph.tidemark.landed ~ ': it was put back to an older version, or records of its last landings were deleted, and'
            ~ ' the next landing gets a number that was read already. Have all tables say what bronze has now: `dbt run'
            ~ ' --full-refresh`.'
        ) }}
    {%- endif -%}
{%- endmacro %}


{#- What a log's rows depend on. Its hash is stored: options keep their order, and what says nothing is left out. -#}
{% macro log_declaration(captured) -%}
    {#- `form` is of which making the ids of changes, and what is written down of a log, are: one of another is made anew. -#}
    {%- set declared = {
        'key': captured.key, 'placeholder': captured.placeholders if captured.placeholders | length > 1 else captured.placeholders[0],
        'before_is_whole': captured.before_is_whole,
        'new_logs': captured.new_logs, 'connector': captured.connector, 'form': 11 if captured.documents else 12
    } -%}
    {%- if captured.documents -%}{%- do declared.update({'documents': true}) -%}{%- endif -%}
    {%- if captured.full_updates != 'lookup' -%}{%- do declared.update({'full_updates': captured.full_updates}) -%}{%- endif -%}
    {%- if captured.source_fields -%}{%- do declared.update({'source_fields': captured.source_fields}) -%}{%- endif -%}
    {%- set encodings = {} -%}
    {%- for spec in captured.columns if spec.encoding -%}{%- do encodings.update({spec.name: spec.encoding}) -%}{%- endfor -%}
    {%- if encodings -%}{%- do declared.update({'encodings': encodings}) -%}{%- endif -%}
    {%- set silent = captured.columns | selectattr('null_is_unchanged', 'true') | map(attribute='name') | list -%}
    {%- if silent -%}{%- do declared.update({'null_is_unchanged': silent}) -%}{%- endif -%}
    {%- set mixed = {} -%}
    {%- for spec in captured.columns if rests_on_encodings(spec) -%}
        {%- set told = told_time(spec) -%}
        {%- do mixed.update({spec.name: [has_maps(spec), has_decimals(spec)] + ([told] if told else [])}) -%}
    {%- endfor -%}
    {%- if mixed -%}{%- do declared.update({'mixed': mixed}) -%}{%- endif -%}
    {#- Logs that were made before have both zeros in keys (`of_key`). -#}
    {%- for spec in captured.columns if spec.name in (captured.key or []) and is_floating(spec.type) -%}
        {%- do declared.update({'has_one_zero': true}) -%}
    {%- endfor -%}
    {#- Rows are read otherwise then, and spell texts of JSON otherwise. -#}
    {%- if not captured.documents and is_case_sensitive(captured.columns) -%}{%- do declared.update({'has_twins': true}) -%}{%- endif -%}
    {{ return(declared) }}
{%- endmacro %}


{#-
  The scope by declaration and progress, before bronze is asked for news.

  Args:
      last: the model's own progress
-#}
{% macro log_scope_as_declared(captured, last) -%}
    {%- set scope = dict(
        build_scope('silver', log_declaration(captured), captured.columns, last, captured.feed), batch_id=none,
        hazards=last.get('hazards', {}), borders=last.get('borders', []), watermarks=last.get('watermarks', []),
        read_places=last.get('read_places', []),
        has_placeless=last.get('has_placeless', false), follows_reads=true, is_ahead=false, connectors=none, records=none
    ) -%}
    {%- if scope.case == 'increment' and (had_added_columns(captured, scope) or are_read_otherwise(captured, scope)) -%}
        {%- do scope.update({'case': 'full', 'after': -1, 'added': []}) -%}
    {%- endif -%}
    {%- if scope.case != 'increment' -%}
        {%- do scope.update({'borders': declared_borders(captured.new_logs), 'watermarks': [], 'read_places': [], 'has_placeless': false}) -%}
    {%- endif -%}
    {%- do scope.state.update({'late': late_columns(scope, captured.columns, last)}) -%}
    {{ return(scope) }}
{%- endmacro %}


{#-
  Whether a landing can't be placed behind what is there.

  Args:
      of_feed: the end of a query, the records of the feed up to the run
      follows_reads: whether the landing has reads, or changes that can rest on some
      is_ahead: whether the log has changes that nothing was written down of
-#}
{% macro must_be_made_anew(scope, of_feed, follows_reads, is_ahead) -%}
    {#- Where reads tell no place, watermarks don't say where the landing's stand. -#}
    {%- if follows_reads and scope.has_placeless -%}
        {{ return(true) }}
    {#- What stands before reads, or before what reads without a place follow, moves changes that are there (R4). -#}
    {%- elif (follows_reads or scope.has_placeless) and is_out_of_order(of_feed, scope) -%}
        {{ return(true) }}
    {#- A killed run has placed changes by reads or borders that neither watermarks nor borders know (G4). -#}
    {%- elif is_ahead -%}
        {{ return(
            follows_reads or scope.has_placeless or scope.borders
            or has_rows('select 1 from ' ~ this ~ ' where ' ~ log_of_position() ~ " != ''")
        ) }}
    {%- endif -%}
    {{ return(false) }}
{%- endmacro %}


{#-
  Whether records that the log was built from have told of columns that are new to it: fields that a model declares since,
  of documents or beside another column of theirs.
-#}
{% macro had_added_columns(captured, scope) -%}
    {%- set added = scope.added | map('first') | list -%}
    {%- for spec in captured.columns
        if spec.name in added and (captured.documents or (spec.first_batch or scope.after + 1) | int <= scope.after) -%}
        {{ return(true) }}
    {%- endfor -%}
    {{ return(false) }}
{%- endmacro %}


{#-
  Whether deletes without a schema, of which the log has some, are read otherwise for what has landed since: by the one
  encoding that schemas tell of a column, as long as it is one, and with the columns that only they had (G1).
-#}
{% macro are_read_otherwise(captured, scope) -%}
    {%- set shapeless -%}
        select 1 from {{ captured.records }} as record
        left anti join {{ lakehouse_table('bronze', 'shapes') }} as shape
            on record.feed = shape.feed and record.shape_id = shape.shape_id
        where record.feed = {{ text_literal(captured.feed) }} and op = 'd' and record.batch_id <= {{ scope.after }}
    {%- endset -%}
    {%- for spec in captured.columns if spec.since -%}
        {%- set before = [] -%}
        {%- for one, since in spec.since.items() if since <= scope.after -%}{%- do before.append(one) -%}{%- endfor -%}
        {%- if shapeless_encoding(spec, before) != shapeless_encoding(spec, spec.encodings) -%}
            {{ return(has_rows(shapeless)) }}
        {%- endif -%}
    {%- endfor -%}
    {%- set added = scope.added | map('first') | list -%}
    {%- set named = [] -%}
    {%- for spec in captured.columns if spec.name in added -%}
        {%- for one in spellings(spec.field) -%}
            {%- do named.append('contains(' ~ record_text('value') ~ ', ' ~ text_literal('"' ~ one ~ '"') ~ ')') -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(named and has_rows(shapeless ~ ' and (' ~ named | join(' or ') ~ ')')) }}
{%- endmacro %}


{#- Whether changes that the log has stand, or may stand, behind records landed since, in a partition of the topic. -#}
{% macro is_out_of_order(of_feed, scope) -%}
    {#- Offsets of a topic's lives don't compare. -#}
    {%- for border in scope.borders if border.anew -%}{{ return(true) }}{%- endfor -%}
    {{ return(has_rows(
        'select 1 from (select source_label, topic, `partition`, min(`offset`) as low' ~ of_feed ~ ' and batch_id > '
        ~ scope.after ~ ' group by source_label, topic, `partition`) as new join (' ~ watermarks_as_rows(scope.watermarks)
        ~ ') as watermark using (source_label, topic, `partition`) where watermark.highest_offset > low'
    )) }}
{%- endmacro %}
