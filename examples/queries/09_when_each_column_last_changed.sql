-- Since when has each living customer, among the first six, had this tier and this balance?
-- The beginning of a row's stay counts for every column, and one that comes from another key is another row; where a
-- snapshot read it (R16), read "at the latest since".
with

steps as (

    select
        id,
        is_current,
        valid_from,
        tier,
        balance,
        coalesce(
            opened_by not in ('insert', 'key_change')
            and (
                lag(closed_by) over in_key = 'update'
                or (
                    lag(closed_by) over in_key = 'snapshot'
                    and opened_by = 'snapshot'
                    and lag(valid_to) over in_key = valid_from
                )
            ),
            false
        ) as goes_on,
        lag(tier) over in_key as tier_before,
        lag(balance) over in_key as balance_before
    from inv__public__customers_history as version
    where id <= 6
    window in_key as (
        partition by id order by position, version.partition, version.offset, opened_by != 'before'
    )

)

select
    id,
    max(case when is_current then tier end) as tier,
    max(case when not goes_on or tier is distinct from tier_before then valid_from end) as tier_since,
    max(case when is_current then balance end) as balance,
    max(case when not goes_on or balance is distinct from balance_before then valid_from end) as balance_since
from steps
group by id
having count(case when is_current then 1 end) = 1
order by id
