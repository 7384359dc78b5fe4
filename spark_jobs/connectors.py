"""What Python knows of connectors: settings of a source that its records can betray.

How a connector's events are read is in macros/connectors, a file for each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_CUT_TIMES = ("org.apache.kafka.connect.data.Timestamp", "org.apache.kafka.connect.data.Time")
# The encodings that PostgreSQL's placeholder doesn't fit, of values that can be large. It fits text[] and integer[]: of
# citext[], inet[] and oid[], which look alike, no schema tells.
VECTOR = r"io\.debezium\.data\.(Float|Double|Sparse|SparseDouble)Vector"
_LEFT_AS_NULL = (
    rf"{VECTOR}|io\.debezium\.data\.geometry\.Geo(metry|graphy)"
    r"|array:(?!(string|bytes|int32|int64|io\.debezium\.(data\.(Json|Uuid)|time\.Date))$).*"
)
# Those of LOBs and XML; records without a schema tell none.
_OF_LARGE = r"(string|bytes|io\.debezium\.data\.Xml)?"


@dataclass(frozen=True, slots=True)
class Connector:
    """A connector's settings.

    `tells_truncates` is whether it can tell of a truncate, which it skips by default. `before` is the setting
    without which updates come without the row before them, `set_before` its value, and `without_before` what that
    costs; None where every update has it. `set_values` is what makes it send unchanged large values, and
    `large_values` the setting without which it streams none, not even a changed one; None where there is no such. They
    are of columns whose encodings `of_large` matches. `null_in_stream` matches the encodings of columns of which it may
    stream NULL alone, though a snapshot has their values. Where rows are documents, an update tells what it changed
    alone, and a transaction is named where it is of several documents. `set_times` is the value of
    `time.precision.mode` that cuts no time, and `cut_times` are the semantic types of those that `connect` may have
    cut. `left_as_null` matches the encodings of columns whose large values it leaves out as NULL, where it has no row
    before an update; `leaves_bytes_as_null` is whether it does so where bytes come as text.
    """

    tells_truncates: bool = False
    before: str | None = None
    set_before: str = ""
    without_before: str = "Unchanged large values then come as placeholders"
    set_values: str = "a source that sends unchanged values"
    large_values: str | None = None
    of_large: str = "(?!)"
    null_in_stream: str = "(?!)"
    has_documents: bool = False
    set_times: str = "adaptive"
    cut_times: tuple[str, ...] = _CUT_TIMES
    left_as_null: str = "(?!)"
    leaves_bytes_as_null: bool = False

    def leaves_as_null(self, encoding: str | None, *, is_bytes: bool = False) -> bool:
        """Whether an update can have NULL for an unchanged value of a column that is encoded so, and of bytes (R7)."""
        is_text = is_bytes and self.leaves_bytes_as_null and encoding in ("string", None)
        return is_text or re.fullmatch(self.left_as_null, encoding or "") is not None

    def may_be_large(self, encoding: str | None) -> bool:
        """Whether a column that is encoded so can have large values that it doesn't stream."""
        return re.fullmatch(self.of_large, encoding or "") is not None

    def may_be_null_in_stream(self, encoding: str | None) -> bool:
        """Whether it may stream NULL alone of a column that is encoded so."""
        return re.fullmatch(self.null_in_stream, encoding or "") is not None


_MYSQL = Connector(True, "binlog_row_image", "binlog_row_image=FULL", set_times="adaptive_time_microseconds")
_UNKNOWN = Connector()
_CONNECTORS = {
    "postgresql": Connector(
        True,
        "REPLICA IDENTITY",
        "alter table … replica identity full",
        set_values="replica identity full",
        # The type `name`, which comes as text.
        null_in_stream="(string)?",
        left_as_null=_LEFT_AS_NULL,
        # In the base64 modes, and before 2.5.3 in that of hexadecimal digits.
        leaves_bytes_as_null=True,
    ),
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
    "oracle": Connector(
        True,
        "supplemental logging",
        "alter table … add supplemental log data (all) columns",
        set_values="the supplemental log of all columns, and lob.enabled=true",
        large_values="lob.enabled",
        of_large=_OF_LARGE,
        # Virtual columns, which are in no redo log.
        null_in_stream=".*",
        # Its DATE has a time of day.
        cut_times=(*_CUT_TIMES, "org.apache.kafka.connect.data.Date"),
    ),
    # Computed columns.
    "sqlserver": Connector(null_in_stream=".*"),
    # On z/OS alone: elsewhere the connector reads no other updates than those that are captured as two rows.
    "db2": Connector(
        before="CHG_UPD_TO_DEL_INS",
        set_before="CHG_UPD_TO_DEL_INS = 'Y' of the table in IBMSNAP_REGISTER",
        without_before="A changed key then comes as an update of the new key, whose old row stays open (R14)",
        # LOBs before Debezium 3.7.
        null_in_stream=_OF_LARGE,
    ),
    "mongodb": Connector(set_values="a capture.mode with pre-images", has_documents=True),
}


def connector_named(name: str) -> Connector:
    """The connector that an event's source block names; one without such settings where that is another."""
    return _CONNECTORS.get(name, _UNKNOWN)
