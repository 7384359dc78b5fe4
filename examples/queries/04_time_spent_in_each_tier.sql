-- Which tiers were customers 1, 5 and 101 in, one after the other, and how long, up to 01:42:06.300?
-- Versions that follow each other in one tier are one stay; a delete ends it, and time without a row is no stay.
with

steps as (

    select
        *,
        case
            when tier is distinct from lag(tier) over in_key
                or coalesce(lag(closed_by) over in_key, '') not in ('update', 'snapshot')
                then 1
            else 0
        end as begins
    from inv__public__customers_history
    where id in (1, 5, 101)
    window in_key as (partition by id order by position)

),

numbered as (

    select *, sum(begins) over (partition by id order by position) as stay
    from steps

),

stays as (

    select
        id,
        stay,
        tier,
        count(*) as versions,
        min(valid_from) as since,
        case when count(valid_to) = count(*) then max(valid_to) end as until
    from numbered
    group by id, stay, tier

)

select id, tier, versions, since, until, coalesce(until, timestamp'2026-11-21 01:42:06.300') - since as lasted
from stays
order by id, stay
