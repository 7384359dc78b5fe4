{#- The feed that a dbt source reads, from its meta. Empty while dbt only parses. -#}
{% macro feed_of(source_name, table) -%}
    {%- if execute -%}
        {%- for node in graph.sources.values() if node.source_name == source_name and node.name == table -%}
            {{ return(node.meta.get('feed') or node.config.get('meta', {}).get('feed')) }}
        {%- endfor -%}
    {%- endif -%}
    {{ return('') }}
{%- endmacro %}


{#-
  What this run of a changes model has to read, decided here alone:
      full      every record, and the table is made anew
      nothing   no landing since the last run: no record
      some      the landings since the last run
      rederive  every record, and then what differs is written: without a key a change's number depends on records of
                other landings (R3)

  Positions can depend on records before them: on reads (S in R4: `follows_snapshot`; reads without a position:
  `has_placeless`). The table is made anew where such reads were landed before or, with reads landed late, may have been.

  Returns: {case, after, batch_id, added, state, borders, tops, hazards, follows_snapshot, has_placeless}
-#}
{% macro changes_scope(captured) -%}
    {%- set declared = {
        'key': captured.key, 'placeholder': captured.placeholder, 'before_is_whole': captured.before_is_whole,
        'new_logs': captured.new_logs
    } -%}
    {%- set progress = progress_of([model.unique_id]) if is_building() else {} -%}
    {%- set known = progress.get(model.unique_id, {}) -%}
    {%- set scope = dict(
        build_scope('silver', declared, captured.columns, progress), batch_id=none, hazards=known.get('hazards', {}),
        borders=known.get('borders', []), tops=known.get('tops', []), has_placeless=known.get('has_placeless', false),
        follows_snapshot=true
    ) -%}
    {%- if scope.case != 'increment' -%}
        {%- do scope.update({'borders': declared_borders(captured.new_logs), 'tops': [], 'has_placeless': false}) -%}
    {%- endif -%}
    {%- if not is_building() -%}
        {{ return(scope) }}
    {%- endif -%}
    {%- set of_feed = (
        ' from ' ~ captured.records ~ ' where feed = ' ~ text_literal(captured.feed) ~ " and kind in ('change', 'truncate')"
    ) -%}
    {%- set found = run_query(
        'select max(batch_id), count_if(' ~ waits_for_commit() ~ "), count_if(op = 'r')" ~ of_feed ~ ' and batch_id > '
        ~ scope.after
    )[0] -%}
    {%- set follows_snapshot = found[1] > 0 -%}
    {%- if scope.case == 'full' -%}
        {{ return(dict(scope, batch_id=found[0] or 0, follows_snapshot=follows_snapshot)) }}
    {%- elif found[0] is none -%}
        {{ return(dict(scope, case='nothing', after=9223372036854775807)) }}
    {%- elif not captured.key -%}
        {{ return(dict(scope, case='rederive', batch_id=found[0], after=-1)) }}
    {%- elif follows_snapshot or (found[2] and (scope.has_placeless or is_out_of_order(of_feed, scope.after))) -%}
        {{ return(dict(scope, case='full', batch_id=found[0], after=-1)) }}
    {%- endif -%}
    {{ return(dict(scope, case='some', batch_id=found[0], follows_snapshot=false)) }}
{%- endmacro %}


{#- Condition: until the first commit after its start PostgreSQL's connector knows no last commit (`[null,"…"]`). -#}
{% macro waits_for_commit() -%}
    op != 'r' and contains(value, cast('"[null,' as binary))
{%- endmacro %}


{#- Whether records landed before stand behind one that was landed since, in a partition of the topic. -#}
{% macro is_out_of_order(of_feed, after) -%}
    {{ return(run_query(
        'select 1 from (select topic, `partition`, source_label, min(`offset`) as low' ~ of_feed ~ ' and batch_id > '
        ~ after ~ ' group by all) as new join (select topic, `partition`, source_label, `offset`' ~ of_feed
        ~ ' and batch_id <= ' ~ after ~ ') as old using (topic, `partition`, source_label) where `offset` > low limit 1'
    ) | length > 0) }}
{%- endmacro %}
