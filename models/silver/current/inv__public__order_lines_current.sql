{{ current('inv__public__order_lines_history') }}

