{#- Law: a key has at most one open version, and `is_current` says the same as `valid_to`. -#}
{% test at_most_one_open_version(model, key, column_names={}) %}
select
    {{ whole_key(key) }} as key_of_version,
    count(*) as open_versions
from {{ model }}
where {{ own('valid_to', column_names) }} is null or coalesce({{ own('is_current', column_names) }}, true)
group by {{ whole_key(key) }}
having count(*) > 1
    or count_if(not {{ own('is_current', column_names) }} <=> ({{ own('valid_to', column_names) }} is null)) > 0
{% endtest %}
