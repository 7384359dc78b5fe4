{#- Law: a version that an update closed is followed at once by the next; gaps come after other closes. -#}
{% test gaps_follow_a_close(model, key, column_names={}) %}
select *
from (
    {{ versions_of_model(model, key, column_names) }}
) as versions
where {{ has_unexplained_gap() }}
{% endtest %}
