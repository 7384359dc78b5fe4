{{
    changes(
        'inv',
        'public__notes',
        columns={
            'note': 'string',
            'n': 'int',
        },
    )
}}
