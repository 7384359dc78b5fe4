{#- Law: an account has each change of its log under one disposition (G6). -#}
{% test every_change_is_accounted_for(model, changes) %}
select *
from (
    select
        (select sum(records) from {{ model }} where kind = 'disposition') as accounted_for,
        (select count(*) from {{ changes }}) as changes
) as sums
where coalesce(accounted_for, 0) != changes
{% endtest %}
