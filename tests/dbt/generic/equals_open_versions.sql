{#- Law: current state holds the open versions of its history, each once and with their values, and nothing else. -#}
{% test equals_open_versions(model, history, version_id='version_id', is_current='is_current') %}
{%- set names = names_of_model(history, {'version_id': version_id, 'is_current': is_current}) -%}
{%- set columns = columns_in(history) | map(attribute='name') | list if execute else [] -%}
{%- set shared = columns_in(model) | map(attribute='name') | select('in', columns) | list if execute else [] -%}
select *
from (
    {{ current_beside_history(model, history, [names.get('version_id', 'version_id')], shared, own('is_current', names)) }}
) as sides
where in_current > 1 or in_history > 1 or {{ is_not_as_open() }}
{% endtest %}
