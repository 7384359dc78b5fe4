{#-
  Law: a version that an update closed is followed at once by the next. A gap comes after a delete, a truncate or a change
  of key (R13), or where a complete snapshot lacked the row (R16).
-#}
{% test gaps_follow_a_close(model, key, column_names={}) %}
select *
from (
    select
        {{ whole_key(key) }} as key_of_version,
        {{ own('version_id', column_names) }} as version_id,
        {{ own('valid_to', column_names) }} as valid_to,
        {{ own('closed_by', column_names) }} as closed_by,
        lead({{ own('valid_from', column_names) }}) over in_key as next_from,
        lead({{ own('version_id', column_names) }}) over in_key as next_version
    from {{ model }}
    window in_key as (
        partition by {{ whole_key(key) }}
        order by {{ own('valid_from', column_names) }}, {{ place_of_version(column_names) }}
    )
) as bounds
where closed_by = 'update' and (next_version is null or not valid_to <=> next_from)
    or (closed_by is null) != (valid_to is null)
{% endtest %}
