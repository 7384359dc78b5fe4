{#-
  Law: current state holds the open versions of its history, each once and with their values, and nothing else. It has the
  history's columns, but for those that tell versions apart.

  Columns: broken, the `version_id` of a row, as JSON, or the name of a column; how many rows each has of it
-#}
{% test equals_open_versions(model, history, version_id='version_id', is_current='is_current') %}
{%- set names = names_of_model(history, {'version_id': version_id, 'is_current': is_current}) -%}
{%- set columns = columns_in(history) | map(attribute='name') | list if execute else [] -%}
{%- set here = columns_in(model) | map(attribute='name') | list if execute else [] -%}
{%- set there = [] -%}
{%- for name in here -%}{%- do there.append(folded(name)) -%}{%- endfor -%}
{%- for name in own_columns() if name not in current_columns() -%}{%- do there.append(folded(names.get(name, name))) -%}{%- endfor -%}
{%- set lacking = [] -%}
{%- if execute and declared_by(node_of(model)).get('history') and not are_built_apart(model, history) -%}
    {%- for name in columns if folded(name) not in there -%}{%- do lacking.append(name) -%}{%- endfor -%}
{%- endif -%}
select
    {{ exact_json('identity') }} as broken,
    in_current,
    in_history
from (
    {{ current_beside_history(
        model, history, [names.get('version_id', 'version_id')], here | select('in', columns) | list, own('is_current', names)
    ) }}
) as sides
where in_current > 1 or in_history > 1 or {{ is_not_as_open() }}
{%- if lacking %}
union all
select
    explode({{ text_array(lacking) }}) as broken,
    null,
    null
{%- endif %}
{% endtest %}
