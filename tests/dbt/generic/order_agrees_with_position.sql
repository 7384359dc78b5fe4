{#- Law: versions of a key begin in the order of their positions in the source's log (R4, R10). -#}
{% test order_agrees_with_position(model, key, column_names={}) %}
select *
from (
    {{ versions_of_model(model, key, column_names) }}
) as versions
where {{ runs_back() }}
{% endtest %}
