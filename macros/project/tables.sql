{#-
  Make or remake a table as a query says, in one commit: readers see the old one until the new one is there.
  Descriptions are written here alone, so that a run with nothing new writes nothing (G3).

  Args:
      partitioned_by: a column, quoted
      columns: [[name, type, …], …], its columns as far as they are a source's own, or named by one
      properties: of the table; with those that the model's `tblproperties` name, unless they are the same
      pruned_by: the columns by which files are left unread, as SQL; of the first 32 where nothing is said. Each costs
          every reader of the table's log, and every writer
-#}
{% macro create_as(target_relation, sql, layer, partitioned_by=none, columns=[], properties={}, pruned_by=[]) -%}
    {%- do make_way(layer) -%}
    {%- set properties = dict(config.get('tblproperties') or {}, **dict(needed_properties(columns), **properties)) -%}
    {%- if pruned_by -%}
        {%- do properties.update({'delta.dataSkippingStatsColumns': pruned_by | join(', ')}) -%}
    {%- endif -%}
    {%- call statement('main') %}
        create or replace table {{ target_relation }}
        using delta
        {{ 'partitioned by (' ~ partitioned_by ~ ')' if partitioned_by }}
        location {{ text_literal(location_of(layer, target_relation.identifier)) }}
        {%- if properties %}
        tblproperties ({{ property_list(properties) }})
        {%- endif %}
        comment {{ text_literal(model.description) }}
        as
        {{ sql }}
    {% endcall -%}
{%- endmacro %}


{#- Run a statement whose answer nobody reads: dbt would wait for Spark to hand it over. -#}
{% macro run_statement(sql) -%}
    {%- call statement(none, auto_begin=false) -%}{{ sql }}{%- endcall -%}
{%- endmacro %}


{#-
  The columns of a relation, [{name, type}]. dbt's own list ends before the first whose name begins with `#`; of a struct of many
  fields the type names some.

  Args:
      of: what is selected of it: `after.*` for the fields of a column
-#}
{% macro columns_in(relation, of='*') -%}
    {%- set columns = [] -%}
    {%- for row in run_query('describe query select ' ~ of ~ ' from ' ~ relation) -%}
        {%- do columns.append({'name': row[0], 'type': row[1]}) -%}
    {%- endfor -%}
    {{ return(columns) }}
{%- endmacro %}


{#-
  The names of those of some columns that a relation has not, or has with another type. Spark spells both: what is declared
  `integer` is `int` there, and a field's name loses its backquotes.

  Args:
      columns: [[name, type, …], …]
      stored: the relation's columns, as `columns_in` has them
-#}
{% macro stored_otherwise(columns, stored) -%}
    {%- set there = {} -%}
    {%- for column in stored -%}{%- do there.update({folded(column.name): column.type}) -%}{%- endfor -%}
    {%- set asked, casts = [], [] -%}
    {%- for column in columns if there.get(folded(column[0])) != column[1] -%}
        {%- do asked.append(column[0]) -%}
        {%- do casts.append('cast(null as ' ~ column[1] ~ ') as c' ~ loop.index) -%}
    {%- endfor -%}
    {%- set names = [] -%}
    {%- for spelled in (columns_in('(select ' ~ casts | join(', ') ~ ')') if casts else []) -%}
        {%- if there.get(folded(asked[loop.index0])) != spelled.type -%}{%- do names.append(asked[loop.index0]) -%}{%- endif -%}
    {%- endfor -%}
    {{ return(names) }}
{%- endmacro %}


{#- Whether a query has a row. -#}
{% macro has_rows(query) -%}
    {{ return(run_query(query ~ ' limit 1') | length > 0) }}
{%- endmacro %}


{#- Whether the catalog, as dbt listed it before the run, has this model's table: the one of Delta in the lakehouse. -#}
{% macro is_registered(layer) -%}
    {%- set existing = load_relation(this) -%}
    {{ return(
        existing is not none and existing.is_delta
        and is_at(location_in(existing.information), layer, this.identifier)
    ) }}
{%- endmacro %}


{#-
  Take out of the catalog what stands in that table's place: a view, or a table that is elsewhere. The files of one whose
  files would go with it are somebody's: it gets another name.
-#}
{% macro make_way(layer) -%}
    {%- set existing = load_relation(this) -%}
    {%- if existing is not none and not is_registered(layer) -%}
        {%- if modules.re.search('(?m)^Type: MANAGED$', existing.information) -%}
            {%- set aside = this.incorporate(
                path={'identifier': this.identifier ~ '_aside_' ~ run_started_at.strftime('%Y%m%d%H%M%S')}
            ) -%}
            {%- do run_statement('alter table ' ~ this ~ ' rename to ' ~ aside) -%}
            {%- do log(this ~ ' was no table of Tidemark: it is ' ~ aside ~ ' now.', info=true) -%}
        {%- endif -%}
        {#- Of a table that has another name now this changes what dbt knows alone. -#}
        {%- do adapter.drop_relation(existing) -%}
    {%- endif -%}
{%- endmacro %}


{#-
  Which of some tables, [[layer, name], …], are in the lakehouse: those of which a log has a commit. Spark takes a place where
  nothing is for an error, which nobody can catch here, and a pattern that something fits for none: a table of bronze does.
-#}
{% macro stored_among(tables) -%}
    {%- set folders = [] -%}
    {%- for layer, name in [['bronze', 'shapes']] + tables -%}
        {%- do folders.append(layer_schema(layer) ~ '/' ~ without_patterns(name) | replace(',', '\\,')) -%}
    {%- endfor -%}
    {%- set commits = without_patterns(lakehouse_folder()) ~ '/{' ~ folders | join(',') ~ '}/_delta_log/[0-9]*.json' -%}
    {%- set found = run_query(
        "select distinct regexp_extract(path, '/([^/]+/[^/]+)/_delta_log/[^/]+$', 1) from binaryFile." ~ quoted(commits)
    ).columns[0].values() -%}
    {%- set stored = [] -%}
    {%- for layer, name in tables if layer_schema(layer) ~ '/' ~ name in found -%}
        {%- do stored.append([layer, name]) -%}
    {%- endfor -%}
    {{ return(stored) }}
{%- endmacro %}


{#-
  Give the catalog this model's table, which is in the lakehouse. One that isn't, or has no log, fails: Delta would make a table
  without columns there, and nobody would miss what is gone.
-#}
{% macro register(layer) -%}
    {%- do run_query('select 1 from ' ~ lakehouse_table(layer, this.identifier) ~ ' limit 0') -%}
    {%- do make_way(layer) -%}
    {%- do run_statement(make_known(this, layer, this.identifier)) -%}
{%- endmacro %}


{#-
  Add columns to a table (R8), but for those that a run which didn't come to its end has added (G4).

  Args:
      added: [[name, type, …], …]
      definitions: column → its definition, as SQL
      there: the columns that the table has
-#}
{% macro add_columns(target_relation, added, definitions, there) -%}
    {%- set columns = added | rejectattr(0, 'in', there) | list -%}
    {%- set defined = [] -%}
    {%- for column in columns -%}{%- do defined.append(definitions[column[0]]) -%}{%- endfor -%}
    {%- if columns -%}
        {%- if needed_properties(columns) -%}
            {%- do run_statement(
                'alter table ' ~ target_relation ~ ' set tblproperties ('
                ~ property_list(needed_properties(columns)) ~ ')'
            ) -%}
        {%- endif -%}
        {%- do run_statement('alter table ' ~ target_relation ~ ' add columns (' ~ defined | join(', ') ~ ')') -%}
    {%- endif -%}
{%- endmacro %}


{#-
  Properties without which a table doesn't take columns, [[name, type, …], …], and the fields of their types: for names that
  can't stand in a Parquet file as they are, and for times without zone, which Delta lets into a table that is there, replaced
  or not, where it is told so. Only then are columns mapped: readers such as deltalake's `to_pyarrow_table` see nothing but
  NULL in mapped tables.
-#}
{% macro needed_properties(columns) -%}
    {%- set properties = {} -%}
    {%- for column in columns -%}
        {%- set type = column[1] | default('') -%}
        {%- if modules.re.search('[ ,;{}()\n\t=]', column[0] or '') -%}
            {%- do properties.update({'delta.columnMapping.mode': 'name'}) -%}
        {%- endif -%}
        {%- if 'timestamp_ntz' in type -%}
            {%- do properties.update({'delta.feature.timestampNtz': 'supported'}) -%}
        {%- endif -%}
        {%- if '<' in type -%}
            {%- set fields = [] -%}
            {%- for field in fields_of_type(type) -%}{%- do fields.append([field.name, field.type]) -%}{%- endfor -%}
            {%- do properties.update(needed_properties(fields)) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(properties) }}
{%- endmacro %}


{% macro property_list(properties) -%}
    {%- for name, value in properties.items() -%}
        {{ text_literal(name) }} = {{ text_literal(value) }}{{ ', ' if not loop.last }}
    {%- endfor -%}
{%- endmacro %}


{#-
  A query's rows held for the rest of a model's run, because they are looked at more than once. They are held in files:
  Spark plans the query of a view, cached or not, again with each look at it, and that of a fold is long.
  What is left there after a run is of no use and can be removed at any time. It is written once and read a few times:
  dictionaries and a denser compression take twice as long as the rest of it.
-#}
{% macro stage(sql, purpose='staged') -%}
    {%- set name = held_name(purpose) -%}
    {%- do hold(sql, name) -%}
    {%- do run_statement(
        'create or replace temporary view ' ~ quoted(name) ~ ' using parquet options (path '
        ~ text_literal(held_at(name)) ~ ')'
    ) -%}
    {{ return(quoted(name)) }}
{%- endmacro %}


{#- What a model's rows are called that are held for a purpose. -#}
{% macro held_name(purpose) -%}
    {{ return(purpose ~ '_' ~ model.name) }}
{%- endmacro %}


{#- Write rows where `staging` says, for those who read them there. -#}
{% macro hold(sql, name) -%}
    {%- do run_statement('insert overwrite directory ' ~ text_literal(staging(name))
        ~ " using parquet options ('compression' = 'lz4_raw', 'parquet.enable.dictionary' = 'false') " ~ sql
    ) -%}
{%- endmacro %}


{#- Where held rows are. -#}
{% macro staging(name) -%}
    {{ return(lakehouse('ops') ~ '/_staged/' ~ name) }}
{%- endmacro %}


{#-
  The same for those who read them there: Spark takes patterns, of which the path's own letters are none. A view is its
  connection's own; what another model's connection reads is read from here.
-#}
{% macro held_at(name) -%}
    {{ return(without_patterns(staging(name))) }}
{%- endmacro %}


{#- A path as Spark takes one that is no pattern. -#}
{% macro without_patterns(path) -%}
    {{ return(modules.re.sub('([][*?{}\\\\])', '\\\\\\1', path)) }}
{%- endmacro %}


{#- Let go of what is held. What is as large as a table is not left lying either. -#}
{% macro unstage(name, is_large=false) -%}
    {%- do run_statement('drop view if exists ' ~ name) -%}
    {%- if is_large -%}
        {%- do run_statement(
            'insert overwrite directory ' ~ text_literal(staging(name[1:-1]))
            ~ ' using parquet select 1 as nothing where false'
        ) -%}
    {%- endif -%}
{%- endmacro %}


{#-
  What a model does where there is nothing to read: nothing. Under dbt's `--empty` its query is run all the same, and a
  table that isn't there is made without rows, for what is built on it; the next run makes it in earnest. Of one that was built
  at this place, and is gone, that run would go on from nothing: it fails.
-#}
{% macro leave_as_is(target_relation, decision, partitioned_by=none, columns=decision.state.columns) -%}
    {%- if flags.EMPTY and not is_registered(decision.layer) -%}
        {%- set last = graph.tidemark.progress.get(model.unique_id) -%}
        {%- if last and last.get('identifier', model.alias) == model.alias
            or stored_among([[decision.layer, this.identifier]]) -%}
            {%- do register(decision.layer) -%}
        {%- else -%}
            {%- do create_as(target_relation, compiled_code, decision.layer, partitioned_by, columns) -%}
        {%- endif -%}
    {%- elif flags.EMPTY -%}
        {%- do run_query('select * from (' ~ compiled_code ~ ') limit 0') -%}
    {%- endif -%}
    {%- do store_raw_result(name='main', message='nothing new', code=none, rows_affected=0) -%}
{%- endmacro %}


{#- Builds a table anew where what it tells of has moved, and leaves it alone otherwise (G3). -#}
{% materialization remade, adapter='spark' %}
    {%- set decision = decided(compiled_code) -%}
    {%- set target_relation = this.incorporate(type='table') -%}
    {{ run_hooks(pre_hooks) }}
    {%- if decision.case == 'nothing' -%}
        {%- do leave_as_is(target_relation, decision) -%}
    {%- else -%}
        {%- do create_as(target_relation, compiled_code, decision.layer, columns=decision.state.columns) -%}
        {%- do say('built', decision) -%}
    {%- endif -%}
    {{ run_hooks(post_hooks) }}
    {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
