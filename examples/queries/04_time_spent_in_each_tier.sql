-- Which tiers were customers 1, 5 and 101 in, one after the other, and how long, up to 01:42:06.300?
-- Versions that follow each other in one tier are one stay; a delete ends it, and time without a row is no stay. So
-- does a row that comes from another key or is another since its transaction (R11), and a snapshot that lacked the row;
-- one that read another state opened that at once (R16).
with

steps as (

    select
        *,
        row_number() over in_key as number,
        case
            when tier is not distinct from lag(tier) over in_key
                and opened_by not in ('insert', 'key_change')
                and (
                    lag(closed_by) over in_key = 'update'
                    or (
                        lag(closed_by) over in_key = 'snapshot'
                        and opened_by = 'snapshot'
                        and lag(valid_to) over in_key = valid_from
                    )
                )
                then 0
            else 1
        end as begins
    from inv__public__customers_history as version
    where id in (1, 5, 101)
    window in_key as (
        partition by id order by position, version.partition, version.offset, opened_by != 'before'
    )

),

numbered as (

    select *, sum(begins) over (partition by id order by number) as stay
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
