{{
    changes(
        'inv',
        'public__scratch',
        key=['id'],
        columns={
            'id': 'int',
            'v': 'string',
        },
    )
}}
