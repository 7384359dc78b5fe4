"""Damaged tables: which they are, what is wrong with them, and what can be done (G4)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import SparkSession

from spark_jobs.bronze import GONE, TABLES, UNMODELLED, remedy
from spark_jobs.declarations import Declared, Model, declared_tables
from spark_jobs.delta import empty_commit, files_at, has_files, has_log, is_table, states
from spark_jobs.engine_errors import ENGINE_ERRORS, IN_THE_WAY, OF_A_STATEMENT
from spark_jobs.errors import Fault, UsageError
from spark_jobs.files import Files
from spark_jobs.names import table_at
from spark_jobs.places import ASIDE, LAYERS, STAGED, Places
from spark_jobs.texts import quantity

_SHOWN = 300
_NO_LOG = "it has files and no log"


@dataclass(frozen=True, slots=True)
class Damage:
    """A table that can't be read; `has_log` says whether its Delta log can.

    `name` is its folder's, which can be an alias; `rebuilt_as` what `rebuild` knows the table as, where that is known.
    """

    layer: str
    name: str
    location: str
    what: str
    has_log: bool
    rebuilt_as: str = ""

    def line(self, places: Places) -> str:
        """What is damaged of these places, and what to do."""
        return f"{places.schema(self.layer)}.{self.name} is damaged: {self.what}. {self._remedy(places)}"

    def _remedy(self, places: Places) -> str:
        if self.layer == "bronze":
            return remedy(self.location)
        if self.layer == "ops" and self.name in UNMODELLED:
            lost = " A snapshot whose reads are in a gap that it has told of looks complete then (R16)."
            return (
                f"Restore it, or begin it empty: `tidemark rebuild{places.option} ops.{self.name}`."
                f"{lost if self.name == 'kafka_gaps' else ''}"
            )
        name = self.rebuilt_as or self.name
        return f"It can be made anew: `tidemark rebuild{places.option} {name}`."


def delta_tables(places: Places) -> list[tuple[str, str]]:
    """Layer and name of each table that was ever written to its end, whoever built it, bronze first."""
    files = Files.of(places)
    return [
        (layer, name)
        for layer in LAYERS
        for name in files.folders(places.schema(layer))
        if has_log(files, f"{places.schema(layer)}/{name}")
    ]


def damages(
    spark: SparkSession, places: Places, *errors: str, beside_bronze: Collection[str] | None = None
) -> list[Damage]:
    """The damaged tables of a lakehouse, bronze first. The log of each that is looked at is replayed.

    Args:
        spark: The session.
        places: Where the lakehouse is.
        errors: Texts of errors; a table that one of them blames is damaged, though its files are there.
        beside_bronze: The locations of the other tables that are looked at; all where nothing is said.
    """
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    named = {table: text for text in errors for table in blamed(places, text)}
    there = {name for layer, name in delta_tables(places) if layer == "bronze"}
    damaged = []
    for layer, name in _tables(places):
        if layer != "bronze" and beside_bronze is not None and places.table(layer, name) not in beside_bronze:
            continue
        damage = damage_of(spark, places, layer, name)
        if damage is None and layer == "bronze" and name not in there and "records" in there:
            damage = Damage(layer, name, places.table(layer, name), GONE, has_log=False)
        if damage is None and (layer, name) in named:
            damage = Damage(layer, name, places.table(layer, name), _first_line(named[layer, name]), has_log=True)
        if damage is not None:
            damaged.append(damage)
    return damaged


def blamed(places: Places, error: str) -> set[tuple[str, str]]:
    """Layer and name of the tables of which an error names a file, unless it says what was in the way of that."""
    if IN_THE_WAY.search(error):
        return set()
    schemas = "|".join(re.escape(places.schema(layer)) for layer in LAYERS)
    # As a path, or as a URL.
    files = re.findall(rf"{re.escape(places.lakehouse)}/({schemas})/([^/\s]+)/", f"{error}\n{unquote(error)}")
    return {(schema.removeprefix(places.prefix), name) for schema, name in files}


def damage_of(spark: SparkSession, places: Places, layer: str, name: str) -> Damage | None:
    """What is wrong with a table's log and with its set of files; None for one that is right, or not there."""
    location = places.table(layer, name)
    files = Files(location)
    # Of a first writing that did not end no commit is there, though the folder for them can be.
    if not has_log(files):
        if next(files.below("", ".parquet"), None) is None:
            return None
        return Damage(layer, name, location, _NO_LOG, has_log=False)
    try:
        listed = spark.table(table_at(location)).inputFiles()
        commit = empty_commit(spark, location)
    except ENGINE_ERRORS as error:
        return Damage(layer, name, location, f"its log can't be read, {_first_line(str(error))}", has_log=False)
    if commit is not None:
        return Damage(layer, name, location, f"its newest commit, {commit}, is empty", has_log=False)
    wanted = (path.removeprefix("file:").replace("///", "/") for path in listed)
    missing = sorted({path.removeprefix(f"{location}/") for path in wanted} - set(files.below("", ".parquet")))
    if not missing:
        return None
    lost = quantity(len(missing), "of its files is", "of its files are")
    return Damage(layer, name, location, f"{lost} missing, such as {missing[0]}", has_log=True)


