{#- Law: a key has at most one open version, its last; `is_current`, `valid_to` and `closed_by` tell which it is. -#}
{% test at_most_one_open_version(model, key, column_names={}) %}
select *
from (
    {{ versions_of_model(model, key, column_names) }}
) as versions
where {{ is_open_before_next() }} or {{ is_marked_otherwise() }}
{% endtest %}
