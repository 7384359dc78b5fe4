"""The columns that tables have beside the source's own, with their types."""

from __future__ import annotations

# What gold adds to a source's columns. The names are those of the macro `own_columns`, as
# tests/project/test_shared_lists.py sees to.
OWN_COLUMNS = {
    "valid_from": "timestamp", "valid_to": "timestamp", "is_current": "boolean", "opened_by": "string",
    "closed_by": "string", "previous_key": "string", "next_key": "string", "is_start_known": "boolean",
    "unresolved_columns": "array<string>", "exact_values": "map<string,string>", "position": "string",
    "transaction_id": "string", "topic": "string", "partition": "int", "offset": "bigint", "version_id": "string",
}  # fmt: skip

# Those of them that a current state has; the names are those of the macro `current_columns`, as that test sees to.
CURRENT_COLUMNS = (
    "valid_from", "unresolved_columns", "exact_values", "position", "transaction_id", "topic", "partition", "offset",
    "version_id",
)  # fmt: skip

# What `outbox` gives every event beside the fields of its payload.
EVENT_COLUMNS = {
    "event_id": "string", "aggregate_type": "string", "aggregate_id": "string", "event_type": "string",
    "occurred_at": "timestamp", "payload": "string", "exact_values": "map<string,string>", "topic": "string",
    "partition": "int", "offset": "bigint", "source_label": "string", "batch_id": "bigint", "landed_at": "timestamp",
}  # fmt: skip
