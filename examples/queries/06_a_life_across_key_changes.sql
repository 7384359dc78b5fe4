-- Which customers were given another key, once or twice, and who were they in the end?
-- Rows can have one key after the other, so stays at keys are joined, not keys: a move ends a stay and begins another,
-- as `next_key` and `previous_key` say, or the transaction where another row came to the old key in it. A third move
-- would be one more join. A link can name a key without a version: customers 8 and 9 swapped keys in one transaction
-- by way of -1 (R14).
with

steps as (

    select
        *,
        row_number() over in_key as number,
        case
            when opened_by not in ('insert', 'key_change')
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
        end as begins,
        case
            when closed_by = 'update' and lead(opened_by) over in_key in ('insert', 'key_change')
                then lead(transaction_id) over in_key
        end as taken_in
    from inv__public__customers_history as version
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
        concat('{"id":', cast(id as string), '}') as stay_key,
        stay,
        min(position) as begun,
        max(case when begins = 1 then version_id end) as begun_as,
        max(case when begins = 1 then previous_key end) as came_from,
        max(case when begins = 1 then transaction_id end) as came_in,
        max(case when begins = 1 then valid_from end) as came_at,
        max(case when begins = 1 then name end) as name,
        max(next_key) as went_to,
        max(taken_in) as taken_in
    from numbered
    group by id, stay

),

-- What fits several is the move of the nearest two: the other half of one can be missing.
moves as (

    select *
    from (
        select
            earlier.begun_as as left_stay,
            earlier.came_from as came_from_before,
            later.begun_as,
            later.came_at,
            later.stay_key,
            later.name,
            row_number() over (partition by earlier.begun_as order by later.begun) as number_behind,
            row_number() over (partition by later.begun_as order by earlier.begun desc) as number_before
        from stays as earlier
        inner join stays as later
            on earlier.stay_key = later.came_from
            and (earlier.went_to = later.stay_key or earlier.taken_in = later.came_in)
            and earlier.begun < later.begun
            and coalesce(earlier.came_in != later.came_in, true)
    ) as fitting
    where number_behind = 1 and number_before = 1

)

select
    first_stay.came_from as first_key,
    first_stay.came_at as moved_at,
    first_stay.stay_key as second_key,
    second_move.came_at as moved_again_at,
    second_move.stay_key as third_key,
    coalesce(second_move.name, first_stay.name) as name
from stays as first_stay
left join moves as first_move on first_stay.begun_as = first_move.begun_as
left join moves as second_move on first_stay.begun_as = second_move.left_stay
where first_stay.came_from is not null and first_move.came_from_before is null
order by first_stay.begun
