{{ transactions('inv', changes=[
    'inv__public__customers_changes',
    'inv__public__notes_changes',
    'inv__public__order_lines_changes',
    'inv__public__scratch2_changes',
]) }}
