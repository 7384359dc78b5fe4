{{
    changes(
        'inv',
        'public__scratch2',
        key=['id'],
        columns={
            'id': 'int',
            'v': 'string',
        },
    )
}}
