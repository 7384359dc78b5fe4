"""Schema registries: what is asked of which, with what right, how often, and what a user is told. No Spark in it.

The registry is a stand-in (tests/registry.py): an HTTP server of ours that speaks both APIs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_jobs.errors import Fault, UsageError
from spark_jobs.landing.avro import connect_schema
from spark_jobs.landing.registry import CONTENT, GLOBAL, LONG, SHORT, Found, Registries
from tests.registry import APICURIO, StandIn, basic, serving

SCHEMA = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}
TEXT = '{"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}'
SECRET = "planted-secret"  # noqa: S105 - no password of anything


@pytest.fixture
def registry() -> Iterator[StandIn]:
    with serving() as one:
        one.register(SCHEMA)
        yield one


def registries(url: str, **more: str) -> Registries:
    return Registries.of({"TIDEMARK_REGISTRY_URL": url, **more})


def test_a_short_id_is_asked_of_confluents_api(registry: StandIn) -> None:
    assert registries(registry.url).schema(SHORT, 1) == Found(TEXT)
    assert registry.requests == ["/schemas/ids/1"]


@pytest.mark.parametrize(("kind", "place"), [(GLOBAL, "globalIds"), (SHORT, "contentIds"), (CONTENT, "contentIds")])
def test_ids_of_apicurio_are_asked_of_its_own_api(registry: StandIn, kind: str, place: str) -> None:
    assert registries(registry.apicurio).schema(kind, 1) == Found(TEXT)
    assert registry.requests == [f"/apis/registry/v2/ids/{place}/1"]


def test_four_bytes_that_are_no_content_id_of_apicurio_are_a_global_one(registry: StandIn) -> None:
    registry.only = "globalIds"

    assert registries(registry.apicurio).schema(SHORT, 1) == Found(TEXT)
    assert [path.split("/")[-2] for path in registry.requests] == ["contentIds", "globalIds"]


@pytest.mark.parametrize(("kind", "other"), [(GLOBAL, "contentIds"), (CONTENT, "globalIds")])
def test_an_id_that_says_of_which_kind_it_is_is_never_taken_for_another(
    registry: StandIn, kind: str, other: str
) -> None:
    registry.only = other

    assert registries(registry.apicurio).schema(kind, 1) == Found(code="schema-unknown")


@pytest.mark.parametrize(("version", "place"), [("v2", "globalIds"), ("v3", "contentIds")])
def test_an_id_that_says_nothing_is_of_the_kind_that_converters_of_its_version_write(
    registry: StandIn, version: str, place: str
) -> None:
    url = registry.apicurio.replace("v2", version)

    assert registries(url).schema(LONG, 1) == Found(TEXT)
    assert registry.requests == [f"/apis/registry/{version}/ids/{place}/1"]


def test_each_of_two_registries_is_asked_for_its_own_ids(registry: StandIn, tmp_path: Path) -> None:
    file = tmp_path / "registries.yml"
    file.write_text(f"[{{url: '{registry.apicurio}'}}, {{url: '{registry.url}'}}]")
    both = Registries.of({"TIDEMARK_REGISTRY_FILE": str(file)})

    assert [both.schema(kind, 1) for kind in (GLOBAL, CONTENT, SHORT)] == [Found(TEXT)] * 3
    assert registry.requests == [f"{APICURIO}/ids/globalIds/1", f"{APICURIO}/ids/contentIds/1", "/schemas/ids/1"]


def test_an_id_that_two_registries_give_to_different_schemas_is_told_by_neither(
    registry: StandIn, tmp_path: Path
) -> None:
    file = tmp_path / "registries.yml"
    with serving() as other:
        file.write_text(f"[{{url: '{registry.url}'}}, {{url: '{other.url}'}}]")
        both = Registries.of({"TIDEMARK_REGISTRY_FILE": str(file)})
        assert both.schema(SHORT, 1) == Found(TEXT), "one knows it"
        assert both.schema(SHORT, 7) == Found(code="schema-unknown")
        other.register(dict(reversed(SCHEMA.items())))
        assert both.schema(SHORT, 1) == Found(TEXT), "both have the same"
        for number, name in enumerate(("Key", "Value"), 2):
            registry.register(SCHEMA | {"name": f"A{name}"})
            other.register(SCHEMA | {"name": f"B{name}"})
            assert both.schema(SHORT, number) == Found(code="schema-ambiguous")


def test_an_id_that_no_known_registry_gives_has_a_code(registry: StandIn) -> None:
    assert Registries.of({}).schema(SHORT, 1) == Found(code="registry-unknown")
    assert registries(registry.url).schema(GLOBAL, 1) == Found(code="registry-unknown")
    assert registry.requests == []


@pytest.mark.parametrize("kind", [SHORT, GLOBAL])
def test_an_id_that_the_registry_does_not_know_has_a_code(registry: StandIn, kind: str) -> None:
    url = registry.url if kind == SHORT else registry.apicurio

    assert registries(url).schema(kind, 7) == Found(code="schema-unknown")
    assert len(registry.requests) == 1


@pytest.mark.parametrize(
    ("path", "kind"), [("/wrong", SHORT), ("/apis/registry/v9", SHORT), ("/apis/registry/v9", GLOBAL)]
)
def test_an_address_at_which_there_is_no_registry_is_a_fault(registry: StandIn, path: str, kind: str) -> None:
    with pytest.raises(Fault, match=r"answered with status 404\. Nothing more was landed; check its address"):
        registries(registry.url + path).schema(kind, 1)


def test_a_schema_that_is_no_avro_is_json_schema_or_has_a_code(registry: StandIn) -> None:
    numbers = [registry.register({"type": "object", "title": kind}, kind) for kind in ("JSON", "PROTOBUF", "OTHER")]

    assert [registries(registry.url).schema(SHORT, number) for number in numbers] == [
        Found('{"type": "object", "title": "JSON"}', is_json_schema=True), Found(code="schema-protobuf"),
        Found(code="schema-not-read"),
    ]  # fmt: skip


@pytest.mark.parametrize("is_apicurio", [False, True])
def test_who_asks_is_told_by_the_environment_or_a_file(registry: StandIn, tmp_path: Path, is_apicurio: bool) -> None:
    registry.authorization = basic("tide", SECRET)
    url, kind = (registry.apicurio, GLOBAL) if is_apicurio else (registry.url, SHORT)
    file = tmp_path / "registry.yml"
    file.write_text(f"url: {url}\nuser: tide\npassword: {SECRET}\n")
    by_variables = registries(url, TIDEMARK_REGISTRY_USER="tide", TIDEMARK_REGISTRY_PASSWORD=SECRET)

    assert by_variables.schema(kind, 1) == Found(TEXT)
    assert Registries.of({"TIDEMARK_REGISTRY_FILE": str(file)}).schema(kind, 1) == Found(TEXT)
    assert SECRET not in repr(by_variables)


@pytest.mark.parametrize("is_apicurio", [False, True])
def test_a_token_serves_as_well(registry: StandIn, is_apicurio: bool) -> None:
    registry.authorization = f"Bearer {SECRET}"
    url, kind = (registry.apicurio, GLOBAL) if is_apicurio else (registry.url, SHORT)

    assert registries(url, TIDEMARK_REGISTRY_TOKEN=SECRET).schema(kind, 1) == Found(TEXT)


@pytest.mark.parametrize("is_apicurio", [False, True])
def test_a_registry_that_refuses_is_a_fault_that_shows_no_secret(registry: StandIn, is_apicurio: bool) -> None:
    registry.authorization = basic("me", "another")
    url, kind = (registry.apicurio, GLOBAL) if is_apicurio else (registry.url, SHORT)
    with pytest.raises(Fault) as fault:
        registries(url, TIDEMARK_REGISTRY_USER="me", TIDEMARK_REGISTRY_PASSWORD=SECRET).schema(kind, 1)

    assert "answered with status 401. Nothing more was landed; check its credentials" in str(fault.value)
    assert SECRET not in str(fault.value)
    assert fault.value.__cause__ is None


@pytest.mark.parametrize("is_apicurio", [False, True])
def test_a_registry_that_is_ill_is_asked_three_times_and_no_more(registry: StandIn, is_apicurio: bool) -> None:
    registry.status = 503
    url, kind = (registry.apicurio, GLOBAL) if is_apicurio else (registry.url, SHORT)
    with pytest.raises(Fault, match="answered with status 503"):
        registries(url).schema(kind, 1)

    assert len(registry.requests) == 3


@pytest.mark.parametrize("path", ["", "/apis/registry/v2"])
def test_a_registry_that_is_not_there_is_a_fault(path: str) -> None:
    with serving() as gone:
        url = gone.url
    kind = GLOBAL if path else SHORT
    with pytest.raises(Fault, match="can't be reached"):
        registries(url + path).schema(kind, 1)


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"TIDEMARK_REGISTRY_URL": "registry:8081"}, "begins with http"),
        ({"TIDEMARK_REGISTRY_USER": "tide"}, "begins with http"),
        ({"TIDEMARK_REGISTRY_URL": "http://registry:80a81"}, "begins with http.*port up to 65535"),
        ({"TIDEMARK_REGISTRY_URL": "http://registry:99999"}, "begins with http.*port up to 65535"),
        ({"TIDEMARK_REGISTRY_URL": "http://[::1"}, "begins with http"),
        ({"TIDEMARK_REGISTRY_URL": "https://me:mine@registry"}, "Set them apart"),
        ({"TIDEMARK_REGISTRY_FILE": "/nowhere"}, "can't be read as YAML"),
        (
            {"TIDEMARK_REGISTRY_URL": "https://registry", "TIDEMARK_REGISTRY_CA": "/nowhere"},
            "ca /nowhere: no such file",
        ),
        *(
            ({"TIDEMARK_REGISTRY_URL": "https://registry", f"TIDEMARK_REGISTRY_{name}": value}, f"_{name}, or")
            for name in ("USER", "PASSWORD", "TOKEN")
            for value in (f"{SECRET}\n", f"{SECRET}\r\n", f"{SECRET} for 10 \u20ac")
        ),
    ],
)
def test_a_setting_that_can_not_be_is_named(environ: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        Registries.of(environ)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (f"url: http://127.0.0.1\npasword: {SECRET}\n", "pasword"),
        (f'{{url: "http://127.0.0.1", user: tide, password:{SECRET}}}', "is a space missing behind a colon"),
        (f"1: one\npasword: {SECRET}\n", "1, pasword"),
    ],
)
def test_a_file_that_says_too_much_is_refused_without_its_values(tmp_path: Path, lines: str, said: str) -> None:
    file = tmp_path / "registry.yml"
    file.write_text(lines)
    with pytest.raises(UsageError, match=said) as refused:
        Registries.of({"TIDEMARK_REGISTRY_FILE": str(file)})

    assert SECRET not in str(refused.value)


DECIMAL = {
    "type": "bytes", "scale": 2, "precision": 64, "connect.version": 1, "logicalType": "decimal",
    "connect.parameters": {"scale": "2", "connect.decimal.precision": "10"},
    "connect.name": "org.apache.kafka.connect.data.Decimal",
}  # fmt: skip
ENUM = {"type": "string", "connect.parameters": {"allowed": "a,b"}, "connect.name": "io.debezium.data.Enum"}


@pytest.mark.parametrize(
    ("avro", "connect"),
    [
        ("int", {"type": "int32", "optional": False}),
        (["null", "long"], {"type": "int64", "optional": True}),
        ({"type": "int", "connect.type": "int16"}, {"type": "int16", "optional": False}),
        (
            {"type": "long", "connect.version": 1, "connect.name": "io.debezium.time.MicroTimestamp"},
            {"type": "int64", "optional": False, "name": "io.debezium.time.MicroTimestamp", "version": 1},
        ),
        (
            ["null", DECIMAL],
            {
                "type": "bytes", "optional": True, "name": "org.apache.kafka.connect.data.Decimal", "version": 1,
                "parameters": {"scale": "2", "connect.decimal.precision": "10"},
            },
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3},
            {
                "type": "bytes", "optional": False, "name": "org.apache.kafka.connect.data.Decimal",
                "parameters": {"scale": "3"},
            },
        ),
        (
            ENUM,
            {"type": "string", "optional": False, "name": "io.debezium.data.Enum", "parameters": {"allowed": "a,b"}},
        ),
        (
            {"type": "array", "items": ["null", {"type": "int", "connect.name": "io.debezium.time.Date"}]},
            {
                "type": "array", "optional": False,
                "items": {"type": "int32", "optional": True, "name": "io.debezium.time.Date"},
            },
        ),
        (
            {"type": "map", "values": "string"},
            {"type": "map", "optional": False, "values": {"type": "string", "optional": False}},
        ),
    ],
)  # fmt: skip
def test_connects_names_and_parameters_come_out_of_avro(avro: object, connect: object) -> None:
    assert connect_schema(avro) == connect


def test_a_type_that_is_described_once_is_known_by_its_name() -> None:
    row = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "int", "default": 7}]}
    envelope = {
        "type": "record", "name": "Envelope", "namespace": "shop.t",
        "fields": [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Value"]}],
    }  # fmt: skip
    [before, after] = connect_schema(envelope)["fields"]

    assert after == before | {"field": "after"}
    assert after["fields"] == [{"type": "int32", "optional": False, "field": "id", "default": 7}]


def test_types_are_known_in_their_own_namespace_or_in_none() -> None:
    def record(name: str, *fields: object, **more: str) -> dict[str, object]:
        return {"type": "record", "name": name, **more, "fields": [{"name": "f", "type": one} for one in fields]}

    # Connect's name can be another than Avro's, whose namespace alone counts.
    inner = record("shop.t.Inner", "int", **{"namespace": "no", "connect.name": "shop-x.t.Inner"})
    beside = record("Beside", "string")
    nowhere = record("Nowhere", "long", namespace="")
    outer = record(
        "Outer", inner, beside, nowhere, "Inner", "shop.t.Beside", "Nowhere",
        **{"namespace": "shop.t", "connect.name": "shop-x.t.Outer"},
    )  # fmt: skip

    schema = connect_schema(outer)
    assert schema["name"] == "shop-x.t.Outer"
    assert [one["name"] for one in schema["fields"]] == ["shop-x.t.Inner", "shop.t.Beside", "Nowhere"] * 2
