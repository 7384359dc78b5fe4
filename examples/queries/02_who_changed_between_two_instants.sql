-- Which customers of 01:42:06.100 and 01:42:06.200 differ in tier or balance, whatever happened in between?
-- Values are compared, not versions: a customer that changed and changed back has another version and no difference.
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
where earlier.id is distinct from later.id
    or earlier.tier is distinct from later.tier
    or earlier.balance is distinct from later.balance
order by id
