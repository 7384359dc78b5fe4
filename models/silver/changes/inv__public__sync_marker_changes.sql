{{
    changes(
        'inv',
        'public__sync_marker',
        key=['id'],
        columns={
            'id': 'int',
            'token': 'string',
        },
    )
}}
