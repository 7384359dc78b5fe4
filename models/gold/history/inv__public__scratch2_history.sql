{{ history('inv__public__scratch2_changes') }}

