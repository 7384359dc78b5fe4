"""Full rebuild in Polars: everything from the files to one Parquet file, each time, with the steps of DuckDB's."""

from __future__ import annotations

import polars as pl

from benchmarks.contenders.one_file import OneFile
from benchmarks.workload import COLUMNS

_KINDS = {"bigint": pl.Int64, "string": pl.String, "double": pl.Float64, "boolean": pl.Boolean}
_ENVELOPE = pl.Struct({
    "before": pl.Struct({"id": pl.Int64}),
    "after": pl.Struct({name: _KINDS[kind] for name, kind in COLUMNS.items()}),
    "source": pl.Struct({"ts_us": pl.Int64, "lsn": pl.Int64}),
    "op": pl.String,
})  # fmt: skip
_ROW = [name for name in COLUMNS if name != "id"]


class RebuildPolars(OneFile):
    """One lazy frame."""

    def rebuild(self) -> None:
        """Collect it."""
        change = pl.col("change").struct
        after = change.field("after").struct
        previous_op = pl.col("op").shift(1).over("id")
        is_other = (pl.col("state") != pl.col("state").shift(1).over("id")).fill_null(value=True)
        rows = (
            pl.read_ndjson(self.files, schema={"value": pl.String})
            .lazy()
            .drop_nulls("value")
            .select(pl.col("value").str.json_decode(_ENVELOPE).alias("change"))
            .select(
                pl.coalesce(after.field("id"), change.field("before").struct.field("id")).alias("id"),
                change.field("op"),
                change.field("source").struct.field("lsn"),
                change.field("source").struct.field("ts_us").alias("valid_from"),
                *(after.field(name) for name in _ROW),
            )
            .drop_nulls("id")
            .unique(["id", "lsn"])
            .sort("id", "lsn")
            .with_columns(pl.struct(_ROW).hash().alias("state"))
            .filter(
                pl.when(pl.col("op") == "d")
                .then(previous_op != "d")
                .otherwise((previous_op.fill_null("d") == "d") | is_other)
            )
            .with_columns(pl.col("valid_from").shift(-1).over("id").alias("valid_to"))
            .filter(pl.col("op") != "d")
            .select(*COLUMNS, "valid_from", "valid_to")
        )
        rows.collect().write_parquet(self.target)


open_contender = RebuildPolars
