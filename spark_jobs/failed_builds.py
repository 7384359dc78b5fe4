"""What a build of dbt that failed says: whose fault it is, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from spark_jobs.damage import explained
from spark_jobs.engine_errors import IN_THE_WAY, OF_A_STATEMENT, first_cause
from spark_jobs.errors import DataError, Fault, TidemarkError, UsageError
from spark_jobs.places import Places

# How what a build has made is left by a fault.
_GOES_ON = "What was built is whole; when the cause is gone, the next run goes on from there."
# What Spark says where it would make a table at files that its catalog doesn't know.
_IS_THERE = "LOCATION_ALREADY_EXISTS"


def ended(places: Places, error: BaseException) -> TidemarkError:
    """The error of a dbt that ended without a result and has said why; what dbt can't read is the user's to mend."""
    from dbt.cli.main import DbtUsageException
    from dbt.exceptions import ParsingError
    from dbt_common.exceptions import CompilationError, DbtConfigError

    from spark_jobs.declarations import beginning_of

    if isinstance(error, PermissionError):
        return Fault(
            f"dbt build: {error.filename} can't be written ({error.strerror}). dbt's log and"
            " results are in the project: give this user the right to write there, or set DBT_LOG_PATH and"
            " DBT_TARGET_PATH to folders where it has it."
        )
    if isinstance(error, (CompilationError, DbtConfigError, DbtUsageException, ParsingError)):
        return UsageError(f"dbt build: {beginning_of(error)}")
    hint = _GOES_ON if places.is_local else (
        "logs/dbt.log has what the Thrift Server said. If it names the metastore, see that its database answers,"
        " start the Thrift Server again, and run again."
    )  # fmt: skip
    return Fault(f"dbt build: {first_cause(str(error))}. {hint}")


def failed(places: Places, results: Sequence[Any]) -> TidemarkError:
    """What kept dbt's models from being built; where all were, a test failed."""
    # What was in the way of one says more than what others met behind it.
    broken = sorted(
        (one for one in results if one.status == "error"), key=lambda one: IN_THE_WAY.search(str(one.message)) is None
    )
    if not broken:
        return DataError("dbt build: a test failed; dbt's lines above name it.")
    messages = [str(one.message) for one in broken]
    if any("Compilation Error" in one for one in messages):
        return UsageError(
            "dbt build: a model's declaration is wrong. dbt's lines above name the model, the option and what it takes:"
            " change it there, and build again."
        )
    names = ", ".join(one.node.name for one in broken)
    are_not_read = all(map(OF_A_STATEMENT.search, messages))
    own = sorted({table for one in broken if (table := _table_of_own(places, one.node))})
    if are_not_read and not own:
        return UsageError(
            f"dbt build: Spark can't read the statement of {names}: {first_cause(messages[0])}. dbt's lines"
            " above say where in it; mend it, and run again."
        )
    fault = explained(SparkSession.getActiveSession(), places, *messages)
    if fault is not None:
        return fault
    if are_not_read:
        return Fault(
            f"dbt build: Spark can't read the statement of {names}: {first_cause(messages[0])}. Tidemark wrote it: a"
            " table has other columns than its model writes, as where somebody has added one. It can be made anew:"
            f" `tidemark rebuild{places.option} {' '.join(own)}`."
        )
    left = next((one.node.name for one in broken if _IS_THERE in one.message), None)
    if left is not None:
        return Fault(
            f"dbt build: {left} could not be built: the catalog doesn't know the table, and its files are in"
            f" {places.lakehouse}/warehouse, where a catalog that is lost or was moved away had it. Put its"
            " folder there aside, and run again: that makes the table anew."
        )
    return Fault(f"dbt build: {names} could not be built: {first_cause(messages[0])}. {_GOES_ON}")


def _table_of_own(places: Places, node: Any) -> str:
    """The model that a node of dbt is, or tests, where Tidemark writes its statement; empty where a user does."""
    if (law := getattr(node, "test_metadata", None)) is None:
        return node.name if node.config.meta.get("tidemark") else ""
    is_law = (places.project / f"tests/dbt/generic/{law.name}.sql").is_file()
    return (node.attached_node or "").rpartition(".")[2] if is_law else ""
