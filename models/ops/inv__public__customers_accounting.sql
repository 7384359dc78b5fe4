{{ accounting('inv__public__customers_history') }}

