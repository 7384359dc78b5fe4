"""Write the generated references: `make docs`. A test says when one is stale."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from spark_jobs.macro_queries import returned

PROJECT = Path(__file__).parents[1]
OWNING = ("macros", "spark_jobs", "expectations", "tests")

_SCOPES = {
    "changes": ("A table: its `_changes` model", "Named arguments of `{{ changes(…) }}`."),
    "column": (
        "A column of a table",
        "In the mapping that `columns` takes, in place of the type alone:"
        " `'email': {'type': 'string', 'sensitive': true}`.",
    ),
    "history": ("A table: its `_history` model", "Named arguments of `{{ history(…) }}`."),
    "current": ("A table: its `_current` model", "Named arguments of `{{ current(…) }}`."),
    "accounting": ("A table: its `_accounting` model", "Named arguments of `{{ accounting(…) }}`."),
    "outbox": ("Outbox events: an `_events` model", "Named arguments of `{{ outbox(…) }}`."),
    "messages": ("A topic prefix: its `_messages` model", "Named arguments of `{{ messages(…) }}`."),
    "schema_versions": (
        "A topic prefix: its `_schema_versions` model",
        "Named arguments of `{{ schema_versions(…) }}`.",
    ),
    "snapshots": ("A topic prefix: its `_snapshots` model", "Named arguments of `{{ snapshots(…) }}`."),
    "transactions": ("A source: its `_transactions` model", "Named arguments of `{{ transactions(…) }}`."),
    "source": (
        "A source",
        "What records can't show, in `dbt_project.yml` under `vars: tidemark: sources: <source>:`, where `<source>` is"
        " the dbt source that scaffolding names after the topic prefix, for example"
        " `sources: {orders_db: {before_is_whole: true, silent_after_minutes: 15}}`.",
    ),
}
# What options take, where the page says it otherwise than the macro `takes_in_words`: with marks, or by a list below.
_IN_MARKDOWN = {
    "boolean": "`true` or `false`", "connector": "the name of a connector", "encoding": "one of the encodings below",
    "placeholder": "a text, or `hex:` and two digits for each byte",
    "places": "a list of {`topic`, `partition`, `offset`, `label`}",
}  # fmt: skip
ENCODINGS = """\
How a value is encoded stands in its record's schema. Where there is none, or it names a literal type alone or a
semantic type that Tidemark doesn't know, what the value itself tells decides: a number, ISO 8601, base64 that can't be
hexadecimal, days for a date. What can be read in more than one way, such as a whole number for a timestamp or base64
for a decimal, is NULL with its text in `exact_values`, until the column's `encoding` says how. Where other records of
the column have schemas that all tell one encoding, `scaffold` declares it, the report asks for it, and digits in a
column of text are read by it if it counts time. These can be declared:"""
PLACES_ARE = (
    "The environment says where things are, as whom to connect, and how much memory and how many cores a process may"
    " use. The paths of lakehouse and catalog are relative to the project, any other path to the folder where a command"
    " is typed. Where dbt is run by itself, paths with letters beyond ASCII need a locale of UTF-8 (`LC_ALL=C.UTF-8`)."
)
PLACES = {
    "TIDEMARK_LAKEHOUSE": (
        "`lakehouse` in the project",
        "Folder of every table, report and log; or, with the targets of a cluster, a place on an object store"
        " (`s3a://…`), which AWS's own variables tell how to reach.",
    ),
    "TIDEMARK_TARGET": (
        "`profiles.yml`'s",
        "The target: `local`, `local_dev`, `thrift`, `thrift_dev`; `--target` before it."
        " [cluster.md](cluster.md) says more.",
    ),
    "TIDEMARK_LEASE_SECONDS": ("60", "On an object store: for how long a silent writer keeps the lock."),
    "TIDEMARK_CATALOG": ("`catalog` in the project", "Folder of the embedded metastore; a lost one is made anew."),
    "TIDEMARK_REGISTRY_URL": (
        "none",
        "Address of the schema registry for Avro: Confluent's, or Apicurio's with the version of the converters that"
        " write: `…/apis/registry/v2` (they write global ids) or `…/v3` (content ids). If converters of version 2 write"
        " ids of four bytes, set `apicurio.registry.use-id=contentId` in them: Tidemark looks for such an id among"
        " content ids first, then among global ids.",
    ),
    "TIDEMARK_REGISTRY_USER": ("none", "The registry's user, with `TIDEMARK_REGISTRY_PASSWORD`."),
    "TIDEMARK_REGISTRY_PASSWORD": ("none", "The password; in no log and no message."),
    "TIDEMARK_REGISTRY_TOKEN": ("none", "A bearer token, in place of user and password."),
    "TIDEMARK_REGISTRY_CA": (
        "those of Python's `certifi`",
        "File of certificates that the registry's is checked by; the system's are in"
        " `/etc/ssl/certs/ca-certificates.crt`.",
    ),
    "TIDEMARK_REGISTRY_FILE": (
        "none",
        "A YAML file with `url`, `user`, `password`, `token` and `ca`, or with a list of such. Each id is asked of all"
        " that give such ids: one that two of them give to different schemas is told by neither, and its records wait"
        " (`schema-ambiguous`) until a landing knows the one of their topics alone.",
    ),
    "TIDEMARK_KAFKA_USER": ("none", "Kafka's user, with `TIDEMARK_KAFKA_PASSWORD`: PLAIN or SCRAM."),
    "TIDEMARK_KAFKA_PASSWORD": ("none", "The password; in no log and no message."),
    "TIDEMARK_KAFKA_MECHANISM": ("`PLAIN`", "`PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`."),
    "TIDEMARK_KAFKA_SECURITY": (
        "`SASL_SSL` with a user, or a login in the file; `SSL` with certificates, or `ssl.…` in the file; else"
        " `PLAINTEXT`",
        "Kafka's `security.protocol`.",
    ),
    "TIDEMARK_KAFKA_CA": ("Java's", "PEM file of certificates that the broker's is checked by."),
    "TIDEMARK_KAFKA_CERTIFICATE": ("none", "PEM file of this client's certificate and its private key."),
    "TIDEMARK_KAFKA_KEY_PASSWORD": ("none", "What that key is encrypted with: PKCS #8 by PBES1."),
    "TIDEMARK_KAFKA_FILE": (
        "none",
        "A properties file as Kafka's own tools take it (`--command-config`), for every other way to connect.",
    ),
    "TIDEMARK_JARS": ("`.jars` in the project", "Folder of Spark's jars, as `make setup` fetched them."),
    "TIDEMARK_LOG4J": ("`conf/log4j2.properties`", "What Spark and Hive may say on the terminal."),
    "TIDEMARK_JAVA_OPTIONS": ("nothing", "Further options of Spark's JVM."),
    "TIDEMARK_DRIVER_MEMORY": (
        "`8g`",
        "Java's heap in the process that Spark runs in, at most; the process needs one or two GB more.",
    ),
    "TIDEMARK_MASTER": ("`local[*]`", "Of a cluster: Spark's master."),
    "TIDEMARK_CORES": ("all", "Of a cluster: how many cores one application may take."),
    "TIDEMARK_EXECUTOR_MEMORY": ("`4g`", "Of a cluster: memory of an executor."),
    "TIDEMARK_EXECUTOR_JAVA_OPTIONS": ("nothing", "Of a cluster: further options of executors' JVMs."),
    "TIDEMARK_DRIVER_HOST": ("Spark's", "Of a cluster: the name by which workers reach this machine."),
    "TIDEMARK_THRIFT_HOST": ("`127.0.0.1`", "Where the Thrift Server is."),
    "TIDEMARK_THRIFT_PORT": ("`10000`", "Its port."),
    "TIDEMARK_THRIFT_USER": ("`tidemark`", "Its user."),
    "TIDEMARK_METASTORE": ("a local PostgreSQL", "JDBC URL of the shared metastore's database."),
    "TIDEMARK_METASTORE_USER": ("none", "The user of that database."),
    "TIDEMARK_METASTORE_PASSWORD": ("none", "The password; in no setting, no log and no message."),
}
_MARK = re.compile(r"\bOwns ((?:[RG]\d+(?:, | and )?)+)")
RULES_ARE = """\
# Where each rule lives

