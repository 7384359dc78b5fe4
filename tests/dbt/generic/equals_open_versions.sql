{#- Law: current state holds the open versions of its history, each once, and nothing else. -#}
{% test equals_open_versions(model, history, version_id='version_id', is_current='is_current') %}
with

open_versions as (

    select * from {{ history }} where {{ quoted(is_current) }}

)

select
    coalesce(now.{{ quoted(version_id) }}, versions.{{ quoted(version_id) }}) as version_id,
    count(now.{{ quoted(version_id) }}) as in_current,
    count(versions.{{ quoted(version_id) }}) as in_history
from {{ model }} as now
full outer join open_versions as versions
    on now.{{ quoted(version_id) }} = versions.{{ quoted(version_id) }}
group by 1
having in_current != 1 or in_history != 1
{% endtest %}
