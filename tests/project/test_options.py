"""One schema for every option: what it refuses, what it says, and that macros and documents agree with it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jinja2
import pytest
from jinja2 import nodes

from docs.generate import GENERATED, PLACES, PROJECT, option_schema
from spark_jobs.declarations import run_dbt
from spark_jobs.places import Places
from spark_jobs.texts import folded, literal
from tests.projects import empty_project

ENTRY_POINTS = {
    "changes": "macros/changes/changes.sql",
    "history": "macros/history/history.sql",
    "current": "macros/current/current.sql",
    "accounting": "macros/accounting/accounting.sql",
    "outbox": "macros/outbox/outbox.sql",
    "messages": "macros/channels/messages.sql",
    "schema_versions": "macros/channels/schema_versions.sql",
    "snapshots": "macros/channels/snapshots.sql",
    "transactions": "macros/transactions/transactions.sql",
}
CHANGES = "{{ changes('shop', 'orders', key=['id'], columns={'id': 'int', 'state': 'string'}) }}"
SOURCE = """
sources:
  - name: shop
    schema: bronze
    tables: [{name: orders, identifier: records, config: {meta: {feed: shop__orders}}}]
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = empty_project(tmp_path_factory.mktemp("options") / "project")
    (folder / "models/shop.yml").write_text(SOURCE)
    return folder


def parsed(project: Path, model: str, sources: str = "{}") -> Any:
    """What dbt parses of one model, with what is said of sources in dbt_project.yml."""
    settings = (PROJECT / "dbt_project.yml").read_text()
    assert "sources: {}" in settings
    (project / "dbt_project.yml").write_text(settings.replace("sources: {}", f"sources: {sources}"))
    (project / "models/shop__orders_changes.sql").write_text(model)
    result = run_dbt(Places.of(project), ["--quiet", "parse"])
    if not result.success:
        return str(result.exception)
    return result.result.nodes["model.tidemark.shop__orders_changes"].config.meta


ASKED = "{{{{ config(materialized='view') }}}} select * from {{{{ {} }}}} as asked"
OPTIONS_OF_SOURCE = "{{ config(meta={'options': source_options('shop')}) }} select 1 as one"
CHECKED = "{{ config(materialized='view') }} {% do check_options('history', dict(changes='log', $)) %} select 1 as one"
CHECKED_COLUMNS = (
    "{{ config(materialized='view') }}"
    " {% do tracked_columns({'columns': [], 'known_names': [], 'key': ['id']}, $) %} select 1 as one"
)


