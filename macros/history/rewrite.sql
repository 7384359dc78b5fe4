{#-
  How versions are written. A MERGE finds the rows to change by a join, and then writes each file that holds one of them
  anew: with a few thousand keys in a table of few files these are all files. Where that is so, all open versions are
  written without a join, in less than half of the time. Where they are many, a MERGE marks what has changed in them and
  leaves the files as they are (deletion vectors), so that its cost follows the change and not what is stored.
-#}


{#-
  Whether a history's open versions are so few. Where not, MERGEs into a target, the history itself or its current state,
  leave files as they are.

  Args:
      open: the column that tells open versions: a history is partitioned by it, so that Delta's log counts them
-#}
{% macro are_few(target, declared, history, open) -%}
    {%- set count = run_query('select count(*) from ' ~ history ~ ' where ' ~ open)[0][0] | int -%}
    {%- if count > declared.rewritten_rows -%}{%- do leave_files(target) -%}{%- endif -%}
    {{ return(count <= declared.rewritten_rows) }}
{%- endmacro %}


{#- Let MERGEs mark rows as gone, if they don't yet: a property that is set again would be a new version (G3). -#}
{% macro leave_files(relation) -%}
    {%- set name = 'delta.enableDeletionVectors' -%}
    {%- if [name, 'true'] not in (run_query('show tblproperties ' ~ relation).rows | map('list') | list) -%}
        {%- do run_query('alter table ' ~ relation ~ " set tblproperties ('" ~ name ~ "' = 'true')") -%}
    {%- endif -%}
{%- endmacro %}


{#- Names of columns as a list in SQL. -#}
{% macro names_of(columns) -%}
    {%- for column in columns %}{{ quoted(column.name) }}{{ ', ' if not loop.last }}{% endfor -%}
{%- endmacro %}


{#- Add the versions of keys that were never seen before. Returns: what to say. -#}
{% macro append_versions(target, columns, built) -%}
    {%- do run_query('insert into ' ~ target ~ ' select ' ~ names_of(columns) ~ ' from (' ~ built ~ ')') -%}
    {{ return('new') }}
{%- endmacro %}


{#-
  Put in one commit the open versions as they are now in the place of those before, and add those that were closed.
  Closed ones are not read: news that stand behind all that was known of their keys leave them as they are.

  Args:
      built: a query for the versions of the carried keys, open and closed, from their open one on
      open: the column that tells open versions, by which the table is partitioned

  Returns: what to say
-#}
{% macro write_open_anew(target, columns, built, decision, declared, open) -%}
    {%- set key = key_of('stored', declaration_of(declared.changes)) -%}
    {%- do run_query(
        'insert into ' ~ target ~ ' replace where ' ~ open ~ ' = true select ' ~ names_of(columns) ~ ' from (' ~ built
        ~ ') union all select ' ~ names_of(columns) ~ ' from ' ~ target ~ ' as stored where ' ~ open
        ~ ' and not exists (select 1 from ' ~ decision.carried.held ~ ' as held where held.key <=> ' ~ key ~ ')'
    ) -%}
    {{ return('all open') }}
{%- endmacro %}


{#- Write a table as its query says. Returns: what to say. -#}
{% macro write_anew(target, columns, sql) -%}
    {%- do run_query('insert overwrite ' ~ target ~ ' select ' ~ names_of(columns) ~ ' from (' ~ sql ~ ')') -%}
    {{ return('all') }}
{%- endmacro %}


{#-
  Put the rows that keys with news have now in the place of those before, or remove them, in one commit. Nothing is
  compared: of the rows that are stored, only keys are looked at to find them.

  Args:
      living: a query for all living rows

  Returns: how many rows were written or removed
-#}
{% macro merge_living(target, columns, living, decision, declared, id) -%}
    {%- set table = declaration_of(declared.changes) -%}
    {%- set merge -%}
    merge into {{ target }} as target
    using (
        select
            struct(news.key, living.{{ id }} is not null as is_living) as asked,
            struct(living.*) as living
        from (select distinct key from {{ decision.log }} where ({{ decision.news }}) and key is not null) as news
        left join (
            select * from ({{ living }}) as stored where {{ is_touched(key_of('stored', table), decision) }}
        ) as living on news.key <=> {{ key_of('living', table) }}
    ) as found
    on {% for name in table.key %}target.{{ quoted(name) }} <=> found.asked.key.{{ quoted(name) }}{{ ' and ' if not loop.last }}{% endfor %}
    when matched and not found.asked.is_living then delete
    when matched then update set
        {%- for column in columns %}
        target.{{ quoted(column.name) }} = found.living.{{ quoted(column.name) }}{{ ',' if not loop.last }}
        {%- endfor %}
    when not matched and found.asked.is_living then insert ({{ names_of(columns) }})
        values ({% for column in columns %}found.living.{{ quoted(column.name) }}{{ ', ' if not loop.last }}{% endfor %})
    {%- endset -%}
    {{ return(run_query(merge)[0][0] | int) }}
{%- endmacro %}
