{#-
  Law: every version leads back to the change that opened it, and says what that says, or what that has found. A change ended
  it as it says, and none ended one that is open or that the next state closed. What a read opened begins before it only where a change behind it is as early, and then does. Each last state of a transaction is the version in effect's, no other is a version, and no version says what the one before says. A history has the columns
  that it was built with, and their types. A log can move a change to an earlier delivery of it (R3); its history follows when it is built.

  Columns: broken, the id of a version or the name of a column
-#}
{% test versions_are_traceable(model, key, changes, column_names={}) %}
{%- if not execute or are_built_apart(model, changes) -%}
    select cast(null as string) as broken where false
{%- else -%}
    {%- set column_names = names_of_model(model, column_names) -%}
    {%- set names = {} -%}
    {%- for name in own_columns() -%}{%- do names.update({name: column_names.get(name, name)}) -%}{%- endfor -%}
    {%- set table = node_of(changes).config.meta.tidemark -%}
    {%- set types = {} -%}
    {%- for spec in table.columns -%}{%- do types.update({spec.name: spec.type}) -%}{%- endfor -%}
    {%- set declared = declared_by_history(model, changes) -%}
    {#- A model of one's own may have columns that no change has. -#}
    {%- set is_history = declared_by(node_of(model)) != {} -%}
    {%- set columns = [] -%}
    {%- set stored = columns_in(model) -%}
    {%- for column in stored if is_history or column.name in types or column.name in names.values() -%}
        {%- do columns.append(dict(column, type=types.get(column.name, column.type))) -%}
    {%- endfor -%}
    {%- set shown = shown_in(model, changes) -%}
    {%- set built = shown.get('columns') or [] if shown else [] -%}
    {%- set built_with = built | map('first') | list -%}
    {%- set lacking = stored_otherwise(built, stored) -%}
    select version_id as broken
    from (
        {{ unexplained_versions(model, changes, columns, names, table, declared) }}
    ) as unexplained
    union all
    select version_id
    from (
        {{ unexplained_found(model, changes, columns, names, table, declared, shown) }}
    ) as found
    union all
    select version_id
    from (
        {{ unexplained_ends(
            model, changes, columns, names, table, declared, dict(shown, columns=built_with) if shown else none
        ) }}
    ) as ended
    {%- if lacking %}
    union all
    select explode({{ text_array(lacking) }})
    {%- endif %}
{%- endif -%}
{% endtest %}
