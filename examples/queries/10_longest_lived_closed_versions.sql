-- Which five states lasted longest before they ended, of those whose beginning is known?
select id, name, tier, valid_from, valid_to - valid_from as lasted, closed_by
from inv__public__customers_history
where is_start_known and valid_to is not null
order by valid_to - valid_from desc, position
limit 5
