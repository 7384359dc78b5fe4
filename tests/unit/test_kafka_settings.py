"""Who asks a broker, as the environment and a file say it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.errors import UsageError
from spark_jobs.landing.kafka_settings import Settings

SECRET = 'pa"ss\\word'  # noqa: S105 - no password of anything


def test_a_password_goes_out_encrypted_unless_someone_says_otherwise() -> None:
    variables = {"TIDEMARK_KAFKA_USER": "ann", "TIDEMARK_KAFKA_PASSWORD": SECRET}

    settings = Settings.of(variables).properties
    assert settings["security.protocol"] == "SASL_SSL"
    assert settings["sasl.jaas.config"].endswith(r'required username="ann" password="pa\"ss\\word";')
    plain = Settings.of({**variables, "TIDEMARK_KAFKA_SECURITY": "SASL_PLAINTEXT"}).properties
    assert plain["security.protocol"] == "SASL_PLAINTEXT"


def test_settings_are_read_from_a_file_as_kafkas_tools_take_it(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "# a comment\nsecurity.protocol=SASL_SSL\nsasl.mechanism: SCRAM-SHA-512\nsasl.jaas.config=module required \\\n"
        '    username="ann" password="x\\\\y";\nssl.truststore.location = /ca.p12\n'
    )

    settings = Settings.of({"TIDEMARK_KAFKA_FILE": str(file)}).properties
    assert settings["sasl.mechanism"] == "SCRAM-SHA-512"
    assert settings["sasl.jaas.config"] == 'module required username="ann" password="x\\y";'
    assert settings["ssl.truststore.location"] == "/ca.p12"
    assert settings["isolation.level"] == "read_committed", "records of aborted transactions were never sent"


@pytest.mark.parametrize(
    ("set_in_file", "request_and_call"),
    [
        ("", (10_000, 20_000)),
        ("request.timeout.ms=30000", (30_000, 30_000)),
        ("request.timeout.ms=15000", (15_000, 20_000)),
        ("default.api.timeout.ms=5000", (5000, 5000)),
        ("default.api.timeout.ms=60000", (10_000, 60_000)),
        ("request.timeout.ms=30000\ndefault.api.timeout.ms=60000", (30_000, 60_000)),
    ],
)
def test_one_of_two_timeouts_may_be_set(tmp_path: Path, set_in_file: str, request_and_call: tuple[int, int]) -> None:
    file = tmp_path / "client.properties"
    file.write_text(set_in_file)

    settings = Settings.of({"TIDEMARK_KAFKA_FILE": str(file)}).properties
    names = ("request.timeout.ms", "default.api.timeout.ms")
    assert tuple(int(settings[name]) for name in names) == request_and_call, "Kafka's client refuses the reverse"


@pytest.mark.parametrize(
    ("text", "password"),
    [
        ("# of C:\\\nssl.key.password=x", "x"),
        ("  ! of C:\\\nssl.key.password=x", "x"),
        ("ssl.key.password=C:\\\\\nssl.keystore.type=PEM", "C:\\"),
        ("ssl.key.password=C:\\\\\\\n  x", "C:\\x"),
        ("ssl.key.password=x\\\n# no comment here", "x# no comment here"),
        ("ssl.key.password=x\\", "x"),
        ("ssl.key.password=\\u00fc\\u00DFx", "üßx"),
        ("ssl.key.password=\\ud83d\\ude00", "\U0001f600"),
        ("ssl.key.password=\\\\u00fc", "\\u00fc"),
        ("ssl.key.password=a\\tb\\nc\\rd\\fe\\=\\x", "a\tb\nc\rd\fe=x"),
        ("ssl.key.password=x\\   ", "x "),
        ("ssl.key.password=a\x85b", "a\x85b"),
    ],
)
def test_a_file_is_read_as_javas_properties(tmp_path: Path, text: str, password: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text(text, encoding="utf-8")

    assert Settings.of({"TIDEMARK_KAFKA_FILE": str(file)}).properties["ssl.key.password"] == password


@pytest.mark.parametrize("value", ["planted\\u00", "planted\\u00zz", "planted\\ud83d"])
def test_a_letter_that_is_none_is_told_by_its_line_alone(tmp_path: Path, value: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"# one\nssl.truststore.location=\\\n  /ca\nssl.key.password={value}\n")

    with pytest.raises(UsageError, match=r"line 4 has a \\u that isn't followed by the 4 digits of a letter") as error:
        Settings.of({"TIDEMARK_KAFKA_FILE": str(file)})
    assert "planted" not in str(error.value)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"TIDEMARK_KAFKA_USER": "ann"}, "is set without TIDEMARK_KAFKA_PASSWORD"),
        ({"TIDEMARK_KAFKA_USER": "ann", "TIDEMARK_KAFKA_MECHANISM": "GSSAPI"}, "sasl.jaas.config into a file"),
        ({"TIDEMARK_KAFKA_SECURITY": "TLS"}, "PLAINTEXT, SSL"),
        ({"TIDEMARK_KAFKA_CA": "/nowhere.pem"}, "no such file"),
        ({"TIDEMARK_KAFKA_FILE": "/nowhere.properties"}, "can't be read"),
    ],
)
def test_what_can_not_be_set_is_named(environ: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Settings.of(environ)


def test_a_file_that_decides_how_records_are_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("auto.offset.reset=latest\n")

    with pytest.raises(UsageError, match=r"sets auto\.offset\.reset"):
        Settings.of({"TIDEMARK_KAFKA_FILE": str(file)})


def test_secrets_are_in_no_repr_and_in_no_message() -> None:
    settings = Settings.of({"TIDEMARK_KAFKA_USER": "ann", "TIDEMARK_KAFKA_PASSWORD": SECRET})

    said = settings.redacted(f"it said {SECRET} and {settings.properties['sasl.jaas.config']}")
    assert "ss\\" not in repr(settings) + said
    assert said.startswith("it said …")


@pytest.mark.parametrize("user", ["tidemark", "kafka"])
@pytest.mark.parametrize("option", ['password="kept it"', "password='kept it'", "clientSecret=kept", "password =kept"])
def test_of_a_login_its_secrets_alone_are_hidden(tmp_path: Path, user: str, option: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f'sasl.jaas.config=org.apache.kafka.Module required username="{user}" tokenauth=true {option};\n')
    settings = Settings.of({"TIDEMARK_KAFKA_FILE": str(file)})
    said = "org.apache.kafka.common.KafkaException: true of /srv/tidemark/lakehouse"

    assert settings.redacted(f"{said}, kept") == said + (", kept" if "kept it" in option else ", …")
    assert settings.redacted(f"{said}, kept it") == said + (", …" if "kept it" in option else ", … it")
    assert settings.redacted(settings.properties["sasl.jaas.config"]) == "…"
