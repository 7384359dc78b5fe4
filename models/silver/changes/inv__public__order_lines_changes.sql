{{
    changes(
        'inv',
        'public__order_lines',
        key=['order_id', 'line_no'],
        columns={
            'order_id': 'int',
            'line_no': 'int',
            'sku': 'string',
            'qty': 'int',
        },
    )
}}
