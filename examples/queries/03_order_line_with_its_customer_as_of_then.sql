-- Who was the customer, and in which tier, when each version of an order line began, but for those that a snapshot read?
-- The shop's lines name no customer: to show the join, order n stands for an order of customer n.
select
    line.order_id,
    line.line_no,
    line.sku,
    line.qty,
    line.valid_from,
    customer.name as customer_name,
    customer.tier as customer_tier
from inv__public__order_lines_history as line
left join inv__public__customers_history as customer
    on line.order_id = customer.id
    and line.valid_from >= customer.valid_from
    and (customer.valid_to is null or line.valid_from < customer.valid_to)
where line.is_start_known
order by line.position, line.order_id, line.line_no
