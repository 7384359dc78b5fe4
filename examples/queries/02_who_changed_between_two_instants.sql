-- What differs between the customers of 01:42:06.100 and those of 01:42:06.200, whatever happened in between?
with

earlier as (

    select * from inv__public__customers_history
    where valid_from <= timestamp'2026-11-21 01:42:06.100'
        and (valid_to is null or timestamp'2026-11-21 01:42:06.100' < valid_to)

),

later as (

    select * from inv__public__customers_history
    where valid_from <= timestamp'2026-11-21 01:42:06.200'
        and (valid_to is null or timestamp'2026-11-21 01:42:06.200' < valid_to)

)

select
    coalesce(earlier.id, later.id) as id,
    case when earlier.id is null then 'added' when later.id is null then 'removed' else 'modified' end as difference,
    earlier.tier as tier_before,
    later.tier as tier_after,
    earlier.balance as balance_before,
    later.balance as balance_after
from earlier
full outer join later on earlier.id = later.id
where earlier.version_id is distinct from later.version_id
order by id
