"""The accounting of G6: what became of every record, table by table, and what a run changed of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs.bronze import ROW_KINDS
from spark_jobs.declarations import CapturedTable, Channel
from spark_jobs.delta import append_rows, is_table, progress, states, table_if_made
from spark_jobs.names import table_at
from spark_jobs.places import Places
from spark_jobs.quarantine import PROBLEMS
from spark_jobs.reporting.bronze_contents import EVENT_KINDS, Content, owners
from spark_jobs.reporting.measures import Measures
from spark_jobs.reporting.quarantine import Held
from spark_jobs.texts import quantity

_STORED = pa.schema([
    *((name, pa.string()) for name in ("run_id", "subject", "table", "disposition")), ("records", pa.int64()),
    ("recorded_at", pa.timestamp("us", "UTC")),
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class Account:
    """What became of the records of one subject, all records so far.

    `subject` is `table` (a captured table), `feed` (records of a table that has no models) or `topic` (records of no
    table); `model` is the channel's table in which a topic's events are. `changed` is what differs from the run
    before, by disposition, `landed` how many changes and truncates bronze has of it, `lost` how many fewer, at least,
    than in the run before: of a topic, that table's rows. `versions` says of how many changes its history has any,
    where its changes were counted, `found_versions` how many it has that a first change found (R19), and
    `found_states` how many such states its changes have told. `otherwise` has the columns of its history that another
    number of versions has a value in than its changes have told: how many these told, and how many are there.
    `has_rows` is whether any record shows a row of it. `is_moving` is whether an event's row can go to another topic.
    """

    subject: str
    name: str
    records: int
    dispositions: Mapping[str, int]
    changed: Mapping[str, int] = field(default_factory=dict)
    landed: int = 0
    lost: int = 0
    versions: int | None = None
    found_versions: int = 0
    found_states: int = 0
    otherwise: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    has_rows: bool = True
    model: str = ""
    is_moving: bool = False

    @property
    def difference(self) -> int:
        """Records that no disposition accounts for; below zero, records accounted for twice."""
        return self.records - sum(self.dispositions.values())

    @property
    def untold(self) -> dict[str, int]:
        """The difference as what is stored beside dispositions, so that their sum is that of the records."""
        return {"difference": self.difference} if self.difference else {}

    def fault(self, option: str) -> str | None:
        """What is wrong with the account, in words; None where it is right. `option` is that of `Evidence`."""
        if self.lost and self.subject == "topic":
            return (
                f"{self.name}: {self.model} had {self.lost} more of its events at the check before. Was it written by"
                f" others? `tidemark rebuild{option} {self.model}` makes it anew from bronze."
            )
        if self.lost:
            return (
                f"{self.name}: bronze had {self.lost} more records of it at the check before (R1). Was it restored, or"
                " written by others? Land again what it lacks before its tables are made anew: they still have what was"
                " built from that."
            )
        if self.dispositions.get("duplicates", 0) < 0:
            return (
                f"{self.name}: {self.model or 'its changes log'} holds {-self.dispositions['duplicates']} more"
                f" {'events' if self.model else 'changes'} than bronze has records of it. Was bronze replaced?"
                f" `tidemark build{option} --full-refresh` makes the tables anew from it."
            )
        if self.difference < 0:
            return (
                f"{self.name}: of {self.records} records {self.records - self.difference} are accounted for (G6): its"
                " changes log lacks some that a build has counted. Was it restored, or written by others?"
                f" `tidemark rebuild{option} {self.name}` makes it anew."
            )
        if self.difference:
            return (
                f"{self.name}: of {self.records} records {self.records - self.difference} are accounted for (G6)."
                f" `tidemark build{option}` finishes what a broken build left; if the difference stays, please report"
                " it."
            )
        if self.versions is not None:
            opened = self.dispositions["opened"]
            if opened != self.versions or self.found_states != self.found_versions:
                of_changes, of_history = (
                    f", {count} of them found (R19)" if count else ""
                    for count in (self.found_states, self.found_versions)
                )
                return (
                    f"{self.name}: {quantity(opened, 'change')} opened versions{of_changes}, and its history has those"
                    f" of {self.versions}{of_history}. Was it taken away, or written by others?"
                    f" `tidemark rebuild{option} {self.name}` makes it anew."
                )
            if self.otherwise:
                column, (told, there) = next(iter(self.otherwise.items()))
                return (
                    f"{self.name}: {quantity(told, 'version')} would have {column} by its changes, and its history has"
                    f" {there:,} such. Was it written by others? `tidemark rebuild{option} {self.name}` makes it anew."
                )
        return None

    @property
    def pending(self) -> int:
        """Records that no build has read yet."""
        return self.dispositions.get("pending", 0)

    @property
    def lacks_model(self) -> bool:
        """Whether its records are in no table, and scaffolding would write the models of one."""
        return self.has_rows and bool(self.subject == "feed" or self.dispositions.get("no_model"))


@dataclass(frozen=True, slots=True)
class EventTable:
    """A channel's table as it stands: topic → rows, and the last landing that it has read.

    `inexact` is how many of its rows have a value that its type can't hold (R6). `is_moving` is whether an event is
    told without its topic: delivered by another again, its row can move there (R3).
    """

    model: str
    rows: Mapping[str, int]
    through: int
    inexact: int = 0
    is_moving: bool = False


def built_through(
    spark: SparkSession, places: Places, tables: Sequence[CapturedTable], measured: Mapping[str, Measures]
) -> dict[str, int]:
    """Feed → the last landing that its changes table has read: as recorded, or as the table itself shows."""
    recorded = _read_through(spark, places)
    return {
        table.feed: max(recorded.get(table.changes.name, -1), measured[table.name].last_batch)
        for table in tables
        if measured[table.name].changes is not None
    }


def _read_through(spark: SparkSession, places: Places) -> dict[str, int]:
    """Model → the last landing that it has read, as recorded."""
    return {name: state["batch_id"] for name, state in states(spark, places).items()}


def event_tables(spark: SparkSession, places: Places, channels: Sequence[Channel]) -> dict[tuple[str, str], EventTable]:
    """What says in which table an event is (`Content.events`) → that table; of two of one topic the first."""
    recorded = _read_through(spark, places) if channels else {}
    found: dict[tuple[str, str], EventTable] = {}
    for one in channels:
        kind = {"messages": "message"}.get(one.kind, one.kind)
        if kind not in EVENT_KINDS:
            continue
        rows, through, inexact = {}, -1, 0
        if (events := table_if_made(spark, one.model.location)) is not None:
            is_inexact = F.size("exact_values") > 0 if "exact_values" in events.columns else F.lit(False)
            counts = [F.count("*").alias("rows"), F.max("batch_id").alias("last")]
            counted = events.groupBy("topic").agg(*counts, F.count_if(is_inexact).alias("inexact")).collect()
            rows = {row["topic"]: row["rows"] for row in counted}
            through = max([recorded.get(one.model.name, -1), *(row["last"] for row in counted)])
            inexact = sum(row["inexact"] for row in counted)
        for name in (one.prefix,) if kind == "message" else one.topics:
            found.setdefault((kind, name), EventTable(one.model.name, rows, through, inexact, kind == "message"))
    return found


def account(
    tables: Sequence[CapturedTable],
    contents: Sequence[Content],
    quarantined: Sequence[Held],
    measured: Mapping[str, Measures],
    counted: Mapping[str, Sequence[Row]],
    kept: Mapping[tuple[str, str], EventTable],
) -> list[Account]:
    """The accounts of all tables, then of feeds without models, then of topics of no table.

    `kept` are the tables of channels, as `event_tables` gives them.
    """
    feeds: dict[str, Counter[str]] = defaultdict(Counter, {table.feed: Counter() for table in tables})
    topics: dict[str, Counter[str]] = defaultdict(Counter)
    kept_in: dict[str, EventTable] = {}
    owner = owners(contents)
    for one in contents:
        if one.kind in ROW_KINDS:
            feeds[one.feed].update(row_records=one.records, pending=one.pending)
        elif one.topic in owner:
            feeds[owner[one.topic]]["tombstones" if one.kind == "tombstone" else "other_kinds"] += one.records
        elif one.events is None:
            topics[one.topic][one.kind or "unknown_kind"] += one.records
        elif table := kept.get(one.events):
            kept_in[one.topic] = table
            topics[one.topic].update(pending=one.pending, duplicates=one.records - one.pending)
        else:
            topics[one.topic]["no_model"] += one.records
    for topic, table in kept_in.items():
        topics[topic].update(in_table=table.rows.get(topic, 0), duplicates=-table.rows.get(topic, 0))
    for entry in quarantined:
        if entry.code in PROBLEMS:
            continue  # a change in its table's log, which the fold has counted
        subject = feeds[owner[entry.topic]] if entry.topic in owner else topics[entry.topic]
        subject["quarantined"] += entry.records

    accounts = [
        _of_table(table, feeds[table.feed], counted.get(table.name, ()), measured[table.name]) for table in tables
    ]
    modelled = {table.feed for table in tables}
    with_rows = {one.feed for one in contents if one.kind in ROW_KINDS and one.has_rows}
    for feed, records_of in sorted(feeds.items()):
        if feed not in modelled:
            counts = {"no_model": records_of["row_records"], **_others(records_of)}
            landed = records_of["row_records"]
            accounts.append(
                Account("feed", feed, sum(counts.values()), counts, landed=landed, has_rows=feed in with_rows)
            )
    for topic, records_of in sorted(topics.items()):
        model, is_moving = (kept_in[topic].model, kept_in[topic].is_moving) if topic in kept_in else ("", False)
        counts = dict(sorted(records_of.items()))
        name = topic or "(no topic)"
        accounts.append(Account("topic", name, records_of.total(), counts, model=model, is_moving=is_moving))
    return accounts


def _of_table(table: CapturedTable, landed: Counter[str], rows: Sequence[Row], measured: Measures) -> Account:
    changes = measured.changes or 0
    read = landed["row_records"] - landed["pending"] if measured.changes is not None else 0
    counted = {row["name"]: row["records"] for row in rows if row["kind"] == "disposition"}
    if table.accounting is None:
        kept = "unkeyed" if not table.key else "no_history" if table.history is None else "not_accounted"
        counted = {kept: changes - measured.problems, "quarantined": measured.problems}
    dispositions = {**counted, "duplicates": read - changes, **_others(landed)}
    dispositions["quarantined"] += counted.get("quarantined", 0)
    dispositions["pending"] = landed["row_records"] - read
    total = landed["row_records"] + sum(_others(landed).values())
    versions = measured.opened if "opened" in counted else None
    told = Counter({row["name"]: row["records"] for row in rows if row["kind"] == "sign"})
    there = {"unresolved_columns": measured.unresolved_versions, "exact_values": measured.inexact_versions}
    return Account(
        "table",
        table.name,
        total,
        dispositions,
        landed=landed["row_records"],
        versions=versions,
        found_versions=measured.found_versions,
        found_states=told["found_states"],
        otherwise={name: (told[name], number) for name, number in there.items() if told[name] != number},
    )


def _others(landed: Counter[str]) -> dict[str, int]:
    return {name: landed[name] for name in ("tombstones", "other_kinds", "quarantined")}


def stored(spark: SparkSession, places: Places) -> DataFrame | None:
    """What became of changes, as builds have written it down: (history, kind, name, records, sample_keys)."""
    read = progress(spark, places)
    return None if read is None else read.select(F.col("name").alias("history"), F.inline("account"))


def counted(spark: SparkSession, places: Places, tables: Sequence[CapturedTable]) -> dict[str, list[Row]]:
    """Table → its dispositions and signs (kind, name, records, sample_keys), as the build has counted them."""
    named = {table.history.name: table.name for table in tables if table.accounting is not None and table.history}
    rows_of: dict[str, list[Row]] = {}
    if (accounts := stored(spark, places)) is not None:
        for row in accounts.where(F.col("history").isin(*named)).collect():
            rows_of.setdefault(named[row["history"]], []).append(row)
    return rows_of


def compared(spark: SparkSession, places: Places, accounts: Sequence[Account], run_id: str) -> list[Account]:
    """A run's accounts with what has changed since the run before, as `ops/accounting` has that."""
    location = places.table("ops", "accounting")
    if not is_table(spark, location):
        return [_with_changes(one, {}, accounts) for one in accounts]
    # A run that is checked twice is stored twice: its rows of one check share their time. One that is to come is of a
    # clock that has been set back since, and others were checked behind it.
    before = spark.sql(
        "with others as (select *, (recorded_at <= now(), recorded_at) as at from {stored} where run_id <> {run_id})"
        " select * from others where at = (select max(at) from others)",
        stored=spark.table(table_at(location)),
        run_id=run_id,
    )
    was = {(row["subject"], row["table"], row["disposition"]): row["records"] for row in before.collect()}
    return [_with_changes(one, was, accounts) for one in accounts]


