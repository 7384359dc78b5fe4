-- How many customers lived at each full tenth of a second?
-- Days, in a history longer than the demo's: put the days that you ask for in `moments`.
with

moments as (

    select timestamp'2026-11-21 01:42:06.000' as moment
    union all select timestamp'2026-11-21 01:42:06.100'
    union all select timestamp'2026-11-21 01:42:06.200'
    union all select timestamp'2026-11-21 01:42:06.300'

)

select moment, count(version_id) as living
from moments
left join inv__public__customers_history
    on valid_from <= moment and (valid_to is null or moment < valid_to)
group by moment
order by moment
