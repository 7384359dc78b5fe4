-- Which customers were given another key, once or twice, and who were they in the end?
-- Each link stands on both sides, as `next_key` and `previous_key`. A third move would be one more join. A link can
-- name a key without a version: customers 8 and 9 swapped keys in one transaction by way of -1 (R14).
with

moves as (

    select
        previous_key as key_before,
        concat('{"id":', cast(id as string), '}') as key_after,
        valid_from as moved_at,
        name,
        position
    from inv__public__customers_history
    where opened_by = 'key_change'

)

select
    first_move.key_before as first_key,
    first_move.moved_at,
    first_move.key_after as second_key,
    second_move.moved_at as moved_again_at,
    second_move.key_after as third_key,
    coalesce(second_move.name, first_move.name) as name
from moves as first_move
left join moves as second_move
    on first_move.key_after = second_move.key_before
    and first_move.position < second_move.position
where not exists (
    select 1 from moves as earlier
    where earlier.key_after = first_move.key_before and earlier.position < first_move.position
)
order by first_move.position
