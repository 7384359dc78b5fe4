{#-
  Before a run: give the catalog what the locations hold, so that a new or lost catalog needs no repair.
  Every statement here is skipped where the catalog has the table already.
-#}
{% macro tidemark_start() -%}
    {%- if execute and flags.WHICH in ('run', 'build', 'test', 'source', 'freshness', 'retry', 'compile', 'show', 'generate') -%}
        {%- if invocation_args_dict.get('defer') -%}
            {{ exceptions.raise_compiler_error(
                '--defer was asked for, and a history goes on from its own log: an environment begins with a build of everything'
                ~ ' (docs/cluster.md). Leave --defer out.'
            ) }}
        {%- elif invocation_args_dict.get('sample') -%}
            {{ exceptions.raise_compiler_error(
                '--sample was asked for, and a log holds every record: the next run would take what is made of a part for whole.'
                ~ ' Leave --sample out, and DBT_SAMPLE unset; --empty makes tables without rows.'
            ) }}
        {%- endif -%}
        {%- do only_own_materializations() -%}
        {%- do make_schemas() -%}
        {%- do keep_settings() -%}
        {#- Bronze is landed: where it isn't, in a shell that lacks TIDEMARK_LAKEHOUSE for one, this fails rather than make it. -#}
        {%- do run_query('select 1 from ' ~ lakehouse_table('bronze', 'records') ~ ' limit 0') -%}
        {%- do run_query(make_known('bronze.records', 'bronze', 'records')) -%}
        {%- do only_this_lakehouse('bronze', 'records') -%}
        {#- An account has a row for each disposition of changes and for each sign. -#}
        {%- do run_query(
            'create table if not exists ' ~ progress_table()
            ~ " (model string comment 'Unique id of the dbt model',"
            ~ " batch_id bigint comment 'The last landing it holds',"
            ~ " state string comment 'What its next run compares with, as JSON', run_id string, recorded_at timestamp,"
            ~ ' account array<struct<kind: string, name: string, records: bigint, sample_keys: array<string>>>'
            ~ " comment 'What became of the changes of a history (G6)')"
            ~ ' using delta'
        ) -%}
        {%- do run_query(make_known(progress_relation(), 'ops', 'progress')) -%}
        {#- Environments share bronze; `tidemark catalog` tells a catalog of the tables of one. -#}
        {%- do only_this_lakehouse('ops', 'progress') -%}
        {%- if is_build_command() -%}
            {%- do read_progress() -%}
            {%- do compile_queries(not is_of_small_tables()) -%}
        {%- endif -%}
        {%- do register_others() -%}
    {%- endif -%}
{%- endmacro %}


{#-
  Give the catalog the tables that it lacks of models that were built and that this run doesn't build: those see to it themselves.
  A part can so be built, and tests can be run, with a catalog that is new.
-#}
{% macro register_others() -%}
    {%- set known, lacking = {}, {} -%}
    {%- for node in graph.nodes.values()
        if node.resource_type == 'model' and declared_by(node) and node.unique_id not in selected_resources -%}
        {%- for layer in ['silver', 'gold', 'ops'] if node.schema == layer_schema(layer) -%}
            {%- if layer not in known -%}
                {%- set names = run_query('show tables in ' ~ quoted(node.schema)).columns[1].values() -%}
                {%- do known.update({layer: dict.fromkeys(names)}) -%}
            {%- endif -%}
            {%- if node.alias | lower not in known[layer] -%}
                {%- do lacking.update({node.unique_id: [layer, node.alias]}) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- set built = [] -%}
    {%- for id, last in ((memory().get('progress') or progress_so_far()) if lacking else {}).items()
        if id in lacking and last.get('identifier') in [none, lacking[id][1]] -%}
        {%- do built.append(lacking[id]) -%}
    {%- endfor -%}
    {%- for layer, name in (stored_among(built) if built else []) -%}
        {%- do run_query(make_known(api.Relation.create(schema=layer_schema(layer), identifier=name), layer, name)) -%}
    {%- endfor -%}
{%- endmacro %}


{#-
  Stop where a model whose SQL Tidemark writes has another materialization than the one that this SQL is for, or is one of
  dbt's versions of a model: its name isn't its own.
-#}
{% macro only_own_materializations() -%}
    {#- Of each macro one of the options that it notes in its model's `meta.tidemark`, and no other macro does. -#}
    {%- set materialization_of = {
        'columns': 'changes', 'changes': 'history', 'history': 'current', 'accounts': 'accounting',
        'messages_of': 'appended', 'outbox': 'remade', 'schema_versions_of': 'remade', 'snapshots_of': 'remade',
        'transactions_of': 'remade'
    } -%}
    {%- for node in graph.nodes.values() if node.resource_type == 'model' -%}
        {%- for option in declared_by(node)
            if option in materialization_of and node.config.materialized != materialization_of[option] -%}
            {{ exceptions.raise_compiler_error(
                node.name ~ ": it is materialized as '" ~ node.config.materialized ~ "', and what a macro of Tidemark"
                ~ " writes in it is for '" ~ materialization_of[option] ~ "' alone. Take `materialized` out of what its"
                ~ ' SQL, its yml or dbt_project.yml says of it, or say `materialized: ' ~ materialization_of[option]
                ~ '` there.'
            ) }}
        {%- endfor -%}
        {%- if declared_by(node) and node.version is not none -%}
            {{ exceptions.raise_compiler_error(
                node.name ~ ': its yml has `versions`, and a table of Tidemark is found by its model\'s name, which dbt\'s versions'
                ~ ' share. Take `versions` out; a second history of a log is a model of a name of its own.'
            ) }}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro %}


{#-
  Leave the session's settings as the statements before this one have set them: dbt-spark would set all of them again
  before each statement, one by one. What a model's own hook sets stays, too.
-#}
{% macro keep_settings() -%}
    {%- if has_one_session() -%}{%- do adapter.config.credentials.server_side_parameters.clear() -%}{%- endif -%}
{%- endmacro %}


{#-
  Have Spark compile its queries, as it does if nothing is said, or interpret them. Where a session is shared by others than the
  models of this run, it stays as it is.
-#}
{% macro compile_queries(are_compiled) -%}
    {%- set ways = {'spark.sql.codegen.wholeStage': 'false', 'spark.sql.codegen.factoryMode': 'NO_CODEGEN'} -%}
    {%- for name, otherwise in ways.items() if has_one_session() -%}
        {%- do run_query('reset ' ~ name if are_compiled else 'set ' ~ name ~ ' = ' ~ otherwise) -%}
    {%- endfor -%}
{%- endmacro %}


{#-
  Whether a run is of small tables alone: to compile a query takes longer than their rows do. Beside 100,000 records 20,000 new
  ones took a sixth longer uncompiled, 200 new ones of 20 tables a quarter less. What isn't known is not small: logs whose news
  weren't asked for or whose records no build has counted, and models of others; nor what `dbt retry` runs, which selects nothing.
-#}
{% macro is_of_small_tables() -%}
    {%- set sizes = [] -%}
    {%- for state in graph.tidemark.progress.values() if state.borders is defined -%}
        {%- do sizes.append([state.get('records', none), 0]) -%}
    {%- endfor -%}
    {%- for node in graph.nodes.values() if node.unique_id in selected_resources and node.resource_type == 'model' -%}
        {%- if node.config.materialized == 'changes' -%}
            {%- do sizes.append([0, graph.tidemark.waiting.get(node.unique_id)]) -%}
        {%- elif node.config.materialized != 'view' and not declared_by(node) -%}
            {%- do sizes.append([none, none]) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for stored, new in sizes if stored is none or stored > 50000 or new is none or new > 5000 -%}
        {{ return(false) }}
    {%- endfor -%}
    {{ return(selected_resources != []) }}
{%- endmacro %}


{#- Whether all models of a run share one session of Spark, with its settings and temporary views. -#}
{% macro has_one_session() -%}
    {{ return(adapter.config.credentials.method == 'session') }}
{%- endmacro %}


{% macro make_schemas() -%}
    {%- for layer in ['bronze', 'silver', 'gold', 'ops'] -%}
        {%- do run_query('create schema if not exists ' ~ layer_schema(layer)) -%}
    {%- endfor -%}
{%- endmacro %}


{#-
  Give a catalog what a lakehouse holds, at the places where it holds it now. `tidemark catalog` runs this.

  Args:
      tables: [[layer, name], …], the tables that are there
-#}
{% macro tidemark_catalog(tables) -%}
    {%- do make_schemas() -%}
    {%- for layer, name in tables -%}
        {%- set table = quoted(layer_schema(layer)) ~ '.' ~ quoted(name) -%}
        {%- do run_query(make_known(table, layer, name)) -%}
        {%- set location = location_in_catalog(layer, name) -%}
        {%- if not is_at(location, layer, name) -%}
            {%- do run_query('drop ' ~ ('table ' if location else 'view ') ~ table) -%}
            {%- do run_query(make_known(table, layer, name)) -%}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro %}


{#- Where the catalog knows a table; a folder without its scheme. Delta would read the table's log to say so. -#}
{% macro location_in_catalog(layer, name) -%}
    {%- set description = run_query('show table extended in ' ~ quoted(layer_schema(layer)) ~ ' like ' ~ text_literal(name))[0] -%}
    {{ return(location_in(description['information'])) }}
{%- endmacro %}


{#- The same of what a catalog tells of a relation; nothing of a view. -#}
{% macro location_in(information) -%}
    {#- A line of the table's own description, which comes before it, may look like it. -#}
    {{ return(modules.re.findall('(?m)^Location: (.*)$', information) | last | default('', true) | replace('file:', '')) }}
{%- endmacro %}


{#- Whether a location that a catalog has told is that of a layer's table. -#}
{% macro is_at(location, layer, name) -%}
    {{ return(location == location_of(layer, name) | replace('file:', '')) }}
{%- endmacro %}


{#- Stop where the catalog knows a table of another lakehouse: builds would go on there, past its lock. -#}
{% macro only_this_lakehouse(layer, name) -%}
    {%- set location = location_in_catalog(layer, name) -%}
    {%- if not is_at(location, layer, name) -%}
        {{ exceptions.raise_compiler_error(
            'The catalog knows the tables of another lakehouse: ' ~ layer_schema(layer) ~ '.' ~ name ~ ' is ' ~ location
            ~ ' there, and not ' ~ location_of(layer, name) ~ '. Where it is the same lakehouse, moved or spelled otherwise,'
            ~ ' `tidemark catalog --target ' ~ target.name ~ '` tells the catalog. Else set TIDEMARK_CATALOG to a folder of its'
            ~ ' own for this one; what a catalog has of Tidemark, a build makes anew.'
        ) }}
    {%- endif -%}
{%- endmacro %}
