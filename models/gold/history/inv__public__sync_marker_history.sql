{{ history('inv__public__sync_marker_changes') }}

