{#-
  Law: every version leads back to the change that opened it, and that one to a record of bronze. A log can move a change to
  an earlier delivery of it (R3), and its history follows when it is built.
-#}
{% test versions_are_traceable(model, key, changes, column_names={}) %}
select
    {{ whole_key(key, 'versions') }} as key_of_version,
    versions.{{ own('version_id', column_names) }} as version_id
from {{ model }} as versions
left join {{ changes }} as changes
    on versions.{{ own('topic', column_names) }} = changes.topic
    and versions.{{ own('partition', column_names) }} = changes.`partition`
    and versions.{{ own('offset', column_names) }} = changes.`offset`
    and versions.{{ own('position', column_names) }} <=> changes.position
where changes.change_id is null {{- ' and false' if are_built_apart(model, changes) }}
{% endtest %}
