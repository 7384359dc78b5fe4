"""What the project's models declare: the captured tables, as dbt knows them, without a session or a catalog."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from typing import Any

from spark_jobs.errors import UsageError
from spark_jobs.files import may_write
from spark_jobs.places import Places


@dataclass(frozen=True, slots=True)
class Model:
    """One table built by dbt: its relation in the catalog, and its location in the lakehouse; a view has none.

    `is_kept`: whether dbt doesn't make it anew when asked to (`full_refresh: false`).
    """

    name: str
    relation: str
    location: str
    is_kept: bool = False


@dataclass(frozen=True, slots=True)
class CapturedTable:
    """One captured table: what it is in the source, and the models that dbt builds for it.

    `columns` are dicts of `name`, `type`, `field`, `sensitive` and `encoding`, as `macros/changes` reads them;
    `column_names` maps gold's own columns that have another name here; `names_of_own` are such names in any history of
    the table, and `history_options` all that its history declares. `current`, `history` and `accounting` (a view) are
    None for a table without a key (R18) or whose models were removed, `transactions` where its source is not declared
    `consistent` (G7). `silent_after_minutes` and `transaction_topic` are what its source declares, or None.
    """

    name: str
    source_name: str
    source_table: str
    feed: str
    key: tuple[str, ...]
    columns: tuple[dict[str, Any], ...]
    column_names: dict[str, str]
    changes: Model
    current: Model | None
    history: Model | None
    accounting: Model | None
    transactions: Model | None
    silent_after_minutes: float | None = None
    transaction_topic: str | None = None
    names_of_own: frozenset[str] = frozenset()
    history_options: dict[str, Any] = field(default_factory=dict)

    @property
    def row(self) -> tuple[str, ...]:
        """The names of the declared columns."""
        return tuple(column["name"] for column in self.columns)

    @property
    def models(self) -> tuple[Model, ...]:
        """Its models, each after those that it is built from."""
        found = (self.changes, self.history, self.current, self.accounting)
        return tuple(one for one in found if one is not None)

    @property
    def names(self) -> tuple[str, ...]:
        """What a command may call it by: its own name and those of its models."""
        return (self.name, *(model.name for model in self.models))

    @property
    def sensitive(self) -> frozenset[str]:
        """The columns whose values people may not see; with a field of documents the whole ones (`$`).

        A column of the key that is not declared is one of them, as any that is not (R8).
        """
        declared = {column["name"] for column in self.columns if column["sensitive"]}
        whole = {column["name"] for column in self.columns if column["field"] == "$"}
        return frozenset(declared | whole if declared else ()).union(set(self.key) - set(self.row))


@dataclass(frozen=True, slots=True)
class Channel:
    """The table of a channel, of what arrives beside changes: its `kind` is its macro (`messages`, …), or `outbox`.

    `prefix` is the topic prefix, empty for an outbox, which has `topics` instead; `is_hidden` is whether a field of an
    outbox's payload is declared sensitive.
    """

    kind: str
    prefix: str
    model: Model
    is_hidden: bool = False
    topics: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Declared:
    """Everything that the project's models declare to be built of records."""

    tables: list[CapturedTable]
    channels: list[Channel]


_CHANNELS = ("messages", "schema_versions", "snapshots")


def run_dbt(places: Places, arguments: list[str]) -> Any:
    """Run dbt in this process, in the session that it shares with us, and return its result."""
    from dbt.cli.main import dbtRunner  # seconds to import, and not every command runs dbt

    with _environment(places):
        return dbtRunner().invoke(
            [
                *arguments,
                "--target",
                places.target,
                "--project-dir",
                str(places.project),
                "--profiles-dir",
                str(places.project),
            ]
        )


def dbt_variable(name: str) -> str | None:
    """What the environment says of an option of dbt's, by its newer name or its older one."""
    return os.environ.get(f"DBT_ENGINE_{name}") or os.environ.get(f"DBT_{name}")


@contextmanager
def reading(places: Places) -> Iterator[list[str]]:
    """The arguments of a dbt that only reads the project.

    Where that can't be written, and no variable of dbt's says otherwise, its log and what it keeps of what it has read
    go into a folder that is removed afterwards.
    """
    lacking = [
        option
        for option, variable, file in (
            ("--log-path", "LOG_PATH", "logs/dbt.log"),
            ("--target-path", "TARGET_PATH", "target/partial_parse.msgpack"),
        )
        if not dbt_variable(variable) and not may_write(places.project / file)
    ]
    if not lacking:
        yield []
        return
    with tempfile.TemporaryDirectory() as aside:
        yield [part for option in lacking for part in (option, aside)]


