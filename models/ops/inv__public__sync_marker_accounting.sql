{{ accounting('inv__public__sync_marker_history') }}

