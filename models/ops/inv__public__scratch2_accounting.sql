{{ accounting('inv__public__scratch2_history') }}

