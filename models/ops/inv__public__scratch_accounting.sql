{{ accounting('inv__public__scratch_history') }}

