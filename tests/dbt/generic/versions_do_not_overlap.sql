{#- Law: two versions of a key never cover the same instant, and none ends before it begins. -#}
{% test versions_do_not_overlap(model, key, column_names={}) %}
select *
from (
    select
        {{ whole_key(key) }} as key_of_version,
        {{ own('version_id', column_names) }} as version_id,
        {{ own('valid_from', column_names) }} as valid_from,
        {{ own('valid_to', column_names) }} as valid_to,
        lead({{ own('valid_from', column_names) }}) over in_key as next_from
    from {{ model }}
    window in_key as (
        partition by {{ whole_key(key) }}
        order by {{ own('valid_from', column_names) }}, {{ place_of_version(column_names) }}
    )
) as bounds
where valid_from is null
    or valid_to < valid_from
    or coalesce(valid_to, timestamp'9999-12-31') > next_from
{% endtest %}
