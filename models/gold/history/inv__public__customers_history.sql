{{ history('inv__public__customers_changes') }}

