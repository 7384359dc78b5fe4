{#- Law: a version ends before the next one of its key begins, and not before its own beginning. -#}
{% test versions_do_not_overlap(model, key, column_names={}) %}
select *
from (
    {{ versions_of_model(model, key, column_names) }}
) as versions
where valid_from is null or {{ ends_before_it_begins() }} or {{ overlaps_next() }}
{% endtest %}
