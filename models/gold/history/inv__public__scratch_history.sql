{{ history('inv__public__scratch_changes') }}

