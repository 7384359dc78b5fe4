"""Holds a contender's history against the answer: which keys are right at every instant, and what is wrong.

A history is Parquet with the columns of the answer, `valid_from` and `valid_to`: timestamps or microseconds, half
open, `valid_to` NULL while a version is open. A `valid_from` that is NULL is before all time, and a key that is NULL
is one that the source never had: no history is right with them. DuckDB compares, whoever made it; rows are compared by
a hash of 64 bits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.workload import HAZARDS

_NOT_OF_ROW = ("id", "valid_from", "valid_to")
_FOREVER = 1 << 62
_NO_KEY = 0


@dataclass(slots=True)
class Share:
    """Of some keys, how many are right."""

    keys: int = 0
    right: int = 0

    @property
    def percent(self) -> float:
        """100 is all of them; of no keys none is wrong."""
        return 100.0 * self.right / self.keys if self.keys else 100.0


@dataclass(slots=True)
class Score:
    """What a comparison found.

    Attributes:
        instants: Keys that the stream changed, or that are wrong without it: right where every instant has the
            answer's row, or none where the answer has none. A version that is cut in two equal ones is right.
        versions: The same keys: right where the versions themselves are the answer's, empty ones aside.
        overlaps: Versions that begin before the one before them ends.
        backwards: Versions that end before they begin.
        unknown: Keys that the source never had, in versions that last or in empty ones.
        hazards: `instants` of the keys that met a hazard, and of those that met no other but tombstones, which come
            with every delete.
    """

    instants: Share = field(default_factory=Share)
    versions: Share = field(default_factory=Share)
    overlaps: int = 0
    backwards: int = 0
    unknown: int = 0
    hazards: dict[str, dict[str, Share]] = field(default_factory=dict)

    @property
    def is_right(self) -> bool:
        """Whether every key is right: overlaps, what runs backwards and unknown keys are wrong at some instant."""
        return self.instants.right == self.instants.keys

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**asdict(self), "percent": self.instants.percent, "is_right": self.is_right}


def score(history: Iterable[Path], answer: Path, keys: Path) -> Score:
    """Compare a history with the answer.

    Args:
        history: Files of the contender's history.
        answer: The file of the answer.
        keys: The file that says which hazards each key met.
    """
    connection = duckdb.connect()
    files = [str(file) for file in history]
    kinds = _kinds(connection, [str(answer)])
    row = ", ".join(f'cast("{name}" as {kind})' for name, kind in kinds.items() if name not in _NOT_OF_ROW)
    _intervals(connection, "told", files, row)
    _intervals(connection, "truth", [str(answer)], row)
    connection.execute(f"""
        create table keys as
        select id, is_changed, hazards from read_parquet('{keys}')
    """)
    connection.execute("create view told_backwards as from told where valid_from > valid_to")
    connection.execute("create view told_unknown as from told where id not in (select id from keys)")
    for name, of in (("wrong_versions", "{}_versions"), ("wrong_instants", "{}_instants")):
        told, truth = of.format("told"), of.format("truth")
        connection.execute(f"""
            create table {name} as
            select distinct id from (
                (from {told} except all from {truth}) union all (from {truth} except all from {told})
            )
            union select id from told_overlaps
            union select id from told_backwards
            union select id from told_unknown
        """)
    result = Score(
        overlaps=_number(connection, "select count(*) from told_overlaps"),
        backwards=_number(connection, "select count(*) from told_backwards"),
        unknown=_number(connection, "select count(distinct id) from told_unknown"),
    )
    connection.execute("""
        create table judged as
        select coalesce(keys.id, wrong.id) as id, hazards, wrong.id is null as is_right,
            coalesce(keys.id, wrong.id) not in (select id from wrong_versions) as has_right_versions
        from keys full join wrong_instants as wrong on keys.id = wrong.id
        where keys.is_changed or wrong.id is not null or keys.id in (select id from wrong_versions)
    """)
    result.instants = _share(connection, "is_right", "true")
    result.versions = _share(connection, "has_right_versions", "true")
    for hazard in HAZARDS:
        met = f"list_contains(hazards, '{hazard}')"
        others = f"len(list_filter(hazards, other -> other not in ('{hazard}', 'tombstone')))"
        result.hazards[hazard] = {
            "all": _share(connection, "is_right", met),
            "alone": _share(connection, "is_right", f"{met} and {others} = 0"),
        }
    connection.close()
    return result


def merged(scores: Iterable[Score]) -> Score:
    """The scores of several tables as one."""
    total = Score(hazards={name: {"all": Share(), "alone": Share()} for name in HAZARDS})
    for one in scores:
        pairs = [(total.instants, one.instants), (total.versions, one.versions)]
        for name, both in one.hazards.items():
            pairs += [(total.hazards[name][kind], share) for kind, share in both.items()]
        for whole, part in pairs:
            whole.keys += part.keys
            whole.right += part.right
        total.overlaps += one.overlaps
        total.backwards += one.backwards
        total.unknown += one.unknown
    return total


def _kinds(connection: duckdb.DuckDBPyConnection, files: list[str]) -> dict[str, str]:
    """The columns of Parquet files, with their types."""
    read = connection.read_parquet(files)
    return {name: str(kind) for name, kind in zip(read.columns, read.types, strict=True)}


def _intervals(connection: duckdb.DuckDBPyConnection, name: str, files: list[str], row: str) -> None:
    """Tables of a history: its rows, its overlaps, its versions that last, and these with equal neighbours made one."""
    listing = ", ".join(f"'{file}'" for file in files)
    kinds = _kinds(connection, files)

    def moment(column: str) -> str:
        return f'epoch_us("{column}")' if kinds[column].startswith("TIMESTAMP") else f'cast("{column}" as bigint)'

    connection.execute(f"""
        create table {name} as
        select coalesce(cast(id as bigint), {_NO_KEY}) as id, hash({row}) as state,
            coalesce({moment("valid_from")}, -{_FOREVER}) as valid_from,
            coalesce({moment("valid_to")}, {_FOREVER}) as valid_to
        from read_parquet([{listing}])
    """)
    connection.execute(f"create view {name}_versions as from {name} where valid_from < valid_to")
    connection.execute(f"""
        create table {name}_overlaps as
        select id from {name}_versions
        qualify valid_from < max(valid_to) over (
            partition by id order by valid_from, valid_to rows between unbounded preceding and 1 preceding
        )
    """)
    connection.execute(f"""
        create table {name}_instants as
        with begun as (
            select *, (
                state is distinct from lag(state) over of_key or valid_from is distinct from lag(valid_to) over of_key
            ) as is_begun
            from {name}_versions window of_key as (partition by id order by valid_from, valid_to)
        ),
        numbered as (
            select *, sum(is_begun::int) over (partition by id order by valid_from, valid_to) as number from begun
        )
        select id, any_value(state) as state, min(valid_from) as valid_from, max(valid_to) as valid_to
        from numbered group by id, number
    """)


def _number(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    [[number]] = connection.sql(query).fetchall()
    return int(number)


def _share(connection: duckdb.DuckDBPyConnection, right: str, which: str) -> Share:
    query = f"select count(*), count(*) filter ({right}) from judged where {which}"
    [[keys, count]] = connection.sql(query).fetchall()
    return Share(keys, count)