def record(spark: SparkSession, places: Places, accounts: Sequence[Account], run_id: str, at: datetime) -> None:
    """Store a run's accounts in `ops/accounting`: the next run is compared with them.

    Args:
        spark: The session.
        places: Where the lakehouse is.
        accounts: The run's accounts.
        run_id: The run.
        at: The time of the run, with its zone.
    """
    rows = [
        {
            "run_id": run_id,
            "subject": one.subject,
            "table": one.name,
            "disposition": disposition,
            "records": records,
            "recorded_at": at,
        }
        for one in accounts
        for disposition, records in {**one.dispositions, **one.untold}.items()
    ]
    append_rows(spark, places.table("ops", "accounting"), rows, _STORED)


def _with_changes(account: Account, before: Mapping[tuple[str, str, str], int], accounts: Sequence[Account]) -> Account:
    was = {key[2]: records for key, records in before.items() if key[:2] == (account.subject, account.name)}
    # What the quarantine held goes in other ways, too; `quarantined` doesn't tell it from changes with a problem.
    landed = sum(records for name, records in was.items() if name not in ("tombstones", "other_kinds", "quarantined"))
    is_lost = landed - account.landed
    if account.subject == "topic":
        # A table that is to be built anew has lost none.
        is_read = account.dispositions.get("in_table") or account.dispositions.get("duplicates")
        is_lost = _fewer(account, before) if is_read else 0
        if is_lost > 0 and account.is_moving:
            is_lost = min(is_lost, sum(_fewer(one, before) for one in accounts if one.model == account.model))
    lost = max(0, is_lost)
    names = {name: 0 for name in (*was, *account.dispositions) if name != "difference"}
    moved = {name: account.dispositions.get(name, 0) - was.get(name, 0) for name in names}
    changed = {name: by for name, by in moved.items() if by}
    return replace(account, changed=changed, lost=lost)


def _fewer(account: Account, before: Mapping[tuple[str, str, str], int]) -> int:
    """How many fewer events of a topic their table has than in the run before."""
    return before.get(("topic", account.name, "in_table"), 0) - account.dispositions.get("in_table", 0)