Generated by `make docs` from the words `Owns R…` in comments: the one place that spells a rule, and for
a guarantee (G) the test that proves it. Other places may mention a rule; they don't say how it works.
What the rules say is in [contract.md](contract.md)."""
RULES = {
    "R1": "every record once, byte for byte",
    "R2": "quarantine",
    "R3": "one change delivered twice",
    "R4": "order",
    "R5": "a new log",
    "R6": "types",
    "R7": "unavailable values",
    "R8": "schema changes",
    "R9": "what opens and closes a version",
    "R10": "time",
    "R11": "transactions",
    "R12": "no change, no version",
    "R13": "re-insert",
    "R14": "key change",
    "R15": "truncate",
    "R16": "snapshots",
    "R17": "what is no row change",
    "R18": "tables without a key",
    "R19": "before",
    "G1": "convergence",
    "G2": "rebuild",
    "G3": "replay",
    "G4": "kill anywhere",
    "G5": "the database agrees",
    "G6": "nothing disappears",
    "G7": "a consistent cut",
    "G8": "one commit",
}


OBSERVED_IS = """\
# What real connectors wrote, and the tests of it

Generated by `make docs` from the words `Observed …` in tests. Each line surprised in captures of
Debezium 2.5.4 and 3.5.0 on PostgreSQL 15 and MariaDB 10.11."""
# Tests name the numbers as `Observed 5`.
OBSERVED = {
    1: "PostgreSQL's `transaction.id` is `txId:lsn`, with another lsn on every event",
    2: "PostgreSQL's `lsn` runs backwards where transactions interleave; `sequence[0]` is null at first",
    3: "`ts_ms` ties (PostgreSQL), is in whole seconds and runs backwards (MariaDB)",
    4: "the two halves of a key change, and two tables truncated at once, share a position",
    5: "MariaDB's events share positions by the hundred; `source.row` tells them apart",
    6: "redelivered events come after newer ones, with other `total_order`s and partial counts in END",
    7: "reads have no transaction; PostgreSQL's incremental ones no `lsn` either",
    8: "PostgreSQL's logical messages are in no transaction, and END counts them as a table that is none",
    9: "MariaDB writes BEGIN and END of transactions without events",
    10: "REPLICA IDENTITY DEFAULT: `before` is null on update, and its columns are invented on delete",
    11: 'REPLICA IDENTITY INDEX: deletes under key `{"id":0}`, a key change as a plain update',
    12: "the converter writes a column's default in place of NULL",
    13: "the unavailable value looks different in each type, and stands in key changes too",
    14: "truncates have neither key nor row; a delete without a key has a tombstone without one",
    15: "`__debezium.newkey` and `oldkey` are on the halves of a key change; 3.5.0 has headers everywhere",
    16: "a primary key that gains a column: keys of the old shape are never deleted",
    17: "an update that changes nothing has an event (PostgreSQL) or none (MariaDB); cascades have none",
    18: "after a lost offset the second snapshot tells of no delete and no state between",
    19: "tables without an identity are only ever inserted into",
    20: "a key can change in letter case alone",
    21: "decimals in base64 or with their scale; the largest unsigned bigint is -1",
    22: "generated columns, and values of the type `name`, are in the snapshot alone; arrays of arrays are empty",
    23: "infinite, far and BC times, NaN, 24:00:00",
    24: "bits are little-endian bytes; 2.5.4 reads a MariaDB blob as null",
    25: "MariaDB's zero times differ in snapshot and stream",
    26: "3.5.0 has finer times and other orders of fields; topics of other kinds come mixed in",
    27: "the rows of one COPY share an lsn",
    28: "MariaDB with 2.5.4: a snapshot can show transactions that the stream brings again",
}
_OBSERVED = re.compile(r"# Observed ((?:\d+(?:, )?)+)")
_SUBJECT = re.compile(r"(?:def (test_\w+)|- tape: (.+))")


def option_schema() -> dict[str, dict[str, dict[str, Any]]]:
    """The schema of options: scope → option → what it takes."""
    schema: dict[str, dict[str, dict[str, Any]]] = returned("macros/project/options.sql", "option_schema")
    return schema


def configuration() -> str:
    """The text of docs/configuration.md."""
    parts = [
        "# Configuration\n\nGenerated by `make docs` from `macros/project/options.sql`, which also checks them: an"
        " unknown option is an error\nthat names the nearest known one.\n"
    ]
    for scope, options in option_schema().items():
        title, where = _SCOPES[scope]
        rows = [
            f"| `{name}` | {_takes(option['takes'])} | {_default(option)} | {option['about']}{_rule(option)} |"
            for name, option in options.items()
        ]
        parts.append(_page(f"## {title}\n\n{where}", "| Option | Takes | Default | |", rows))
    encodings = returned("macros/types/encodings.sql", "declarable_encodings")
    parts.append("\n".join(["## Encodings\n", f"{ENCODINGS}\n", *[f"- `{name}`" for name in encodings], ""]))
    places = [f"| `{name}` | {default} | {about} |" for name, (default, about) in PLACES.items()]
    parts.append(_page(f"## Places\n\n{PLACES_ARE}", "| Variable | Default | |", places))
    return "\n".join(parts)


def _page(head: str, columns: str, rows: Iterable[str]) -> str:
    """A table behind what is said of it; `columns` is its first line."""
    return "\n".join([f"{head}\n", columns, "|---" * (columns.count("|") - 1) + "|", *rows, ""])


def _takes(takes: str | list[str]) -> str:
    if not isinstance(takes, str):
        return " or ".join(f"`{value}`" for value in takes)
    if takes in _IN_MARKDOWN:
        return _IN_MARKDOWN[takes]
    # The macro asks for both whatever it is asked for.
    words: str = returned(
        "macros/project/options.sql", "takes_in_words", takes, connector_names=list, declarable_encodings=list
    )
    return words


def _default(option: dict[str, Any]) -> str:
    if "default" not in option:
        return "must be given"
    return "" if option["default"] in (None, {}) else f"`{json.dumps(option['default']).strip(chr(34))}`"


def _rule(option: dict[str, Any]) -> str:
    return f" ({option['rule']})" if "rule" in option else ""


def owners() -> Iterator[tuple[str, str]]:
    """Each rule or guarantee with a place that says `Owns …` of it."""
    for folder in OWNING:
        for path in sorted((PROJECT / folder).rglob("*")):
            if path.suffix in (".py", ".sql") and path.is_file():
                for mark in _MARK.finditer(path.read_text()):
                    for rule in re.findall(r"[RG]\d+", mark[1]):
                        yield rule, path.relative_to(PROJECT).as_posix()


def rules() -> str:
    """The text of docs/rules.md."""
    found: dict[str, list[str]] = {}
    for rule, path in owners():
        found.setdefault(rule, []).append(f"`{path}`")
    rows = [f"| {rule} | {about} | {', '.join(found.get(rule, ['not yet']))} |" for rule, about in RULES.items()]
    return _page(RULES_ARE, "| Rule | | Owner |", rows)


def observations() -> Iterator[tuple[int, str, str]]:
    """Each observation that a test names, with the test's file and the test, tape or capture.

    The mark stands behind a capture's name, or on the line above a test or a tape.
    """
    for path in sorted((PROJECT / "tests").rglob("*")):
        if path.suffix in (".py", ".yml"):
            lines = path.read_text().splitlines()
            for number, line in enumerate(lines):
                if mark := _OBSERVED.search(line):
                    named = re.search(r'"([^"]+)"', line[: mark.start()])
                    below = next((found for one in lines[number:] if (found := _SUBJECT.search(one))), None)
                    subject = named[1] if named else below and (below[1] or below[2])
                    for point in mark[1].split(", "):
                        yield int(point), path.relative_to(PROJECT).as_posix(), subject or ""


def observed() -> str:
    """The text of docs/observed.md."""
    found: dict[int, list[str]] = {}
    for point, path, subject in observations():
        found.setdefault(point, []).append(f"`{path}`: {subject}")
    tests = {point: "<br>".join(found[point]) for point in OBSERVED}
    rows = [f"| {point} | {about} | {tests[point]} |" for point, about in OBSERVED.items()]
    return _page(OBSERVED_IS, "| | What arrives | Test, tape or capture |", rows)


GENERATED = {"docs/configuration.md": configuration, "docs/rules.md": rules, "docs/observed.md": observed}

if __name__ == "__main__":
    for name, text in GENERATED.items():
        (PROJECT / name).write_text(text())
