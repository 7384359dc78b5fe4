"""What the report says of a source's settings, as its records betray them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql import Row

from spark_jobs.connectors import connector_named
from spark_jobs.declarations import CapturedTable
from spark_jobs.landing.shapes import INT_UNSIGNED, UNSIGNED
from spark_jobs.reporting import settings
from spark_jobs.reporting.bronze_contents import Content
from spark_jobs.reporting.described import Fields, _fields
from spark_jobs.reporting.measures import Asked, Measures
from spark_jobs.reporting.settings import SettingFinding
from spark_jobs.reporting.signs import Sign
from spark_jobs.unsigned import Unsigned
from tests.evidence import captured


def findings(
    tables: Sequence[CapturedTable], contents: Sequence[Content], measured: Mapping[str, Measures], **own: Any
) -> list[SettingFinding]:
    """What is found where nothing else is known than a test says."""
    usual: dict[str, Any] = {"described": {}, "gaps": {}, "signs": {}, "changed": {}, "compacted": {}}
    return settings.findings(tables, contents, measured, **usual | own)


def test_each_harmful_setting_is_named_with_what_to_set() -> None:
    table = captured()
    found = [Content("src__t", "src.t", "change", "postgresql", "src", 10, 0)]
    measured = {"src__t": Measures(10, streamed=8, updates=4, updates_without_before=4, is_before_missing=True,
                                   unavailable=1, nulls={"v": 0}, left_as_null={"v": 2}, read_alone=("v",),
                                   undeclared=("w",))}  # fmt: skip
    unresolved = {"src__t": {"unresolved_columns": Sign("src__t", "unresolved_columns", "", 1, ())}}
    found_settings = findings(
        [table],
        found,
        measured,
        described={"src__t": Fields(Asked(("v",)), ("id",), (), ("v",))},
        gaps={"src__t": 2},
        signs=unresolved,
    )
    assert {one.setting: one.severity for one in found_settings} == {
        "provide.transaction.metadata": "warning",
        "skipped.operations": "info",
        "REPLICA IDENTITY": "warning",
        "replace.null.with.default": "warning",
        "unavailable.value.placeholder": "warning",
        "null_is_unchanged (model)": "warning",
        "time.precision.mode": "warning",
        "binary.handling.mode": "info",
        "cleanup.policy (topic)": "warning",
        "column.exclude.list": "info",
        "columns (model)": "info",
    }
    assert all(one.set_instead and one.shows for one in found_settings)


@pytest.mark.parametrize(
    ("encoding", "is_left"),
    [
        ("io.debezium.data.DoubleVector", True),
        ("io.debezium.data.SparseDoubleVector", True),
        ("io.debezium.data.geometry.Geography", True),
        ("io.debezium.data.geometry.Point", False),
        ("array:org.apache.kafka.connect.data.Decimal:2", True),
        ("array:io.debezium.data.Enum", True),
        ("array:int16", True),
        ("array:int32", False),
        ("array:io.debezium.time.Date", False),
        ("array:bytes", False),
        ("string", False),
        (None, False),
    ],
)
def test_an_encoding_tells_whether_its_large_values_are_left_out_as_null(encoding: str | None, is_left: bool) -> None:
    assert connector_named("postgresql").leaves_as_null(encoding) is is_left
    assert not connector_named("mysql").leaves_as_null(encoding)


def test_bytes_that_come_as_text_are_left_out_as_null() -> None:
    postgresql = connector_named("postgresql")
    told = [postgresql.leaves_as_null(encoding, is_bytes=True) for encoding in ("string", None, "bytes")]
    assert told == [True, True, False]
    assert not connector_named("mysql").leaves_as_null("string", is_bytes=True)


def test_declarations_that_statements_or_records_contradict_are_named() -> None:
    disputed = Fields(unsigned=("v",), signed=("w",), own_key=("a", "b"))
    found = findings([captured()], [], {"src__t": Measures(10)}, described={"src__t": disputed})

    assert [(one.setting, one.severity) for one in found] == [
        ("encoding (model)", "warning"), ("encoding (model)", "warning"), ("key (model)", "info"),
    ]  # fmt: skip
    for one, words in zip(
        found,
        ("""no declaration says so: "v".""", """makes signed: "w".""", """have a key, "a", "b", and"""),
        strict=True,
    ):
        assert words in one.shows
    assert found[2].set_instead.startswith("""key=["a", "b"] in src__t_changes, and then tidemark scaffold""")


def test_a_compacted_topic_is_named_before_it_has_gaps() -> None:
    found = [Content("src__t", "src.t", "change", "postgresql", "src", 10, 0)]
    policies = {"src.t": "compact,delete", "src.other": "compact"}
    one = {"src__t": Measures(10)}
    [finding] = [
        finding
        for finding in findings([captured()], found, one, compacted=policies)
        if finding.setting == "cleanup.policy (topic)"
    ]
    assert finding.severity == "warning"
    assert finding.shows.startswith('The broker says compact,delete of "src.t": it removes every record but the newest')
    assert "gaps" not in finding.shows


@pytest.mark.parametrize(
    ("connector", "named"),
    [
        ("postgresql", {"skipped.operations", "REPLICA IDENTITY"}),
        ("mariadb", {"skipped.operations", "binlog_row_image"}),
        ("oracle", {"skipped.operations", "supplemental logging"}),
        ("sqlserver", set()),
        ("db2", {"CHG_UPD_TO_DEL_INS"}),
        ("quux", set()),
    ],
)
def test_settings_are_those_of_the_connector(connector: str, named: set[str]) -> None:
    found = [Content("src__t", "src.t", "change", connector, "src", 10, 0)]
    measured = {"src__t": Measures(10, updates=4, updates_without_before=4, is_before_missing=True)}
    assert {one.setting for one in findings([captured()], found, measured)} == named


def test_a_setting_that_was_mended_is_told_no_more() -> None:
    found = [Content("src__t", "src.t", "truncate", "mysql", "src", 10, 0)]
    measured = {"src__t": Measures(10, updates=5, updates_without_before=4)}
    assert findings([captured()], found, measured) == []


def test_rows_that_a_transform_flattened_blame_no_setting_of_the_source() -> None:
    found = [Content("src__t", "src.t", "truncate", "mysql", "src", 10, 0)]
    measured = {"src__t": Measures(10, updates=4, updates_without_before=4, is_before_missing=True)}
    [finding] = findings([captured()], found, measured, described={"src__t": Fields(is_flattened=True)})
    assert (finding.setting, finding.severity) == ("transforms", "info")
    assert "ExtractNewRecordState" in finding.shows


@pytest.mark.parametrize(("unresolved", "named"), [(0, []), (3, ["capture.mode"])])
def test_documents_are_told_what_helps_them(unresolved: int, named: list[str]) -> None:
    found = [Content("src__t", "src.t", "change", "mongodb", "src", 10, 0)]
    measured = {"src__t": Measures(10, streamed=8, updates=4, without_transaction=8, unavailable=4)}
    met = {"unresolved_columns": Sign("src__t", "unresolved_columns", "", unresolved, ())} if unresolved else {}
    assert [one.setting for one in findings([captured()], found, measured, signs={"src__t": met})] == named


def test_a_source_that_streams_no_large_value_is_told_though_every_version_is_filled() -> None:
    found = [Content("src__t", "src.t", "truncate", "oracle", "src", 10, 0)]

    def told(**marks: Any) -> list[tuple[str, str]]:
        measured = {"src__t": Measures(10, unavailable=4, **marks)}
        return [(one.setting, one.severity) for one in findings([captured()], found, measured)]

    assert told(never_streamed=("v",)) == [("lob.enabled", "warning")]
    assert told(inserted_as_null={"v": 2}) == [("lob.enabled", "warning")]
    assert told() == [("unavailable.value.placeholder", "info")]


def test_columns_that_only_reads_have_values_of_are_told_beside_those_that_one_side_lacks() -> None:
    measured = {"src__t": Measures(10, null_in_stream=("v",), empty_arrays=("w",))}
    [finding] = findings([captured()], [], measured)
    assert finding.setting == "column.exclude.list"
    assert finding.shows.startswith('Columns with values in the snapshot, and NULL in every streamed change: "v".')
    assert 'Arrays that hold nothing but NULLs wherever they hold anything: "w".' in finding.shows


@pytest.mark.parametrize(
    ("connector", "null_in_stream", "large"),
    [
        ("postgresql", ("text", "bare"), ()),
        ("mysql", (), ()),
        ("oracle", ("text", "bytes", "number", "bare"), ("text", "bytes", "bare", "needed")),
        ("sqlserver", ("text", "bytes", "number", "bare"), ()),
        ("db2", ("text", "bytes", "bare"), ()),
        ("mongodb", (), ()),
    ],
)
def test_columns_are_asked_of_that_a_connector_may_stream_no_value_of(
    connector: str, null_in_stream: tuple[str, ...], large: tuple[str, ...]
) -> None:
    encodings = {"text": "string", "bytes": "bytes", "number": "int32", "bare": None, "needed": "string"}
    of_fields = [
        Row(name=name, encoding=one, is_optional=name != "needed", default_value=None)
        for name, one in encodings.items()
    ]
    columns = tuple({"name": name, "type": "string", "field": name, "encoding": ""} for name in encodings)
    shape = Row(fields=of_fields, connector=connector, key_fields=None, shape="{}")
    told = {"text", "number"}
    asked = _fields(captured(columns=columns), [shape], {}, {}, large=told, is_flattened=False).asked

    assert (asked.null_in_stream, asked.may_be_large) == (null_in_stream, large)
    assert asked.large == (("text",) if large else ())


def test_what_no_schema_describes_may_hide_null() -> None:
    measured = {"src__t": Measures(10, nulls={"v": 0})}
    [finding] = findings([captured()], [], measured, described={"src__t": Fields(Asked(("v",)), is_described=False)})
    assert (finding.setting, finding.severity) == ("replace.null.with.default", "info")
    assert 'that no schema describes never held NULL in 10 changes: "v"' in finding.shows


def test_rows_that_a_transform_flattened_need_its_own_option_for_null() -> None:
    measured = {"src__t": Measures(10, nulls={"v": 0})}
    [finding] = findings([captured()], [], measured, described={"src__t": Fields(Asked(("v",)), is_flattened=True)})
    assert "transforms.unwrap.replace.null.with.default=false" in finding.set_instead
    [finding] = findings([captured()], [], measured, described={"src__t": Fields(Asked(("v",)))})
    assert "transforms" not in finding.set_instead
    assert "router" not in finding.set_instead


def test_each_converter_has_its_own_option_for_null_and_old_routers_have_none() -> None:
    measured = {"src__t": Measures(10, nulls={"v": 0})}
    [finding] = findings([captured()], [], measured, described={"src__t": Fields(Asked(("v",)), is_rerouted=True)})
    for option in ("value.converter.json.replace.null.with.default=false", "ignore.default.for.nullables=true"):
        assert option in finding.set_instead
    assert finding.set_instead.endswith("nothing keeps NULL behind a router before Debezium 3.6")


@pytest.mark.parametrize(
    ("connector", "mode"),
    [("postgresql", "adaptive"), ("mysql", "adaptive_time_microseconds"), ("sqlserver", "adaptive")],
)
def test_the_mode_that_cuts_no_time_is_one_of_the_connector_s(connector: str, mode: str) -> None:
    found = [Content("src__t", "src.t", "change", connector, "src", 10, 0)]
    [finding] = [
        one
        for one in findings(
            [captured()], found, {"src__t": Measures(10)}, described={"src__t": Fields(connect_times=("v",))}
        )
        if one.setting == "time.precision.mode"
    ]
    assert finding.set_instead == f"time.precision.mode={mode}"


@pytest.mark.parametrize(("connector", "cut"), [("oracle", ("v",)), ("mysql", ())])
def test_a_date_in_days_has_lost_its_time_where_the_source_has_one(connector: str, cut: tuple[str, ...]) -> None:
    days = Row(name="v", encoding="org.apache.kafka.connect.data.Date", is_optional=True, default_value=None)
    keys = json.dumps(["id", "__dbz__sourceIdentifier"])
    shape = Row(fields=[days], connector=connector, key_fields=keys, shape="{}")
    columns = ({"name": "v", "type": "date", "field": "v", "encoding": ""},)
    described = _fields(captured(columns=columns), [shape], {}, {}, is_flattened=False)

    assert described.connect_times == cut
    assert described.is_rerouted


def test_what_came_in_an_earlier_mode_is_asked_of_too() -> None:
    """The mode can have been mended since: what a record of then means is for a declaration to tell."""

    def shape(**encodings: str) -> Row:
        of_fields = [
            Row(name=name, encoding=one, is_optional=True, default_value=None) for name, one in encodings.items()
        ]
        return Row(fields=of_fields, connector="postgresql", key_fields=None, shape="{}")

    columns = tuple(
        {"name": name, "type": kind, "field": name, "encoding": encoding}
        for name, kind, encoding in (
            ("n", "decimal(20,0)", ""), ("m", "bigint", ""), ("b", "binary", ""), ("h", "binary", "hex"),
            ("s", "string", ""),
        )
    )  # fmt: skip
    shapes = [
        shape(n="int64", m="int32", b="string", h="string", s="string"),
        shape(n="org.apache.kafka.connect.data.Decimal:0", m="int64", b="bytes", h="bytes", s="string"),
    ]
    unsigned = {"n": Unsigned(UNSIGNED, True, True), "m": Unsigned(INT_UNSIGNED, True, True)}

    described = _fields(captured(columns=columns), shapes, {}, unsigned, is_flattened=False)
    assert (described.unsigned, described.binary_texts, described.asked.left_as_null) == (("n", "m"), ("b",), ())
    described = _fields(captured(columns=columns), shapes[:1], {}, {}, of_bytes={"s"}, is_flattened=False)
    assert described.asked.left_as_null == ("b", "s"), "of hexadecimal digits there is a placeholder"


DECIMAL = "org.apache.kafka.connect.data.Decimal"


def columns_v(kind: str) -> tuple[dict[str, str], ...]:
    return ({"name": "v", "type": kind, "field": "v", "encoding": ""},)


def shapes_of_v(encodings: Sequence[str | None], types: Mapping[str, str] | None = None) -> list[Row]:
    """Shapes of a table that differ in how its column comes."""
    return [
        Row(
            fields=[Row(name="v", encoding=one, spark_type=(types or {}).get(one or "", "string"), is_optional=True,
                        default_value=None)],
            connector="postgresql", key_fields=None, shape="{}" if one else "[]",
        )
        for one in encodings
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "encodings", "wanted"),
    [
        ("decimal(10,2)", [f"{DECIMAL}:2", None], f"{DECIMAL}:2"),
        ("decimal(38,18)", [None, f"{DECIMAL}:30:wide"], f"{DECIMAL}:30"),
        ("string", [f"{DECIMAL}:2", None], f"{DECIMAL}:2"),
        ("array<decimal(10,2)>", [f"array:{DECIMAL}:2", None], f"{DECIMAL}:2"),
        ("timestamp_ntz", ["io.debezium.time.MicroTimestamp", None], "io.debezium.time.MicroTimestamp"),
        ("timestamp_ntz", ["io.debezium.time.Date", None], "io.debezium.time.Date"),
        ("bigint", ["io.debezium.time.Interval", None], "io.debezium.time.Interval"),
        # What the value itself tells, or what is read by what schemas tell of it.
        ("date", ["io.debezium.time.Date", None], ""),
        ("string", ["io.debezium.time.MicroTime", None], ""),
        ("string", ["io.debezium.time.Interval", None], ""),
        ("decimal(38,18)", ["io.debezium.data.VariableScaleDecimal", None], ""),
        ("int", ["int32", None], ""),
        # Nothing tells which of two it is; and where every record has a schema, or none, nothing is asked.
        ("decimal(12,4)", [f"{DECIMAL}:2", f"{DECIMAL}:4", None], ""),
        ("decimal(10,2)", [f"{DECIMAL}:2", "double", None], ""),
        ("decimal(10,2)", [f"{DECIMAL}:2"], ""),
        ("decimal(10,2)", [None], ""),
        ("decimal(10,2)", [f"{DECIMAL}:unknown", None], ""),
    ],
)
def test_what_schemas_told_is_to_be_declared_for_records_without_one(
    kind: str, encodings: list[str | None], wanted: str
) -> None:
    described = _fields(captured(columns=columns_v(kind)), shapes_of_v(encodings), {}, {}, is_flattened=False)
    assert described.untold == ((("v", kind, wanted),) if wanted else ())

    found = [one for one in findings([captured()], [], {"src__t": Measures(1)}, described={"src__t": described})
             if one.setting == "encoding (model)"]  # fmt: skip
    assert [(one.set_instead, one.severity) for one in found] == (
        [(f"'v': {{'type': '{kind}', 'encoding': '{wanted}'}} in src__t_changes", "warning")] if wanted else []
    )


@pytest.mark.parametrize(
    ("encodings", "wanted"),
    [
        ({"bytes": "binary", "string": "string"}, "binary"),
        ({"io.debezium.time.Interval": "string", "io.debezium.time.MicroDuration": "bigint"}, "bigint"),
        ({"string": "string", "double": "double"}, "decimal(38,18)"),
        ({f"{DECIMAL}:2": "decimal(10,2)", "double": "double"}, "decimal(10,2)"),
        ({f"{DECIMAL}:2": "decimal(10,2)", f"{DECIMAL}:4": "decimal(12,4)"}, "decimal(12,4)"),
        # Spelled alike, or nothing but text holds both.
        ({f"{DECIMAL}:2": "decimal(10,2)", "string": "string"}, ""),
        ({"int32": "int", "int64": "bigint"}, ""),
        ({"io.debezium.time.NanoTimestamp": "timestamp_ntz", "io.debezium.time.MicroTimestamp": "timestamp_ntz"}, ""),
        ({"io.debezium.time.Time": "string", "io.debezium.time.IsoTime": "string"}, ""),
        ({"string": "string", "int32": "int"}, ""),
        ({"string": "string", "io.debezium.data.Uuid": "string"}, ""),
    ],
)
def test_a_column_of_text_that_came_in_several_spellings_names_the_type_that_reads_all(
    encodings: dict[str, str], wanted: str
) -> None:
    shapes = shapes_of_v(list(encodings), encodings)
    described = _fields(captured(columns=columns_v("string")), shapes, {}, {}, is_flattened=False)
    assert described.spelled == ((("v", wanted),) if wanted else ())

    def told(key: str) -> list[tuple[str, str]]:
        found = findings([captured(key=(key,))], [], {"src__t": Measures(1)}, described={"src__t": described})
        return [(one.set_instead.partition(" in ")[0], one.severity) for one in found if one.setting == "type (model)"]

    said = f"'v': '{wanted}'"
    assert [told("v"), told("id")] == ([[(said, "warning")], [(said, "info")]] if wanted else [[], []])


def test_a_healthy_source_is_told_nothing() -> None:
    found = [
        Content("src__t", "src.t", "change", "postgresql", "src", 10, 0),
        Content("src__t", "src.t", "truncate", "postgresql", "src", 1, 0),
        Content("topic__x", "src.transaction", "transaction", "", "", 4, 0),
    ]
    measured = {"src__t": Measures(10, streamed=8, updates=4, nulls={"v": 3})}
    assert findings([captured()], found, measured, described={"src__t": Fields(Asked(("v",)))}) == []
