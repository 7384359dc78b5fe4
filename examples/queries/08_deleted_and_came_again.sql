-- Which keys had no row for a time and then one again, the same or another, how did the one go, and what came?
-- The gap may be empty in the source's clock: `closed_by` says that there was one (R13). A snapshot left none where it
-- read another state, which it opened at once; elsewhere it lacked the row (R16).
select id, went_by, went_at, came_again_at, name_then, name_after
from (
    select
        id,
        closed_by as went_by,
        valid_to as went_at,
        name as name_then,
        row_number() over in_key as number,
        lead(opened_by) over in_key as opened_by_after,
        lead(valid_from) over in_key as came_again_at,
        lead(name) over in_key as name_after
    from inv__public__customers_history as version
    window in_key as (
        partition by id order by position, version.partition, version.offset, opened_by != 'before'
    )
) as versions
where came_again_at is not null
    and went_by != 'update'
    and not (went_by = 'snapshot' and opened_by_after = 'snapshot' and went_at = came_again_at)
order by id, number