def explained(spark: SparkSession | None, places: Places, *errors: str) -> Fault | None:
    """The damage that made the engine fail, as a Fault; None where no table is damaged.

    `errors` are the texts of its errors. Where one of them says what was in the way, damage is looked for only where
    another blames a table.
    """
    if spark is None or (any(map(IN_THE_WAY.search, errors)) and not any(blamed(places, text) for text in errors)):
        return None
    try:
        models = models_by_place(declared_tables(places))
    except UsageError:
        models = {}
    try:
        found = damages(spark, places, *errors) or _gone(spark, places, models)
    except ENGINE_ERRORS:
        return None
    return _fault_of(places, found, models) if found else None


def damage_behind(places: Places, error: Exception) -> Fault | None:
    """The damage that an error of the engine comes from, or one that was raised in its place; None where none is."""
    cause = error if isinstance(error, ENGINE_ERRORS) else error.__cause__
    if not isinstance(cause, ENGINE_ERRORS) or (isinstance(error, UsageError) and OF_A_STATEMENT.search(str(cause))):
        return None
    return explained(SparkSession.getActiveSession(), places, str(cause))


def require_built(spark: SparkSession, places: Places, declared: Declared) -> None:
    """Raise a Fault where a table that was built is gone, or its log is: it would count as one that never was."""
    models = models_by_place(declared)
    if found := _gone(spark, places, models):
        raise _fault_of(places, found, models)


def _fault_of(places: Places, found: Sequence[Damage], models: Mapping[str, tuple[str, Model]]) -> Fault:
    subjects = {at: subject for at, (subject, _) in models.items()}
    return Fault(" ".join(replace(one, rebuilt_as=subjects.get(one.location, "")).line(places) for one in found))


def _gone(spark: SparkSession, places: Places, models: Mapping[str, tuple[str, Model]]) -> list[Damage]:
    """The tables of models that were built, and of which nothing is there, or no log."""
    # A model that has another alias since is not built where it will be.
    built = {(name, state.get("identifier")) for name, state in states(spark, places).items()}
    found = []
    for location, (_, model) in models.items():
        schema, name = location.removeprefix(f"{places.lakehouse}/").split("/")
        if (model.name, name) in built and not is_table(spark, location):
            what = _NO_LOG if has_files(spark, location) else "it is gone"
            found.append(Damage(schema.removeprefix(places.prefix), name, location, what, has_log=False))
    return found


def forget_progress(spark: SparkSession, places: Places, models: Sequence[str]) -> None:
    """Have the next build make models anew, whichever run that is: this one can end before it has (G4)."""
    location = places.table("ops", "progress")
    if models and is_table(spark, location) and damage_of(spark, places, "ops", "progress") is None:
        is_chosen = "exists(:names, name -> endswith(model, concat('.', name)))"
        spark.sql(f"delete from {table_at(location)} where {is_chosen}", {"names": list(models)})


def move_aside(spark: SparkSession, places: Places, run_id: str, damage: Damage) -> str:
    """Move a table whose log can't be read out of the way, whole; where it is now."""
    place = places.table("ops", f"{ASIDE}/{run_id}/{damage.layer}.{damage.name}")
    if places.is_folder:
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        Path(damage.location).rename(place)
    else:
        # An object store has no folders: its files are copied one by one.
        files, location = files_at(spark, damage.location)
        files.mkdirs(files_at(spark, place)[1].getParent())
        if not files.rename(location, files_at(spark, place)[1]):
            raise Fault(
                f"{damage.location} could not be moved to {place}: the store refused without a reason. Nothing was"
                " removed; see that this user may write there, and run again."
            )
    return place


def models_by_place(declared: Declared) -> dict[str, tuple[str, Model]]:
    """The location of each table that models build of records → what `rebuild` is asked for it by, and its model."""
    found = {model.location: (table.name, model) for table in declared.tables for model in table.models}
    alone = [one.model for one in declared.channels] + [one.transactions for one in declared.tables if one.transactions]
    return found | {model.location: (model.name, model) for model in alone}


def _tables(places: Places) -> Sequence[tuple[str, str]]:
    files = Files.of(places)
    found = [("bronze", name) for name in TABLES]
    for layer in LAYERS[1:]:
        found += [(layer, name) for name in files.folders(places.schema(layer))]
    return [one for one in found if one not in (("ops", STAGED), ("ops", ASIDE))]


def _first_line(text: str) -> str:
    return next((line for line in text.strip().splitlines() if line), "")[:_SHOWN].rstrip(".")
