"""Lint the SQL that Spark gets. Run by `make check`.

Nearly all of the project's SQL is written by macros, and sqlfluff's own templaters can't follow them: the jinja one has
no `return`, `graph` or `run_query`, the dbt one needs a session. So dbt's part is played here: every model and data
test of the project is rendered against a catalog that answers each question with a stub, first as a first build, then
as an increment, and what comes out is linted: the statements that building runs, and the tests. They are in
`target/linted/` to look at. Files of plain SQL are linted where they are.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any

import jinja2
import yaml

LAYERS = ("silver/changes", "gold/history", "silver/current", "ops")
# One key, decimals, times and text, deletes and truncates: the other tables are the same macros again.
MODELS = ("inv__public__customers_*.sql", "inv_transactions.sql")
TESTED = "inv__public__customers"
# What the columns of a table are said to be.
COLUMNS = (("id", "int"), ("is_current", "boolean"))
# dbt calls a macro by its name from anywhere; plain jinja would find the file's own first, without `return`.
_PREFIX = "dbt__"
_DEFINED = re.compile(r"macro dbt__(\w+)")
_MATERIALIZATION = re.compile(r"{%(-?)\s*materialization\s+(\w+)\s*,.*?%}")
_BEGIN = re.compile(r"{%(-?)\s*(?:macro|test)\s+(\w+)\s*\((.*?)\)\s*(-?)%}", re.DOTALL)
_END = re.compile(r"{%(-?)\s*end(?:materialization|test)\s*(-?)%}")


def _as_macros(text: str) -> str:
    text = _MATERIALIZATION.sub(r"{%\1 macro materialization_\2() %}", text)
    return _END.sub(r"{%\1 endmacro \2%}", _BEGIN.sub(rf"{{%\1 macro {_PREFIX}\2(\3) \4%}}", text))


class _ReturnError(Exception):
    """What dbt's `return` leaves a macro with."""


class _Numbers:
    """A row of one number, by place or by name."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __getitem__(self, place: int | str) -> int:
        return self._number


class _Answer:
    """What the catalog says to a question: one row of numbers when asked for one, and rows to go through."""

    def __init__(self, number: int, rows: Sequence[Sequence[str]] = ()) -> None:
        self._rows = rows
        self.columns = [SimpleNamespace(values=lambda: [number])]
        self._row = _Numbers(number)

    def __getitem__(self, index: int) -> _Numbers:
        return self._row

    def __iter__(self) -> Iterator[Sequence[str]]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class _Relation(SimpleNamespace):
    def incorporate(self, **changed: str) -> _Relation:
        return self

    def __str__(self) -> str:
        return f"{self.schema}.{self.identifier}"


class _Config:
    """A model's `config`: called to set, asked with `get`."""

    def __init__(self, node: Any) -> None:
        self._node = node
        self._options: dict[str, Any] = {}

    def __call__(self, **options: Any) -> str:
        self._options |= options
        self._node.config.meta = _named(self._options.get("meta"))
        return ""

    def get(self, name: str, default: Any = None) -> Any:
        return _named(self._options.get(name, default))


def _environment() -> jinja2.Environment:
    return jinja2.Environment(extensions=["jinja2.ext.do"], undefined=jinja2.StrictUndefined)  # noqa: S701 - SQL, no HTML


@cache
def _compiled(text: str) -> CodeType:
    """Jinja's code of a text: compiling all macros takes seconds, and each statement has them in another context."""
    code: CodeType = _environment().compile(text)
    return code


