{#-
  Law: every version leads back to the change that opened it, and says what that says. A log can move a change to an earlier
  delivery of it (R3), and its history follows when it is built.
-#}
{% test versions_are_traceable(model, key, changes, column_names={}) %}
{%- if not execute or are_built_apart(model, changes) -%}
    select null as version_id where false
{%- else -%}
    {%- set names = {} -%}
    {%- for name in own_columns() -%}{%- do names.update({name: column_names.get(name, name)}) -%}{%- endfor -%}
    {%- set table = node_of(changes).config.meta.tidemark -%}
    {%- set types = {} -%}
    {%- for spec in table.columns -%}{%- do types.update({spec.name: spec.type}) -%}{%- endfor -%}
    {%- set columns = [] -%}
    {%- for column in columns_in(model) -%}
        {%- do columns.append(dict(column, type=types.get(column.name, column.type))) -%}
    {%- endfor -%}
    {{ untold_versions(model, changes, columns, names, table, node_of(model).config.meta.tidemark) }}
{%- endif -%}
{% endtest %}
