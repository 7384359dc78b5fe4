{{
    changes_between(
        ref('inv__public__customers_history'),
        key=['id'],
        columns=['name', 'email', 'tier', 'balance', 'updated_at'],
        since="timestamp'" ~ var('changes_since') ~ "'",
        until="timestamp'" ~ var('changes_until') ~ "'",
    )
}}