class _Macros(dict[str, Callable[..., Any]]):
    """Macros by name, each with dbt's `return`, in one context."""

    def __init__(self, text: str, context: dict[str, Any]) -> None:
        environment = self._environment = _environment()
        environment.globals |= context | {name: self._calling(name) for name in _DEFINED.findall(text)}
        macros = jinja2.Template.from_code(environment, _compiled(text), environment.globals)
        for name, macro in vars(macros.module).items():
            if name.startswith(_PREFIX):
                self[name.removeprefix(_PREFIX)] = _returning(macro)

    def template(self, text: str) -> str:
        """A text rendered where the macros are known."""
        return str(self._environment.from_string(text).render())

    def _calling(self, name: str) -> Callable[..., Any]:
        return lambda *positional, **named: self[name](*positional, **named)


class Project:
    """The project's macros, and as much of dbt as they ask for."""

    def __init__(self, root: Path, *, is_built: bool) -> None:
        """Read the macros below `root`; `is_built` says whether the tables are there already."""
        self._root = root
        self._is_built = is_built
        self._nodes: dict[str, Any] = {}
        self._statements: list[str] = []
        paths = [*sorted(root.glob("macros/**/*.sql")), *sorted(root.glob("tests/dbt/generic/*.sql"))]
        self._macros = "".join(_as_macros(path.read_text(encoding="utf-8")) for path in paths)

    def build(self, path: Path) -> list[str]:
        """The statements that building a model runs."""
        name = path.stem
        layer = path.relative_to(self._root).parts[1]
        node = SimpleNamespace(
            name=name, alias=name, schema=layer, unique_id=f"model.tidemark.{name}", resource_type="model",
            description="", original_file_path=str(path), config=SimpleNamespace(meta=None),
        )  # fmt: skip
        self._nodes[node.unique_id] = node
        self._statements = []
        config = _Config(node)
        known = {"type": "table", "is_delta": True, "information": f"Location: /project/lakehouse/{layer}/{name}"}
        model = {"model": node, "config": config, "this": _Relation(schema=layer, identifier=name, **known)}
        sql = self._macros_with(model).template(path.read_text(encoding="utf-8"))
        kind = name.rpartition("_")[2]
        materialized = config.get("materialized") or ("remade" if layer == "ops" else kind)
        self._macros_with(model | {"compiled_code": sql})[f"materialization_{materialized}"]()
        return self._statements

    def test(self, name: str) -> str:
        """The query of a generic test."""
        text = (self._root / f"tests/dbt/generic/{name}.sql").read_text(encoding="utf-8")
        takes = "".join(found[2] for found in _BEGIN.findall(text))
        history = _Relation(schema="gold", identifier=f"{TESTED}_history")
        beside = {
            "key": ["id"], "history": history, "changes": _Relation(schema="silver", identifier=f"{TESTED}_changes"),
        }  # fmt: skip
        given = {one: value for one, value in beside.items() if one in takes}
        return str(self._macros_with({})[name](history, **given))

    def _macros_with(self, names: dict[str, Any]) -> _Macros:
        context = self._dbt() | names
        macros = _Macros(self._macros, context)
        context["graph"]["tidemark"] = macros["empty_memory"]() | {"landed": 1}
        return macros

    def _dbt(self) -> dict[str, Any]:
        sources = [
            SimpleNamespace(
                source_name=source["name"], name=table["name"], meta=table.get("config", {}).get("meta", {})
            )
            for path in sorted(self._root.glob("models/bronze/*.yml"))
            for source in yaml.safe_load(path.read_text(encoding="utf-8"))["sources"]
            for table in source["tables"]
        ]
        return {
            "execute": True,
            "flags": SimpleNamespace(WHICH="build", EMPTY=False),
            "invocation_args_dict": SimpleNamespace(project_dir="/project"),
            "var": lambda name, default=None: default,
            "env_var": lambda name, default="": default,
            "target": SimpleNamespace(schema="default"),
            "project_name": "tidemark",
            "adapter": SimpleNamespace(config=SimpleNamespace(vars=SimpleNamespace(to_dict=dict), cli_vars={})),
            "graph": {
                "nodes": self._nodes,
                "sources": {f"{one.source_name}.{one.name}": one for one in sources},
            },
            "source": lambda source, table: "bronze.records",
            "ref": self._ref,
            "return": _give_back,
            "run_query": self._query,
            "statement": lambda name, caller, **options: str(self._query(caller()) and ""),
            "store_raw_result": lambda **result: "",
            "run_hooks": lambda hooks: "",
            "pre_hooks": [],
            "post_hooks": [],
            "load_relation": lambda relation: relation if self._is_built else None,
            "should_full_refresh": lambda: False,
            "selected_resources": list(self._nodes),
            "api": SimpleNamespace(Relation=SimpleNamespace(create=lambda **names: _Relation(**names))),
            "exceptions": SimpleNamespace(raise_compiler_error=_refuse, warn=lambda words: ""),
            "modules": SimpleNamespace(re=re, datetime=SimpleNamespace(datetime=datetime)),
            "invocation_id": "lint",
            "run_started_at": datetime(2024, 5, 1, tzinfo=UTC),
            "tojson": json.dumps,
            "fromjson": lambda text: _named(json.loads(text)),
            "local_md5": lambda text: hashlib.md5(text.encode()).hexdigest(),  # noqa: S324 - dbt's own
            "log": lambda *words, **options: "",
        }

    def _ref(self, name: str) -> _Relation:
        layer = "gold" if name.endswith("_history") else "silver"
        return _Relation(schema=layer, identifier=name)

    def _query(self, sql: str) -> _Answer:
        self._statements.append(sql)
        if sql.startswith("describe query select * "):
            return _Answer(1, COLUMNS)
        # No progress is recorded, and no truncate is among the new changes: an increment of its keys alone.
        return _Answer(0 if re.match(r"\s*select (count\(\*\) |max\(batch_id\) from delta)", sql) else 1)


