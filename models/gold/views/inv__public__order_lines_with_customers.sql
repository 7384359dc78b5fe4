-- The shop's order lines name no customer: to show the join, order n stands for an order of customer n.
{{
    point_in_time_join(
        ref('inv__public__order_lines_history'),
        ref('inv__public__customers_history'),
        on='left_version.order_id = right_version.id',
        left_columns=[
            'order_id', 'line_no', 'sku', 'qty', 'valid_from', 'valid_to', 'is_current', 'opened_by', 'version_id'
        ],
        right_columns=['id', 'name', 'tier', 'balance', 'valid_from', 'version_id'],
        right_prefix='customer_',
    )
}}
