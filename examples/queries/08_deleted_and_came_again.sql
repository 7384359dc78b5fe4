-- Which rows went and came again under the same key, how did they go, and what did they come back as?
-- The gap may be empty in the source's clock: `closed_by` says that there was one (R13).
select id, went_by, went_at, came_again_at, name_then, name_after
from (
    select
        id,
        closed_by as went_by,
        valid_to as went_at,
        name as name_then,
        position,
        lead(valid_from) over (partition by id order by position) as came_again_at,
        lead(name) over (partition by id order by position) as name_after
    from inv__public__customers_history
) as versions
where went_by in ('delete', 'truncate', 'key_change') and came_again_at is not null
order by id, position