@pytest.mark.parametrize(
    ("model", "sources", "says"),
    [
        (
            CHANGES.replace("key=", "keys="),
            "{}",
            "shop__orders_changes: changes has no option 'keys'. Did you mean 'key'?",
        ),
        (CHANGES.replace("'string'", "{'typ': 'string'}"), "{}", "state has no option 'typ'. Did you mean 'type'?"),
        (
            CHANGES.replace("'string'", "{'type': 'decimal(9,2)', 'encoding': 'uuencode'}"),
            "{}",
            'encoding is "uuencode"; it takes org.apache.kafka.connect.data.Decimal:<scale> or ',
        ),
        (CHANGES.replace("'string'", "5"), "{}", "columns: state is 5; it takes a type, or options: type, field,"),
        *(
            (CHANGES.replace("'string'", f"'{kind}'"), "{}", f"columns: state: the declared type '{kind}' {fault}")
            for kind, fault in [
                ("strng", "is none that Tidemark decodes. Declare one of string,"),
                ("variant", "is none that Tidemark decodes."),
                ("array<variant>", "has the part 'variant', which is none that Tidemark decodes."),
                ("struct<a:int,b:variant>", "has the part 'variant', which is none that Tidemark decodes."),
                ("map<string,interval year>", "has the part 'interval year', which is none that Tidemark decodes."),
                ("decimal(50,2)", "is no decimal(p,s) of p digits, 38 at most"),
                ("map<string,decimal(5,9)>", "is no decimal(p,s) of p digits, 38 at most"),
                ("decimal(5,2), x int", "is no decimal(p,s) of p digits, 38 at most"),
                ("struct<x int", "is none that Tidemark decodes."),
                ("struct<x:int>>", "is none that Tidemark decodes."),
                *((f"struct<{part}>", "has the part '', which is none that") for part in ("", "x:int,", ":int", "x")),
                ("array<int,int>", "has not the parts that an array<…> or a map<string,…> has."),
                ("map<int,string>", "has keys that no JSON has: declare a map<string,…>."),
                ("array<struct<x:double,X:double>>", "has two fields that Spark takes for one."),
            ]
        ),
        (CHANGES.replace("'state'", "'ID'"), "{}", "columns: Spark takes 'id' and 'ID' for one. Give one of them"),
        (
            "{{ outbox(['outbox.event.Order'], {'Topic': {'type': 'string', 'field': 'topic'}}) }}", "{}",
            "columns: 'Topic' is a column that every event has. Give this one another name, and say `field: 'topic'`.",
        ),
        (CHECKED.replace("$", "column_names={'position': 5}"), "{}", '{"position": 5}; it takes a mapping of names'),
        (CHECKED.replace("'log'", "nothing").replace("$", ""), "{}", "history needs 'changes': a text."),
        *(
            (ASKED.format(query), "{}", f"{option} has no option 'valid_form'. Did you mean 'valid_from'?")
            for query, option in [
                ("as_of(this, 'now()', {'valid_form': 'since'})", "column_names"),
                ("with_past(this, this, ['id'], {'versions': 'all', 'valid_form': 'since'})", "column_names"),
                (
                    "changes_between(this, ['id'], ['state'], 'a', 'b', {'change': 'how', 'valid_form': 'since'})",
                    "column_names",
                ),
                ("point_in_time_join(this, this, 'a', [], ['state'], left_names={'valid_form': 'x'})", "left_names"),
                ("point_in_time_join(this, this, 'a', [], ['state'], right_names={'valid_form': 'x'})", "right_names"),
            ]
        ),
        (OPTIONS_OF_SOURCE, "[shop]", 'vars: tidemark: sources is ["shop"]; it takes a mapping, of the name of each'),
        *(
            (OPTIONS_OF_SOURCE, f"{{{name}: {{}}}}", f"YAML reads the name of a source there as {read}, which")
            for name, read in [("no", "False"), ("null", "None"), ("2024", "2024"), ("0x1f", "31")]
        ),
        (CHECKED.replace("$", "granularity='row'"), "{}", 'granularity is "row"; it takes transaction or event.'),
        (CHECKED.replace("$", "track='state'"), "{}", 'track is "state"; it takes a list of names.'),
        (CHECKED.replace("changes='log', $", ""), "{}", "history needs 'changes': a text."),
        (CHANGES.replace("key=", "source_fields=['query'], key="), "{}", "the text of a statement can hold what"),
        (CHECKED_COLUMNS.replace("$", "['state'], ['state']"), "{}", "ignore names 'state', and so does track."),
        (CHECKED_COLUMNS.replace("$", "none, ['id']"), "{}", "ignore names 'id', a column of the key: another value"),
        (
            OPTIONS_OF_SOURCE, "{}\n    source: {shop: {consistent: true}}",
            "vars: tidemark: source has options of sources (consistent), and nobody reads it. Did you mean 'sources'?",
        ),
        (OPTIONS_OF_SOURCE, "{shop: {placeholdr: x}}", "shop has no option 'placeholdr'. Did you mean 'placeholder'?"),
        (OPTIONS_OF_SOURCE, "{shop: {placeholder: 'hex:5f5'}}", "a text, or hex: and two digits for each byte"),
        (OPTIONS_OF_SOURCE, "{shop: {before_is_whole: 'yes'}}", 'before_is_whole is "yes"; it takes true or false.'),
        (OPTIONS_OF_SOURCE, "{shop: {new_logs: [{topic: t, offset: 1}]}}", "a list of {topic, partition, offset}"),
        (OPTIONS_OF_SOURCE, "{shop: here}", 'sources: shop is "here"; it takes options: connector, placeholder,'),
        (OPTIONS_OF_SOURCE, "{shop: {connector: postgres}}", "it takes postgresql or mysql or mariadb or oracle"),
    ],
)  # fmt: skip
def test_what_no_option_takes_is_refused_in_words(project: Path, model: str, sources: str, says: str) -> None:
    assert says in parsed(project, model, sources)


