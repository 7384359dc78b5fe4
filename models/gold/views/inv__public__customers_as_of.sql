-- What ended a version, and when, lies after the instant: nobody knew it then.
select * except (valid_to, is_current, closed_by, next_key)
from {{ as_of(ref('inv__public__customers_history'), 'timestamp' ~ text_literal(var('as_of'))) }} as then
