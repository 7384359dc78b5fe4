{{
    changes_between(
        ref('inv__public__customers_history'),
        key=['id'],
        columns=['name', 'email', 'tier', 'balance', 'updated_at'],
        since='timestamp' ~ text_literal(var('changes_since')),
        until='timestamp' ~ text_literal(var('changes_until')),
    )
}}
