"""The tables of channels, as scaffolding describes them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ChannelTable:
    """What a table is, and its columns."""

    # In it stands `{prefix}` for the topic prefix.
    description: str
    # Name → type, and the name of its description where that is another.
    columns: dict[str, tuple[str, ...]]
    # Column → dbt's tests of it.
    tests: dict[str, str]
    # Column → all that it can hold.
    values: dict[str, tuple[str, ...]] = field(default_factory=dict)


_PLACE = {"topic": ("string",), "partition": ("int",), "offset": ("bigint",), "source_label": ("string",)}
_LANDING = {"batch_id": ("bigint",), "landed_at": ("timestamp",)}

TABLES = {
    "messages": ChannelTable(
        "The logical decoding messages of {prefix}, each once (R17).",
        {
            "message_id": ("string",),
            "prefix": ("string", "message_prefix"),
            "content": ("binary", "message_content"),
            "exact_values": ("map<string,string>",),
            "is_transactional": ("boolean",),
            "transaction_id": ("string", "message_transaction"),
            "position": ("string", "message_position"),
            "db": ("string",),
            "sent_at": ("timestamp",),
            "processed_at": ("timestamp",),
            **_PLACE,
            **_LANDING,
        },
        {"message_id": "[unique, not_null]"},
    ),
    "schema_versions": ChannelTable(
        "The tables of {prefix} as statements created, altered and dropped them, from the\n"
        "schema-change events (R8, R17).",
        {
            "schema_version_id": ("string",),
            "db": ("string",),
            "schema": ("string", "db_schema"),
            "table": ("string", "db_table"),
            "previous_table": ("string",),
            "kind": ("string", "schema_change_kind"),
            "position": ("string", "schema_position"),
            "changed_at": ("timestamp", "schema_changed_at"),
            "is_snapshot": ("boolean", "is_snapshot_schema"),
            "ddl": ("string",),
            "key": ("array<string>", "schema_key"),
            "columns": (
                "array<struct<name:string,type:string,jdbc_type:int,length:int,scale:int,charset:string,"
                "is_optional:boolean,is_auto_incremented:boolean,is_generated:boolean,default_value:string,"
                "enum_values:array<string>,comment:string>>",
                "schema_columns",
            ),
            "changes": ("array<struct<name:string,type_before:string,type:string>>", "schema_changes"),
            "is_key_changed": ("boolean",),
            **_PLACE,
            **_LANDING,
        },
        {"schema_version_id": "[unique, not_null]"},
    ),
    "snapshots": ChannelTable(
        "The snapshots of {prefix}, by table where it is told, from notifications and signals (R16, R17).",
        {
            "snapshot_id": ("string",),
            "kind": ("string", "snapshot_kind"),
            "signal_id": ("string",),
            "collection": ("string", "snapshot_collection"),
            "state": ("string", "snapshot_state"),
            "is_filtered": ("boolean",),
            "asked_at": ("timestamp",),
            "started_at": ("timestamp", "snapshot_started_at"),
            "chunks": ("int",),
            "scanned_at": ("timestamp",),
            "scan_status": ("string",),
            "rows_scanned": ("bigint",),
            "paused_at": ("timestamp",),
            "resumed_at": ("timestamp",),
            "completed_at": ("timestamp",),
            "aborted_at": ("timestamp",),
            "skipped_at": ("timestamp",),
            "batch_id": ("bigint", "snapshot_batch"),
            "landed_at": ("timestamp", "snapshot_landed_at"),
        },
        {"snapshot_id": "[not_null]"},
        {"state": ("asked", "started", "in_progress", "scanned", "paused", "completed", "aborted", "skipped")},
    ),
}
