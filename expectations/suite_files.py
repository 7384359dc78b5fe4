"""The project's suites: `expectations/suites/<source>__<table>.py`, loaded from the project that a command acts on."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import great_expectations as gx

from expectations.rules import LAYERS
from spark_jobs.declarations import CapturedTable
from spark_jobs.errors import UsageError
from spark_jobs.places import Places


def load_suites(places: Places, table: CapturedTable) -> dict[str, gx.ExpectationSuite]:
    """The suites of a table by layer, from its module in the project; none where it has no module.

    Raises:
        UsageError: The module can't be loaded, or a function of it returns something else.
    """
    file = file_of(places, table)
    if not file.is_file():
        return {}
    found = _made(file)
    for layer, made in found.items():
        if not isinstance(made, gx.ExpectationSuite):
            raise UsageError(
                f"expectations/suites/{file.name}: {layer}() gave {type(made).__name__};"
                " it must return a gx.ExpectationSuite."
            )
    return found


def file_of(places: Places, table: CapturedTable) -> Path:
    """The module of a table's suites."""
    return places.project / "expectations" / "suites" / f"{table.name}.py"


def _made(file: Path) -> dict[str, gx.ExpectationSuite]:
    """What the module's functions return, by layer."""
    spec = importlib.util.spec_from_file_location(f"expectations.suites.{file.stem}", file)
    if spec is None or spec.loader is None:
        raise UsageError(f"expectations/suites/{file.name}: not a Python module.")
    module = importlib.util.module_from_spec(spec)
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
        return {layer: getattr(module, layer)() for layer in LAYERS if hasattr(module, layer)}
    except Exception as error:
        raise UsageError(
            f"expectations/suites/{file.name}: can't be loaded: {type(error).__name__}: {error}."
            " Correct it, or remove it and run `tidemark scaffold`."
        ) from error
    finally:
        sys.dont_write_bytecode = written