def test_a_field_is_found_however_json_spells_its_name(project: Path) -> None:
    name = 'é"\\u00e9\\\x1b\n'
    model = f"{{{{ config(meta={{'its': spellings({literal(name)})}}) }}}} select 1 as one"

    spelled = parsed(project, model)["its"]

    assert {json.loads(f'"{one}"') for one in spelled} == {name}
    assert spelled == [
        r'é\"\\u00e9\\\u001b\n', r'\u00e9\"\\u00e9\\\u001b\n', r'é\"\\u00e9\\\u001B\n', r'\u00E9\"\\u00e9\\\u001B\n',
    ]  # fmt: skip


# A type, and its one spelling: tests/types has values of such types.
SPELLED = {
    "DECIMAL( 38 , 38 )": "decimal(38,38)",
    "decimal": "decimal",
    "decimal(7)": "decimal(7)",
    "array<array<decimal(3,1)>>": "array<array<decimal(3,1)>>",
    "Map < STRING , varchar(9) >": "map<string,string>",
    "struct<`a, >b`: struct<C  INT, char:array<string>>, B : TIMESTAMP_LTZ, f: map<string,char( 3 )>>": (
        "struct<`a, >b`:struct<C int,char:array<string>>,B:timestamp,f:map<string,string>>"
    ),
}


def test_types_that_spark_has_are_taken_in_one_spelling(project: Path) -> None:
    columns = ", ".join(f"'c{number}': '{kind}'" for number, kind in enumerate(SPELLED))
    taken = parsed(project, CHANGES.replace("'state': 'string'", columns))["tidemark"]["columns"][1:]

    assert [column["type"] for column in taken] == [*SPELLED.values()]


@pytest.mark.parametrize(
    ("project_name", "arguments", "says"),
    [
        (
            "acme",
            [],
            "dbt reads variables under the project's name, acme. Rename the key `tidemark` to acme.",
        ),
        ("tidemark", ["--vars", "{tidemark: {sources: {shop: {}}}}"], "--vars takes it as '{sources: …}'."),
    ],
)
def test_sources_where_no_project_reads_them_are_refused(
    project: Path, project_name: str, arguments: list[str], says: str
) -> None:
    settings = (PROJECT / "dbt_project.yml").read_text().replace("name: tidemark", f"name: {project_name}", 1)
    (project / "dbt_project.yml").write_text(
        settings.replace("sources: {}", "sources: {shop: {before_is_whole: true}}")
    )
    (project / "models/shop__orders_changes.sql").write_text(OPTIONS_OF_SOURCE)

    result = run_dbt(Places.of(project), ["--quiet", "parse", *arguments])

    assert f"vars: tidemark: sources is not read: {says}" in str(result.exception)


def test_what_is_said_of_a_source_is_merged_with_defaults(project: Path) -> None:
    elsewhere = "{shop: {before_is_whole: true}}\n    owners: {shop: {team: orders}, elsewhere: {}}"
    said = parsed(project, OPTIONS_OF_SOURCE, elsewhere)

    assert said["options"] == {
        "connector": None, "placeholder": "__debezium_unavailable_value", "before_is_whole": True,
        "full_updates": "lookup", "new_logs": [],
        "consistent": False, "transaction_topic": None, "given_up": [], "snapshot_notifications": False,
            "silent_after_minutes": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("sources", "its"),
    [
        ("{shop: {consistent: true}, shop__eu: {consistent: true}}", "shop__eu_transactions"),
        ("{shop__eu: {consistent: true}, shop: {consistent: true}}", "shop__eu_transactions"),
        ("{shop: {consistent: true}, shop__eu: {}}", None),
        ("{shop: {consistent: true}}", "shop_transactions"),
    ],
)
def test_a_model_is_of_the_source_with_the_longest_name_that_its_own_begins_with(
    project: Path, sources: str, its: str | None
) -> None:
    model = "{{ config(meta={'its': transactions_of('shop__eu__public__t_changes')}) }} select 1 as one"

    assert parsed(project, model, sources)["its"] == its