class _Named(dict[str, Any]):
    """A mapping whose keys are attributes too, as jinja reads either."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def _named(value: Any) -> Any:
    return _Named({key: _named(one) for key, one in value.items()}) if isinstance(value, dict) else value


def _give_back(value: Any = None) -> None:
    raise _ReturnError(value)


def _refuse(words: str) -> None:
    raise SystemExit(f"SQL lint: {words}")


def _returning(macro: Callable[..., Any]) -> Callable[..., Any]:
    def called(*positional: Any, **named: Any) -> Any:
        try:
            return macro(*positional, **named)
        except _ReturnError as returned:
            return returned.args[0]

    return called


def rendered(root: Path) -> Iterator[tuple[str, str]]:
    """Every statement that a build runs, and every data test, under a name that says where it is from."""
    for is_built in (False, True):
        project = Project(root, is_built=is_built)
        paths = [path for layer in LAYERS for path in sorted((root / "models" / layer).glob("*.sql"))]
        for path in paths:
            project.build(path)  # a history looks for its accounting in dbt's graph: all models are in it first
        for layer in LAYERS:
            for path in sorted((root / "models" / layer).glob("*.sql")):
                statements = project.build(path)
                for number, statement in enumerate(statements if any(map(path.match, MODELS)) else []):
                    yield f"{path.stem}.{'increment' if is_built else 'first_build'}.{number}", statement
    for path in sorted(root.glob("tests/dbt/generic/*.sql")):
        yield path.stem, project.test(path.stem)


def main() -> int:
    """Render and lint; sqlfluff's exit status."""
    root = Path(__file__).parents[1]
    folder = root / "target" / "linted"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for sql, name in {sql: name for name, sql in rendered(root)}.items():
        (folder / f"{name}.sql").write_text(sql.strip() + "\n", encoding="utf-8")
    sqlfluff = Path(sys.executable).with_name("sqlfluff")
    command: list[str | Path] = [
        sqlfluff,
        "lint",
        "--config",
        root / "pyproject.toml",
        "--processes",
        "2",
        "--disable-progress-bar",
    ]
    return subprocess.run([*command, folder, *root.glob("examples/**/*.sql")], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
