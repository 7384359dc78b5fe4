{{ history('inv__public__order_lines_changes') }}

