{{
    changes(
        'inv',
        'public__customers',
        key=['id'],
        columns={
            'id': 'int',
            'name': 'string',
            'email': 'string',
            'tier': 'string',
            'balance': 'decimal(12,2)',
            'updated_at': 'timestamp',
        },
    )
}}
