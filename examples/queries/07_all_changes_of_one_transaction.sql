-- What did transaction 762 do, in every table? Its changes as they came, in the order of the database's log.
select 'customers' as changed_table, op, cast(key.id as string) as changed_key, changed_at, position
from inv__public__customers_changes
where transaction_id = '762'
union all
select
    'order_lines' as changed_table,
    op,
    concat(cast(key.order_id as string), '/', cast(key.line_no as varchar(20))) as changed_key,
    changed_at,
    position
from inv__public__order_lines_changes
where transaction_id = '762'
order by position
