{#-
  Whether a model is made anew or goes on from what it has, decided by its declaration and its progress:
      full        new, refreshed, declared otherwise than what is stored, or of columns that are stored with other types; or
                  of another subject, or in another table, than the last run had
      nothing     dbt's `--empty`: no row is read, and what is stored stays
      increment   `after` is the last landing that it holds; `added` the columns that have come since (R8)

  Args:
      layer: where its table is
      declared: the options that its rows depend on
      columns: [{name, type, …}], the columns of the captured table, those that no model declares last
      last: what its last build wrote down; empty where it was never built
      subject: what it is a table of, where its name can change without its declaration

  Returns: {case, after, added, layer, state}; `state` is what the next run compares with.
-#}
{% macro build_scope(layer, declared, columns, last, subject=none) -%}
    {%- do only_in_layer(layer) -%}
    {%- set shape = [] -%}
    {%- for spec in columns -%}{%- do shape.append([spec.name, spec.type, spec.field]) -%}{%- endfor -%}
    {%- set state = {
        'declared': hash_of_declaration(declared), 'columns': shape, 'subject': subject, 'identifier': model.alias
    } -%}
    {%- set kept = last.columns | length if last else 0 -%}
    {%- set anew = {'case': 'full', 'after': -1, 'added': [], 'layer': layer, 'state': state} -%}
    {%- if is_empty() -%}
        {{ return(dict(anew, case='nothing')) }}
    {%- elif not is_building() or should_full_refresh() or not last or last.declared != state.declared
        or shape[:kept] != last.columns or last.get('subject', subject) != subject
        or last.get('identifier', model.alias) != model.alias -%}
        {{ return(anew) }}
    {%- endif -%}
    {%- if not is_registered(layer) -%}{%- do register(layer) -%}{%- endif -%}
    {%- if were_added_otherwise(shape[kept:]) -%}
        {{ return(anew) }}
    {%- endif -%}
    {{ return(dict(anew, case='increment', after=last.batch_id, added=shape[kept:])) }}
{%- endmacro %}


{#- What tells the declarations of two builds apart. -#}
{% macro hash_of_declaration(declared) -%}
    {{ return(local_md5(tojson(declared))) }}
{%- endmacro %}


{#- Whether a run that didn't come to its end has added one of these columns with another type (G4). -#}
{% macro were_added_otherwise(added) -%}
    {%- if added -%}
        {%- set row = 'after.*' if model.config.materialized == 'changes' else '*' -%}
        {%- set stored = columns_in(this, row) -%}
        {%- set added_before = added | selectattr(0, 'in', stored | map(attribute='name') | list) | list -%}
        {{ return(stored_otherwise(added_before, stored) != []) }}
    {%- endif -%}
    {{ return(false) }}
{%- endmacro %}


{#-
  Condition: whether what has a `batch_id` was landed after what a model holds, and no later than the newest landing that it
  knows of, by default the run's. This is a list where it can be: a number becomes part of the code that Spark generates,
  which each run would then compile anew. A list of more than ten stands beside the code, not in it, so it is filled up with
  numbers that no landing will have. They are high: the lowest, by which files are skipped, stays.
-#}
{% macro landed_since(after, newest=none) -%}
    {%- set newest = graph.tidemark.landed if newest is none and is_building() else newest -%}
    {%- if newest is none -%}
        batch_id > {{ after }}
    {%- elif after < 0 or newest > after + 1000 -%}
        batch_id > {{ after }} and batch_id <= {{ newest }}
    {%- else -%}
        {%- set never = 9000000000000000000 -%}
        batch_id in ({{ (range(after + 1, newest + 1) | list + range(never, never + 11) | list) | join(', ') }})
    {%- endif -%}
{%- endmacro %}


{#- Whether dbt's command is one that builds tables. -#}
{% macro is_build_command() -%}
    {{ return(execute and flags.WHICH in ('run', 'build', 'retry')) }}
{%- endmacro %}


{#- Whether models ask bronze for what they are to hold: where dbt builds tables, and where it shows how it would. -#}
{% macro asks_bronze() -%}
    {{ return(not flags.EMPTY and (is_build_command() or (execute and flags.WHICH == 'compile'))) }}
{%- endmacro %}


{#- Whether dbt builds tables now; otherwise the query stands alone, as unit tests and readers want it. -#}
{% macro is_building() -%}
    {{ return(is_build_command() and not flags.EMPTY and model.resource_type == 'model') }}
{%- endmacro %}


{#- Whether dbt's `--empty` gives a model no rows; a unit test gives it rows of its own all the same. -#}
{% macro is_empty() -%}
    {{ return(flags.EMPTY and model.resource_type != 'unit_test') }}
{%- endmacro %}


{#- Whether this run builds one of two tables and not the other: what holds between them holds behind a run of both. -#}
{% macro are_built_apart(one, other) -%}
    {%- set built = [] -%}
    {%- for node in (graph.nodes.values() if execute else []) if node.unique_id in selected_resources -%}
        {%- do built.append([node.schema, node.alias]) -%}
    {%- endfor -%}
    {{ return(built != [] and ([one.schema, one.identifier] in built) != ([other.schema, other.identifier] in built)) }}
{%- endmacro %}


{#- The first line of a compiled model: what was decided, for the materialization and for the reader. -#}
{% macro decision(scope) -%}
    -- tidemark: {{ tojson(scope) }}
{%- endmacro %}


{#- A compiled model that has nothing to do. -#}
{% macro as_it_is(scope) -%}
    {{ decision(scope) }}
    select * from {{ this }} where false
{%- endmacro %}


{#- The decision in a compiled model; an error where it has none. -#}
{% macro decided(sql) -%}
    {%- set lines = modules.re.findall('-- tidemark: (.*)', sql) -%}
    {%- if not lines -%}
        {{ exceptions.raise_compiler_error(
            model.name ~ ": its SQL has no line '-- tidemark: …', which tells the materialization " ~ model.config.materialized
            ~ ' what to do. Let a macro of Tidemark write the whole SQL of the model, or give the model another materialization.'
        ) }}
    {%- endif -%}
    {{ return(fromjson(lines[0])) }}
{%- endmacro %}
