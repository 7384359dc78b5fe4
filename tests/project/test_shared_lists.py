"""Names that macros and Python both have to spell: where one of them gains a name, the other is known to lack it."""

from __future__ import annotations

import re
from ast import literal_eval
from pathlib import Path

from docs.generate import PROJECT
from spark_jobs.columns import CURRENT_COLUMNS, EVENT_COLUMNS, OWN_COLUMNS
from spark_jobs.landing.forms import _BLOCK, _PLACE_FIELDS
from spark_jobs.macro_queries import returned, written
from spark_jobs.quarantine import PROBLEMS
from spark_jobs.record import JSON_LIMITS
from spark_jobs.reporting.signs import MEANINGS
from spark_jobs.scaffolding.types import _DECLARABLE
from spark_jobs.scaffolding.write import DOCUMENT_TYPE

SIGNS = PROJECT / "macros/accounting/signs.sql"


def macro(file: Path, name: str) -> str:
    """A macro's text."""
    [text] = re.findall(rf"{{% macro {name}\(.*?endmacro", file.read_text(), re.S)
    return str(text)


def test_each_problem_of_a_change_has_words() -> None:
    changes = PROJECT / "macros/changes"
    # A log of documents has the problems of every log, and behind them its own.
    [of_documents] = re.findall(r"{{ problem\(.*?as problem", (changes / "documents.sql").read_text(), re.S)
    codes = re.findall(r"then '(\w+)'", macro(changes / "changes.sql", "problem") + of_documents)

    assert set(codes) == set(PROBLEMS)


def test_each_sign_has_a_meaning() -> None:
    of_folds = re.findall(r"'(\w+)':", SIGNS.read_text())
    of_order = re.findall(r"then '(\w+)'", macro(SIGNS, "signs_of_order"))
    reporting = PROJECT / "spark_jobs/reporting"
    of_keys = re.findall(r'"(\w+_key_shapes)":', (reporting / "key_shapes.py").read_text())
    of_drops = re.findall(r'sign_of\("(\w+)"', (reporting / "dropped_tables.py").read_text())

    assert {*of_folds, *of_order, *of_keys, *of_drops} == set(MEANINGS)


def test_forms_bring_the_fields_that_connectors_are_read_by() -> None:
    texts = [path.read_text() for path in (PROJECT / "macros/connectors").glob("*.sql")]
    fields = {
        name: literal_eval(read)
        for text in texts
        for names, read in re.findall(r"'names': (\[.*?\]),\s*'fields': (\[.*?\])", text)
        for name in literal_eval(names)
    }

    assert {*fields} == {*_PLACE_FIELDS, "mongodb"}
    assert {one for read in fields.values() for one in read} <= {*_BLOCK}
    for name, needed in _PLACE_FIELDS.items():
        assert {*needed} <= {*fields[name], "schema"}


def test_scaffolding_knows_the_columns_that_models_get() -> None:
    assert [*OWN_COLUMNS] == returned("macros/history/version_rows.sql", "own_columns")
    assert [*EVENT_COLUMNS] == returned("macros/outbox/outbox.sql", "event_columns")
    assert [*CURRENT_COLUMNS] == returned("macros/current/current.sql", "current_columns")
    assert f" edits: {written('macros/changes/documents.sql', 'edits_type')}>" in DOCUMENT_TYPE


def test_scaffolding_declares_encodings_that_a_column_can_have() -> None:
    names = [name.replace("<scale>", "2") for name in returned("macros/types/encodings.sql", "declarable_encodings")]
    plain = ("base64", "base64-url-safe", "hex")  # no schema tells them

    assert [name for name in names if not _DECLARABLE.fullmatch(name)] == [*plain]
    assert not any(_DECLARABLE.fullmatch(name) for name in ("int64", "string", "bytes", "io.debezium.time.IsoDate"))


def test_what_records_hold_is_read_with_the_same_limits_everywhere() -> None:
    limits = re.findall(r"'(\w+)', '(\w+)'", macro(PROJECT / "macros/changes/envelope.sql", "read_json"))
    # What a macro has written itself is short, and has no fields of a table.
    elsewhere = {
        file.name
        for file in (PROJECT / "macros").rglob("*.sql")
        if re.search(r"\bfrom_json\((?!(\s*{{|\" ~) text_literal\(tojson\()", file.read_text())
    }

    assert dict(limits) == JSON_LIMITS
    assert elsewhere == {"envelope.sql"}