def beginning_of(message: object) -> str:
    """The first lines of what dbt says at length, as one: what is wrong, and where, without plans and call stacks."""
    return " ".join(line.strip() for line in [line for line in str(message).splitlines() if line.strip()][:3])


def captured_tables(places: Places) -> list[CapturedTable]:
    """The tables that the project has changes models for, in the order of their names."""
    return declared_tables(places).tables


def by_name(tables: Sequence[CapturedTable]) -> dict[str, CapturedTable]:
    """What commands may call captured tables by → the table.

    A table's own name counts before that of another's model: `orders_history` can be a table beside `orders`.
    """
    return {name: table for table in tables for name in table.names} | {table.name: table for table in tables}


def declared_tables(places: Places) -> Declared:
    """The captured tables, and those of channels, each in the order of their names."""
    with redirect_stdout(io.StringIO()) as said, reading(places) as options:
        # Without manifest.json, which takes as long to write as the rest: commands that build or document leave one.
        result = run_dbt(places, ["--quiet", "--no-write-json", "parse", *options])
    if not result.success:
        raise UsageError(f"The project's models can't be read: {beginning_of(result.exception or said.getvalue())}")
    models = _Models(places, result.result)
    tables = [models.captured(node) for node in models.nodes if "columns" in models.declared_by(node)]
    channels = [
        Channel(
            kind,
            declared.get(f"{kind}_of", ""),
            models.built(node),
            any(column["sensitive"] for column in declared.get("payload", ())),
            frozenset(declared.get("outbox", ())),
        )
        for node in models.nodes
        for declared in [models.declared_by(node)]
        for kind in (*_CHANNELS, "outbox")
        if f"{kind}_of" in declared or (kind == "outbox" and kind in declared)
    ]
    return Declared(
        sorted(tables, key=lambda table: table.name), sorted(channels, key=lambda one: (one.model.name, one.kind))
    )


class _Models:
    """The models of dbt's manifest, and what macros have noted in them."""

    def __init__(self, places: Places, manifest: Any) -> None:
        self._places = places
        self.nodes = [node for node in manifest.nodes.values() if node.resource_type == "model"]
        self._feeds = {
            f"{node.source_name}.{node.name}": (node.meta or node.config.meta).get("feed")
            for node in manifest.sources.values()
        }

    @staticmethod
    def declared_by(node: Any) -> dict[str, Any]:
        """What the macro that writes a model has noted in it; nothing of other models."""
        declared: dict[str, Any] = node.config.meta.get("tidemark", {})
        return declared

    def built(self, node: Any) -> Model:
        """The table of a model."""
        location = f"{self._places.lakehouse}/{node.schema}/{node.alias}"
        return Model(node.name, f"{node.schema}.{node.alias}", location, node.config.full_refresh is False)

    def captured(self, node: Any) -> CapturedTable:
        """The captured table of a changes model."""
        declared = self.declared_by(node)
        histories = self._all_built_from("changes", node.name)
        # Of several histories of one log that which others are built from.
        history = max(histories, key=self._dependants_of, default=None)
        options = self.declared_by(history) if history else {}
        source_name, _, source_table = declared["source"].partition(".")
        return CapturedTable(
            name=node.name.removesuffix("_changes"),
            source_name=source_name,
            source_table=source_table,
            feed=self._feeds.get(declared["source"]) or "",
            key=tuple(declared["key"]),
            columns=tuple(declared["columns"]),
            column_names=options.get("column_names") or {},
            history_options=options,
            changes=self.built(node),
            current=self._built_from("history", history),
            history=self.built(history) if history else None,
            accounting=self._built_from("accounts", history),
            transactions=next(map(self.built, self._all_built_from("transactions_of", source_name)), None),
            silent_after_minutes=declared.get("silent_after_minutes"),
            transaction_topic=declared.get("transaction_topic"),
            names_of_own=frozenset(
                name for one in histories for name in (self.declared_by(one).get("column_names") or {}).values()
            ),
        )

    def _all_built_from(self, field: str, name: str) -> list[Any]:
        return [node for node in self.nodes if name and self.declared_by(node).get(field) == name]

    def _built_from(self, field: str, node: Any) -> Model | None:
        return next(map(self.built, self._all_built_from(field, node.name)), None) if node else None

    def _dependants_of(self, history: Any) -> int:
        return sum(self._built_from(field, history) is not None for field in ("accounts", "history"))


@contextmanager
def _environment(places: Places) -> Iterator[None]:
    wanted = places.files(os.environ) | places.environment()
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
