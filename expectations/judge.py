"""Spark's part: every row of every layer judged by the laws, and a few numbers and keys brought back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from expectations.rules import BRONZE, LAYERS
from expectations.rules import bronze as bronze_laws
from expectations.rules.findings import Frames, summary
from spark_jobs import bronze
from spark_jobs.declarations import CapturedTable
from spark_jobs.delta import table_if_made
from spark_jobs.masking import Mask
from spark_jobs.places import Places
from spark_jobs.shown import Shown, shown

# Tables are judged side by side: while one is planned on the driver another has the executors.
_THREADS = 4
_FINDING = ["law", "broken", "keys"]


@dataclass(frozen=True, slots=True)
class Judged:
    """A captured table, the frames of its layers that are there, and what broke laws in any of them.

    `findings` has a row per broken law: `law`, `broken` (rows) and `keys` (of some of them, as JSON text).
    """

    table: CapturedTable
    frames: dict[str, DataFrame]
    findings: pd.DataFrame


def judge(
    spark: SparkSession,
    places: Places,
    tables: Sequence[CapturedTable],
    topics: Mapping[str, Sequence[str]],
    samples: int,
    mask: Mask,
) -> dict[str, Judged]:
    """Judge all layers of the tables: bronze in one job for all of them, silver and gold in one for each.

    Args:
        spark: The session.
        places: Where the lakehouse is.
        tables: The captured tables.
        topics: Feed → the topics that its records came by.
        samples: How many keys to bring back of each broken law.
        mask: What hides sensitive values of these.
    """
    arrived = {table.feed: topics[table.feed] for table in tables if table.feed in topics}
    with ThreadPoolExecutor(_THREADS) as pool:
        in_bronze = pool.submit(_judge_bronze, spark, places, arrived, samples)
        known = shown(spark, places, tables)
        judged = list(pool.map(lambda table: _judge_built(spark, table, known.get(table.name), samples, mask), tables))
    return {one.table.name: _with_bronze(spark, places, one, arrived, in_bronze.result()) for one in judged}


def _judge_built(
    spark: SparkSession, table: CapturedTable, table_shown: Shown | None, samples: int, mask: Mask
) -> Judged:
    built = [name for name in LAYERS if name != BRONZE]
    frames = {
        layer: there
        for layer, model in zip(built, (table.changes, table.current, table.history), strict=True)
        if model is not None and (there := table_if_made(spark, model.location)) is not None
    }
    changes, current, history = (frames.get(layer) for layer in built)
    looked_at = Frames(table, mask, changes, current, history, table_shown)
    broken = [rows for layer in built for rows in LAYERS[layer].findings(looked_at)]
    findings = [row.asDict() for row in summary(broken, samples).collect()] if broken else []
    return Judged(table, frames, pd.DataFrame(findings, columns=_FINDING))


def _judge_bronze(
    spark: SparkSession, places: Places, topics: Mapping[str, Sequence[str]], samples: int
) -> list[dict[str, Any]]:
    """The findings in bronze by topic (by feed for a record without a topic)."""
    if not topics:
        return []
    wanted = F.col("topic").isin(sorted({topic for those in topics.values() for topic in those}))
    records = bronze.read(spark, places, "records").where(wanted | F.col("feed").isin(*topics))
    quarantined = bronze.read(spark, places, "quarantine").where(wanted & F.col("released_in").isNull())
    broken = bronze_laws.findings(records, quarantined, bronze.read(spark, places, "shapes"))
    return [row.asDict() for row in summary(broken, samples, ("topic", "law")).collect()]


def _with_bronze(
    spark: SparkSession,
    places: Places,
    judged: Judged,
    topics: Mapping[str, Sequence[str]],
    in_bronze: list[dict[str, Any]],
) -> Judged:
    feed = judged.table.feed
    if feed not in topics:
        return judged
    mine = pd.DataFrame(
        [row for row in in_bronze if row["topic"] in (*topics[feed], feed)], columns=["topic", *_FINDING]
    )
    by_law = mine.groupby("law", as_index=False).agg({"broken": "sum", "keys": "sum"})
    records = bronze.read(spark, places, "records").where(F.col("feed") == feed)
    return Judged(judged.table, {BRONZE: records, **judged.frames}, pd.concat([by_law, judged.findings]))
