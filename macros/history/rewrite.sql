{#-
  How versions are written. A MERGE finds the rows to change by a join, and then writes each file that holds one of them
  anew: with a few thousand keys in a table of few files these are all files. Where that is so, all open versions are
  written without a join, in less than half of the time. Where they are many, a MERGE marks what has changed in them and
  leaves the files as they are (deletion vectors), so that its cost follows the change and not what is stored.
-#}


{#-
  Whether a history has at most `rewritten_rows` open versions, which are then all written anew; they are counted where no run
  has. If it has more, the target (the history or its current state) is told to mark rows as gone, so that a MERGE leaves its
  files.

  Args:
      open: the column that tells open versions: a history is partitioned by it, so that Delta's log counts them
-#}
{% macro are_few(target_relation, declared, history, open) -%}
    {%- set open_versions = graph.tidemark.open_versions -%}
    {%- if open_versions.get(history | string) is none -%}
        {%- do open_versions.update({
            history | string: run_query('select count(*) from ' ~ history ~ ' where ' ~ open)[0][0] | int
        }) -%}
    {%- endif -%}
    {%- set are_few = open_versions[history | string] <= declared.rewritten_rows -%}
    {%- if not are_few -%}{%- do leave_files(target_relation) -%}{%- endif -%}
    {{ return(are_few) }}
{%- endmacro %}


{#- Let MERGEs mark rows as gone, if they don't yet: a property that is set again would be a new version (G3). -#}
{% macro leave_files(relation) -%}
    {%- set name = 'delta.enableDeletionVectors' -%}
    {%- if [name, 'true'] not in (run_query('show tblproperties ' ~ relation).rows | map('list') | list) -%}
        {%- do run_statement('alter table ' ~ relation ~ " set tblproperties ('" ~ name ~ "' = 'true')") -%}
    {%- endif -%}
{%- endmacro %}


{#-
  Put in one commit the open versions as they are now in the place of those before, and add those that were closed.
  Closed ones are not read: news that stand behind all that was known of their keys leave them as they are. What is built has
  the versions of the carried keys, open and closed, from their open one on.
-#}
{% macro write_open_anew(build, columns) -%}
    {%- set key = key_of(declaration_of(build.declared.changes), 'stored') -%}
    {%- do run_statement(
        'insert into ' ~ build.target ~ ' replace where ' ~ build.open ~ ' = true select ' ~ names_of(columns) ~ ' from ('
        ~ build.built ~ ') union all select ' ~ names_of(columns) ~ ' from ' ~ build.target ~ ' as stored where ' ~ build.open
        ~ ' and not exists (select 1 from ' ~ build.decision.carried.relation
        ~ ' as carried where ' ~ is_held_key(key, build.decision.carried) ~ ')'
    ) -%}
{%- endmacro %}


{#-
  Put rows in the place of stored ones, remove and add some, in one commit; where there are none, Delta commits nothing
  (G3).

  Args:
      differences: a query with `row`, a struct of the target's columns or NULL for what is to be removed, and with what
          `on` asks
      on: which stored row that is, as a condition over `target` and `differences`; none: the row is new

  Returns: how many rows were written or removed
-#}
{% macro merge_rows(target_relation, columns, differences, on) -%}
    {%- set merge -%}
    merge into {{ target_relation }} as target
    using ({{ differences }}) as differences
    on {{ on }}
    when matched and differences.row is null then delete
    when matched then update set
        {%- for column in columns %}
        target.{{ quoted(column.name) }} = differences.row.{{ quoted(column.name) }}{{ ',' if not loop.last }}
        {%- endfor %}
    when not matched and differences.row is not null then insert ({{ names_of(columns) }})
        values ({{ names_of(columns, 'differences.row.') }})
    {%- endset -%}
    {{ return(run_query(merge)[0][0] | int) }}
{%- endmacro %}


{#-
  The same for a history that goes on from open versions: these are as they were unless they were closed, and nothing has
  to be compared with what is stored. (An ignored column changes a version that stays open: R12.) The fold gives the
  carried versions and those behind them, as `accounted_rows` has them.
-#}
{% macro merge_going_on(build, columns) -%}
    {%- set differences -%}
        select is_carried, version as row
        from {{ build.fold_rows }}
        where version is not null and not (is_carried and version.{{ build.open }})
    {%- endset -%}
    {{ return(merge_rows(build.target, columns, differences, (
        'target.' ~ build.open ~ ' = true and differences.is_carried and '
        ~ is_row_of('differences.row', declaration_of(build.declared.changes))
    ))) }}
{%- endmacro %}


{#-
  The same for a current state: each key with news has the row that is told of it, or none. Of the rows that are stored,
  only keys are looked at.
-#}
{% macro merge_living(build, columns) -%}
    {{ return(merge_rows(
        build.target, columns, living_of_news(build, columns),
        is_row_of('differences.key', declaration_of(build.declared.changes))
    )) }}
{%- endmacro %}


{#- Condition: whether a stored row is that of a key. -#}
{% macro is_row_of(key, table) -%}
    {%- for name in table.key -%}
        target.{{ quoted(name) }} <=> {{ key }}.{{ quoted(name) }}{{ ' and ' if not loop.last }}
    {%- endfor -%}
{%- endmacro %}


{#-
  Tell the current state that is built behind a history in the same run where the rows of all keys with news are held, so
  that it needn't look for them in the history.

  Args:
      fold_rows: the versions of all keys with news that are open, and others, as `accounted_rows` gives them
-#}
{% macro hand_on(fold_rows, decision, open) -%}
    {%- do graph.tidemark.living_rows.update({this | string: {
        'log': decision.log, 'news': decision.news, 'left_as': decision.left_as,
        'living': 'select key, any_value(if(version.' ~ open ~ ', version, null), true) as row from parquet.'
            ~ quoted(held_at(fold_rows[1:-1])) ~ ' group by key'
    }}) -%}
{%- endmacro %}


{#-
  Query: `key` and `row` of keys with news, as the history's build in this run holds them where it was asked of the same news
  and went on from what this current state was made of.
-#}
{% macro living_of_news(build, columns) -%}
    {%- set decision, declared = build.decision, build.declared -%}
    {%- set handed_on = graph.tidemark.living_rows.get(decision.history) -%}
    {%- if handed_on and handed_on.log == decision.log and handed_on.news == decision.news
        and handed_on.left_as == decision.made_of -%}
        {{ return(handed_on.living) }}
    {%- endif -%}
    {%- set table = declaration_of(declared.changes) -%}
    select
        news.key,
        if(living.{{ own('version_id', declared.column_names) }} is null, null, struct({{ names_of(columns, 'living.') }})) as row
    from (
        select distinct key from {{ decision.fresh }} as log
        where ({{ decision.news }}) and {{ is_change_of_key(decision.hazards) }}
    ) as news
    left join (
        select * from ({{ build.built }}) as stored where {{ is_touched(key_of(table, 'stored'), decision) }}
    ) as living on news.key <=> {{ key_of(table, 'living') }}
{%- endmacro %}