def test_a_model_that_is_not_of_the_source_which_its_name_tells_stops_the_build(tmp_path: Path) -> None:
    project = empty_project(tmp_path / "project")
    (project / "models/shop.yml").write_text(SOURCE)
    (project / "dbt_project.yml").write_text(
        (PROJECT / "dbt_project.yml").read_text().replace("sources: {}", "sources: {shop: {consistent: true}}")
    )
    (project / "models/shop__eu__t_changes.sql").write_text(
        "{{ config(meta={'tidemark': {'source': 'shop__eu.t'}}) }} select 1 as one"
    )
    (project / "models/asking.sql").write_text("select '{{ transactions_of('shop__eu__t_changes') }}' as one")

    asked = run_dbt(
        Places.of(project), ["--quiet", "compile", "--no-introspect", "--no-populate-cache", "-s", "asking"]
    )

    assert "shop__eu__t_changes is of the source 'shop__eu', and by its name of 'shop'." in str(
        asked.exception or [one.message for one in asked.result]
    )


def signature(scope: str) -> dict[str, Any]:
    """The arguments of an entry point's macro, with their defaults; `...` where there is none."""
    # dbt's own block: its body is Jinja, its tag is not.
    text = re.sub(r"{%-? *(end)?materialization.*?%}", "", (PROJECT / ENTRY_POINTS[scope]).read_text())
    tree = jinja2.Environment(extensions=["jinja2.ext.do"]).parse(text)  # noqa: S701 - parses, renders nothing
    [macro] = [one for one in tree.find_all(nodes.Macro) if one.name == scope]
    required = len(macro.args) - len(macro.defaults)
    return {
        one.name: ... if i < required else macro.defaults[i - required].as_const() for i, one in enumerate(macro.args)
    }


@pytest.mark.parametrize("scope", ENTRY_POINTS)
def test_a_macro_takes_what_the_schema_says(scope: str) -> None:
    schema = option_schema()[scope]

    assert signature(scope) == {name: option.get("default", ...) for name, option in schema.items()}


@pytest.mark.parametrize("name", GENERATED)
def test_generated_documents_are_fresh(name: str) -> None:
    assert (PROJECT / name).read_text() == GENERATED[name](), "stale: run `make docs`"


def test_every_place_is_documented() -> None:
    files = [
        PROJECT / "profiles.yml",
        *(PROJECT / "macros").rglob("*.sql"),
        *(PROJECT / "spark_jobs").rglob("*.py"),
    ]

    assert {name for file in files for name in re.findall(r"TIDEMARK_[A-Z0-9_]+", file.read_text())} == set(PLACES)


def test_names_are_folded_alike_by_macros_and_in_python() -> None:
    macros = (PROJECT / "macros/project/quoting.sql").read_text()
    [text] = re.findall(r"{% macro folded\(.*?endmacro %}", macros, re.S)
    environment = jinja2.Environment(extensions=["jinja2.ext.do"], autoescape=False)  # noqa: S701 - no page
    macro = environment.from_string(text, {"return": str}).module.folded

    for name in ("İD", "ıd", "Straße", "ΟΔΟΣ", "4\u212a", "\u1fb3\u1fbc", "ŉ"):
        assert macro(name) == folded(name)
    assert len({folded(name) for name in ("ID", "id", "İD", "ıd")}) == 1
