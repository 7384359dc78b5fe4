"""Captured tables made anew from bronze, and what can't be read of them moved aside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from pyspark.sql import SparkSession

from spark_jobs.bronze import UNMODELLED
from spark_jobs.damage import Damage, damages, forget_progress, models_by_place, move_aside
from spark_jobs.declarations import Declared, Model, by_name, declared_tables
from spark_jobs.errors import Fault, UsageError
from spark_jobs.logs import log
from spark_jobs.places import Places
from spark_jobs.steps import Run, build


def rebuild(run: Run, spark: SparkSession, names: Sequence[str]) -> None:
    """Make captured tables anew from bronze; what can't be read is moved, and where to is said at once.

    Args:
        run: The run.
        spark: A session with the catalog.
        names: Names of captured tables, of their models, of tables beside them, or of Tidemark's own (`ops.progress`).

    Raises:
        UsageError: A name is unknown.
        Fault: Bronze is damaged, or Spark failed.
        DataError: A test failed.
    """
    declared = declared_tables(run.places)
    models = {at: model for at, (_, model) in models_by_place(declared).items()}
    chosen = _chosen(declared, models.values(), names)
    unreadable = _unreadable(spark, run.places, models, chosen, names)
    if not chosen and not unreadable:
        raise UsageError(
            f"rebuild {' '.join(names)}: it is not damaged, so nothing was done. Tables of ops begin anew only when"
            " they can't be read."
        )
    forget_progress(spark, run.places, [model.name for _, model in unreadable if model is not None])
    for damage, model in unreadable:
        place = move_aside(spark, run.places, run.run_id, damage)
        # Before anything that can fail behind it.
        log.info("moved aside: %s", place)
        print(f"moved aside: {place}; remove it once nothing in it is missed.", flush=True)
        # A shared catalog is the Thrift Server's: what it knows of the table is replaced by the build that follows.
        if model is not None and run.places.is_local:
            spark.sql(f"drop table if exists {model.relation}")
    if chosen:
        build(run, ["--full-refresh", "--select", *sorted(chosen)])


def _chosen(declared: Declared, models: Iterable[Model], names: Sequence[str]) -> set[str]:
    """The models that names stand for, those of `ops` aside.

    Raises:
        UsageError: A name is unknown, or dbt doesn't make its model anew.
    """
    unmodelled = {f"ops.{name}" for name in UNMODELLED}
    known = {model.name: [model] for model in models}
    known |= {name: [*table.models] for name, table in by_name(declared.tables).items()}
    for name in names:
        if name not in known and name not in unmodelled:
            [near] = get_close_matches(name, [*known, *unmodelled], n=1, cutoff=0)
            raise UsageError(f"rebuild {name}: there is no such table. Did you mean {near}?")
    named = [model for name in names if name in known for model in known[name]]
    if kept := sorted({model.name for model in named if model.is_kept}):
        raise UsageError(
            f"rebuild {' '.join(names)}: {', '.join(kept)} has `full_refresh: false`, and dbt makes no such model anew."
            " Take it out for this run."
        )
    return {model.name for model in named}


def _unreadable(
    spark: SparkSession, places: Places, models: Mapping[str, Model], chosen: set[str], names: Sequence[str]
) -> list[tuple[Damage, Model | None]]:
    """What is damaged of the tables of chosen models and of tables of `ops`, and has to be moved, with its model.

    Raises:
        Fault: Bronze is damaged: nothing can be made anew of it.
    """
    locations = [at for at, model in models.items() if model.name in chosen]
    locations += [places.table("ops", name) for name in UNMODELLED if f"ops.{name}" in names]
    damaged = damages(spark, places, beside_bronze=locations)
    if lost := [damage for damage in damaged if damage.layer == "bronze"]:
        raise Fault(" ".join(damage.line(places) for damage in lost))
    return [
        (damage, model)
        for damage in damaged
        for model in [models.get(damage.location)]
        if f"{damage.layer}.{damage.name}" in names
        or (model is not None and model.name in chosen and not damage.has_log)
    ]
