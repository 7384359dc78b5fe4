-- Which customers were gold or silver at 01:42:06.030, and since when?
-- An interval holds its begin and not its end, so each key has at most one row here.
select id, name, tier, balance, valid_from
from inv__public__customers_history
where valid_from <= timestamp'2026-11-21 01:42:06.030'
    and (valid_to is null or timestamp'2026-11-21 01:42:06.030' < valid_to)
    and tier in ('gold', 'silver')
order by id
