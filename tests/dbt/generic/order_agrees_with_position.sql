{#- Law: versions of a key begin in the order of their positions in the source's log (R4, R10). -#}
{% test order_agrees_with_position(model, key, column_names={}) %}
select *
from (
    select
        {{ whole_key(key) }} as key_of_version,
        {{ own('version_id', column_names) }} as version_id,
        {{ own('valid_from', column_names) }} as valid_from,
        lead({{ own('valid_from', column_names) }}) over (
            partition by {{ whole_key(key) }}
            order by {{ place_of_version(column_names) }}
        ) as next_from
    from {{ model }}
) as ordered
where next_from < valid_from
{% endtest %}
