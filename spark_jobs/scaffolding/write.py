"""Write what scaffolding makes of a table: few lines a file, a declaration and a macro call. Edited files stay."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import jinja2

from spark_jobs.columns import CURRENT_COLUMNS, EVENT_COLUMNS, OWN_COLUMNS
from spark_jobs.declarations import CapturedTable
from spark_jobs.errors import Fault
from spark_jobs.names import quoted
from spark_jobs.scaffolding.channels import TABLES as CHANNEL_TABLES
from spark_jobs.scaffolding.tables import SeenChannel, SeenColumn, SeenEvents, SeenTable
from spark_jobs.texts import literal, on_one_line

LOG_COLUMNS = {
    "position": "string", "log_number": "int", "server": "string", "transaction_id": "string",
    "changed_at": "timestamp", "processed_at": "timestamp", "is_read": "boolean", "snapshot": "string",
    "topic": "string", "partition": "int", "offset": "bigint", "source_label": "string", "content_order": "bigint",
    "batch_id": "bigint", "landed_at": "timestamp", "previous_key": "string", "next_key": "string",
    "unavailable_columns": "array<string>", "absent_columns": "array<string>", "exact_values": "map<string,string>",
    "is_before_whole": "boolean", "problem": "string",
}  # fmt: skip
# What the log of a collection has beside them; `edits` has the type that the macro `edits_type` writes.
DOCUMENT_TYPE = (
    "struct<after: map<string,string>, before: map<string,string>,"
    " edits: array<struct<path: array<string>, how: string, value: string, size: int>>>"
)
LAWS = (
    "versions_do_not_overlap", "at_most_one_open_version", "gaps_follow_a_close", "order_agrees_with_position",
    "versions_are_traceable",
)  # fmt: skip

_KEYED = {
    "models/silver/current/{name}_current.sql": "current.sql.j2",
    "models/silver/current/{name}_current.yml": "current.yml.j2",
    "models/gold/history/{name}_history.sql": "history.sql.j2",
    "models/gold/history/{name}_history.yml": "history.yml.j2",
    "models/ops/{name}_accounting.sql": "accounting.sql.j2",
    "models/ops/{name}_accounting.yml": "accounting.yml.j2",
}
_EVERY = {
    "models/bronze/{name}.yml": "source.yml.j2",
    "models/silver/changes/{name}_changes.sql": "changes.sql.j2",
    "models/silver/changes/{name}_changes.yml": "changes.yml.j2",
}


def files_of(table: SeenTable) -> dict[str, str]:
    """Path in the project → text, of everything that scaffolding writes for a table."""
    return _written(table, _EVERY | (_KEYED if table.key else {})) | suites_of([table])


def files_of_history(table: SeenTable) -> dict[str, str]:
    """Those of them that a table with a key has beside its changes (R18)."""
    return _written(table, _KEYED)


def with_key(project: Path, table: SeenTable) -> dict[str, str]:
    """The files that are there as they were written before a table had a key, with it (R18); edited ones stay."""
    there = model_files(project)
    keyless, keyed = (placed(project, files_of(one), there) for one in (replace(table, key=()), table))
    return {
        path: text
        for path, text in keyed.items()
        if (project / path).exists() and (project / path).read_text() == keyless.get(path) != text
    }


def _written(table: SeenTable, templates: Mapping[str, str]) -> dict[str, str]:
    values = {
        "table": table,
        "own_types": OWN_COLUMNS,
        "current_columns": CURRENT_COLUMNS,
        "log_columns": LOG_COLUMNS,
        "document_type": DOCUMENT_TYPE,
        "source_fields_type": f"struct<{', '.join(f'{quoted(name)}: string' for name in table.source_fields)}>",
        "laws": LAWS,
        "key_type": _struct(column for column in table.columns if column.name in table.key),
        "row_type": _struct(table.columns),
    }
    environment = _environment()
    return {
        path.format(name=table.name): environment.get_template(template).render(values)
        for path, template in templates.items()
    }


def suites_of(tables: Iterable[SeenTable | CapturedTable]) -> dict[str, str]:
    """Path in the project → text, of what is expected of tables, seen or declared; one without a key has no history."""
    template = _environment().get_template("suite.py.j2")
    return {f"expectations/suites/{table.name}.py": template.render(table=table) for table in tables}


def files_of_sources(tables: Iterable[SeenTable]) -> dict[str, str]:
    """Path in the project → text, of what scaffolding writes for a source with all its tables."""
    by_source: dict[str, list[str]] = {}
    for table in tables:
        by_source.setdefault(table.source, []).append(f"{table.name}_changes")
    files: dict[str, str] = {}
    for source, changes in by_source.items():
        files |= _transactions(source, changes)
    return files


def files_of_events(events: Iterable[SeenEvents]) -> dict[str, str]:
    """Path in the project → text, of what scaffolding writes for outbox topics."""
    environment = _environment()
    return {
        f"models/silver/outbox/{one.name}_events.{kind}": environment.get_template(f"events.{kind}.j2").render(
            events=one, event_columns=EVENT_COLUMNS
        )
        for one in events
        for kind in ("sql", "yml")
    }


def files_of_channels(channels: Iterable[SeenChannel]) -> dict[str, str]:
    """Path in the project → text, of what scaffolding writes for records beside changes."""
    environment = _environment()
    return {
        f"models/silver/{one.kind}/{one.name}.{kind}": environment.get_template(f"channel.{kind}.j2").render(
            channel=one, table=CHANNEL_TABLES[one.kind]
        )
        for one in channels
        for kind in ("sql", "yml")
    }


def outdated(project: Path, fresh: Iterable[SeenTable]) -> dict[str, str]:
    """The files of sources that lack a fresh table and that nobody has edited: as written, but for fewer tables.

    A table that is not fresh may have been taken out.
    """
    files = {}
    for path, text in files_of_sources(fresh).items():
        there = (project / path).read_text() if (project / path).exists() else text
        source = Path(path).stem.removesuffix("_transactions")
        listed, more = (re.findall(r"'(\w+_changes)'", one) for one in (there, text))
        if not {*more} <= {*listed} and there == _transactions(source, listed).get(path):
            every = sorted({*listed, *more}, key=lambda name: name.removesuffix("_changes"))
            files[path] = _transactions(source, every)[path]
    return files


def not_there(project: Path, files: Mapping[str, str]) -> dict[str, str]:
    """Those of the files that the project lacks.

    A model that stands in another folder, enabled or not, it has, and what is said of it, which can be in any file.
    """
    models = {file.stem for file in (project / "models").rglob("*.sql")}
    return {
        path: text
        for path, text in files.items()
        if not (project / path).exists() and not (path.startswith("models/") and Path(path).stem in models)
    }


def model_files(project: Path) -> dict[str, str]:
    """Name → path in the project, of the files in all folders of models."""
    return {file.name: file.relative_to(project).as_posix() for file in (project / "models").rglob("*.*")}


def placed(project: Path, files: Mapping[str, str], there: Mapping[str, str]) -> dict[str, str]:
    """The files under the paths that they have in the project: those of models can stand in another folder.

    Args:
        project: The project's folder.
        files: Path → text, as scaffolding has them.
        there: What `model_files` gave, which looks through all folders.
    """
    return {
        there.get(Path(path).name, path) if path.startswith("models/") and not (project / path).exists() else path: text
        for path, text in files.items()
    }


def differences(
    project: Path,
    tables: Sequence[SeenTable],
    beside: Mapping[str, str],
    declared: Sequence[CapturedTable] = (),
) -> str:
    """What scaffolding would write now against what is there, as a unified diff.

    Args:
        project: The project's folder.
        tables: The tables seen, under the names that they are declared by.
        beside: Files of no table.
        declared: The tables that have models: scaffolding writes none for them, whatever these are named.
    """
    lines = _differences(project, not_there(project, suites_of(declared)))
    feeds, there = {table.feed for table in declared}, model_files(project)
    for table in tables:
        files = placed(project, files_of(table), there)
        if table.feed in feeds:
            files = {path: text for path, text in files.items() if (project / path).exists()}
        lines += _differences(project, files)
    return "".join(lines + _differences(project, {**placed(project, files_of_sources(tables), there), **beside}))


def _differences(project: Path, files: Mapping[str, str]) -> list[str]:
    lines: list[str] = []
    for path, text in files.items():
        there = (project / path).read_text() if (project / path).exists() else ""
        lines += difflib.unified_diff(
            there.splitlines(keepends=True), text.splitlines(keepends=True), path, f"{path} (seen)"
        )
    return lines


def write(project: Path, files: dict[str, str], mode: Literal["x", "w"] = "x") -> None:
    """Write files that are not there; one that is there only with the mode `w`, if nobody has edited it.

    All are written aside before the first is there: half a table's models would be taken for all that it should have.

    Raises:
        Fault: One can't be written; then none is.
    """
    asides: dict[Path, Path] = {}
    try:
        for path, text in files.items():
            place = project / path
            if mode == "x" and place.exists():
                raise FileExistsError(place)
            place.parent.mkdir(parents=True, exist_ok=True)
            asides[place] = place.with_name(f".{os.getpid()}.{len(asides)}")
            asides[place].write_text(text, encoding="utf-8")
        for place, aside in asides.items():
            aside.rename(place)
    except OSError as error:
        with suppress(OSError):
            for aside in asides.values():
                aside.unlink(missing_ok=True)
        raise Fault(
            f"{project}: models can't be written ({error.strerror or error}). Make room, or give this user the right to"
            " write there, and scaffold again."
        ) from error


def _transactions(source: str, changes: Iterable[str]) -> dict[str, str]:
    values = {"source": source, "changes": list(changes)}
    environment = _environment()
    return {
        f"models/ops/{source}_transactions.{kind}": environment.get_template(f"transactions.{kind}.j2").render(values)
        for kind in ("sql", "yml")
    }


def _struct(columns: Iterable[SeenColumn]) -> str:
    fields = ", ".join(f"{quoted(column.name)}: {column.type}" for column in columns)
    return f"struct<{fields or 'none: string'}>"


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(  # noqa: S701 - writes no HTML; each value goes through a filter of its kind
        loader=jinja2.PackageLoader("spark_jobs.scaffolding"),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    filters: dict[str, Callable[[Any], str]] = {
        "yaml": _yaml,
        "argument": _argument,
        "literal": _literal,
        "python": literal,
        "block": _block,
        "described": _described,
        "tojson": _list,
    }
    environment.filters |= filters
    return environment


def _yaml(value: str) -> str:
    """A value as one YAML scalar; Jinja in it is shown and not run."""
    return literal(_inert(value))


def _argument(value: Any) -> str:
    """A list or mapping of names as an argument of a dbt test, which runs Jinja in it and what looks like a call."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_argument(name)}: {_argument(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_argument, value)) + "]"
    return literal(value if re.fullmatch("[A-Za-z0-9_]*", value) else f"{{{{ {_literal(value)} }}}}")


def _literal(value: str) -> str:
    """A text as a literal of Jinja."""
    return literal(value, "'")


def _list(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_literal(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_literal(name)}: {_list(item)}" for name, item in value.items()) + "}"
    return str(value).lower() if isinstance(value, bool) else _literal(value)


def _block(value: str) -> str:
    """A text on one line of a description. dbt's documentation takes HTML in one for its own: `‹` begins none."""
    return _inert(on_one_line(" ".join(str(value).split()))).replace("<", "‹")


def _inert(value: str) -> str:
    return re.sub("[{](?=[{%#])", "{ ", value)


def _described(column: SeenColumn) -> str:
    words = [f"`{column.field}` as the source has it"]
    if column.is_optional is not None:
        words.append("may be NULL" if column.is_optional else "never NULL in the source")
    if column.default is not None:
        words.append(f"default {column.default}")
    text = ", ".join(words) + "."
    return _block(f"{text} Type guessed from the values: {column.note}." if column.note else text)
