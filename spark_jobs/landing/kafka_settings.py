"""Who asks a broker stands in the environment or a file, never in an option.

`TIDEMARK_KAFKA_FILE` is a properties file as Kafka's own tools take it (`--command-config`), the other variables spell
its usual lines. What is secret stands in no message.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from spark_jobs.errors import UsageError

VARIABLES = {
    "security": "TIDEMARK_KAFKA_SECURITY",
    "mechanism": "TIDEMARK_KAFKA_MECHANISM",
    "user": "TIDEMARK_KAFKA_USER",
    "password": "TIDEMARK_KAFKA_PASSWORD",
    "ca": "TIDEMARK_KAFKA_CA",
    "certificate": "TIDEMARK_KAFKA_CERTIFICATE",
    "key_password": "TIDEMARK_KAFKA_KEY_PASSWORD",
}
FILE = "TIDEMARK_KAFKA_FILE"
_LOGIN = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
# What a file may set: how a client connects and fetches. How records are read is decided here.
_TAKEN = (
    "security.", "ssl.", "sasl.", "client.", "request.timeout.ms", "default.api.timeout.ms", "retries", "group.id",
    "retry.backoff.", "reconnect.backoff.", "socket.", "connections.", "metadata.", "fetch.", "max.poll.",
    "max.partition.fetch.bytes", "receive.buffer.bytes", "send.buffer.bytes", "isolation.level",
)  # fmt: skip
# A record of a transaction that was aborted was never sent.
_DEFAULTS = {"isolation.level": "read_committed", "request.timeout.ms": "10000", "default.api.timeout.ms": "20000"}
TIMEOUTS = ("request.timeout.ms", "default.api.timeout.ms")
LEVELS = ("read_committed", "read_uncommitted")
_SECRETS = re.compile(r"jaas|password|secret|token|key$", re.IGNORECASE)
# An option of a login module: its name, and its value in either quotation marks or bare.
_OPTION = re.compile(r"""([\w.-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""", re.DOTALL)
_SWITCHES = ("", "true", "false")
# Of a properties file: what may stand before a line, a line, and letters that stand for others behind a backslash.
_BLANKS = " \t\f"
_SETTING = re.compile(rf"([\w.-]+)[{_BLANKS}]*[=:][{_BLANKS}]*((?:\\.|[^\\])*?)[{_BLANKS}]*")
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class Settings:
    """A client's settings, by Kafka's names. Its `repr` shows none."""

    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, environ: Mapping[str, str] = os.environ) -> Settings:
        """The settings of the environment and its file; the environment's count.

        Raises:
            UsageError: The file can't be read, or something is set that can't be.
        """
        variables = {name: environ[variable] for name, variable in VARIABLES.items() if environ.get(variable)}
        file = _of_file(environ[FILE]) if environ.get(FILE) else {}
        for name in file:
            if not any(name == one or (one.endswith(".") and name.startswith(one)) for one in _TAKEN):
                near = get_close_matches(name, [one for one in _TAKEN if one[-1] != "."], n=1)
                hint = f" Did you mean {near[0]}?" if near else " It takes what begins with security, ssl or sasl."
                raise UsageError(f"{FILE}={environ[FILE]}: it sets {name}, which a landing decides itself.{hint}")
        level = file.get("isolation.level", LEVELS[0])
        if level not in LEVELS:
            raise UsageError(f"{FILE}={environ[FILE]}: isolation.level={level}: it takes {' or '.join(LEVELS)}.")
        return cls(_DEFAULTS | _of_other_timeout(file) | file | _of_variables(variables, file))

    def redacted(self, text: str) -> str:
        """A text without any of the secrets in it. Names of users are none, and may be parts of other words."""
        secret = [value for name, value in self.properties.items() if _SECRETS.search(name)]
        options = [option for value in secret for option in _OPTION.findall(value)]
        secret += [value for name, *forms in options if _SECRETS.search(name) for value in forms]
        unescaped = [re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL) for value in secret]
        for value in sorted({*secret, *unescaped} - {*_SWITCHES}, key=len, reverse=True):
            text = text.replace(value, "…")
        return text


def _of_other_timeout(file: Mapping[str, str]) -> dict[str, str]:
    """The timeout that a file leaves out, where it sets the other: one request may take no longer than a whole call."""
    request, call = (file.get(name, "") for name in TIMEOUTS)
    usual_request, usual_call = (int(_DEFAULTS[name]) for name in TIMEOUTS)
    return {
        "request.timeout.ms": str(min(usual_request, int(call) if call.isdigit() else usual_request)),
        "default.api.timeout.ms": str(max(usual_call, int(request) if request.isdigit() else usual_call)),
    }


def _of_variables(variables: Mapping[str, str], file: Mapping[str, str]) -> dict[str, str]:
    properties: dict[str, str] = {}
    has_login = "user" in variables or "sasl.jaas.config" in file
    has_tls = "ca" in variables or "certificate" in variables or any(name.startswith("ssl.") for name in file)
    protocol = variables.get("security") or file.get("security.protocol")
    if protocol is None:
        # A password never goes out in the clear unless someone says so.
        protocol = "SASL_SSL" if has_login else "SSL" if has_tls else "PLAINTEXT"
    if protocol not in _PROTOCOLS:
        raise UsageError(f"{VARIABLES['security']}={protocol}: it takes {', '.join(_PROTOCOLS)}.")
    properties["security.protocol"] = protocol
    if "user" in variables:
        mechanism = variables.get("mechanism") or file.get("sasl.mechanism") or "PLAIN"
        if mechanism not in _LOGIN:
            raise UsageError(
                f"{VARIABLES['mechanism']}={mechanism}: {VARIABLES['user']} goes with {', '.join(_LOGIN)}; for others"
                f" write sasl.mechanism and sasl.jaas.config into a file and name it by {FILE}."
            )
        if "password" not in variables:
            raise UsageError(
                f"{VARIABLES['user']} is set without {VARIABLES['password']}. Set both, or neither and {FILE}."
            )
        login = " ".join(
            f"{name}={_in_quotes(variables[part])}" for name, part in (("username", "user"), ("password",) * 2)
        )
        properties |= {"sasl.mechanism": mechanism, "sasl.jaas.config": f"{_LOGIN[mechanism]} required {login};"}
    for part, store in (("ca", "truststore"), ("certificate", "keystore")):
        if part in variables:
            if not os.access(variables[part], os.R_OK):
                raise UsageError(f"{VARIABLES[part]}={variables[part]}: no such file, or this user may not read it.")
            properties |= {f"ssl.{store}.type": "PEM", f"ssl.{store}.location": str(Path(variables[part]).resolve())}
    if "key_password" in variables:
        properties["ssl.key.password"] = variables["key_password"]
    return properties


def _in_quotes(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _of_file(name: str) -> dict[str, str]:
    """What a properties file of Java's sets: `name=value` or `name: value`."""
    try:
        text = Path(name).read_text()
    except (OSError, ValueError) as error:
        raise UsageError(f"{FILE}={name}: can't be read ({type(error).__name__}).") from None
    known = {}
    for number, line in _whole_lines(text):
        found = _SETTING.fullmatch(line)
        if found is None:
            raise UsageError(f"{FILE}={name}: line {number} is no `name=value`.")
        try:
            known[found[1]] = _unescaped(found[2])
        except ValueError:
            raise UsageError(
                f"{FILE}={name}: line {number} has a \\u that isn't followed by the 4 digits of a letter. Write a"
                " backslash that is meant as one twice."
            ) from None
    return known


def _whole_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that set something, each with its number and joined with its continuation lines.

    A backslash at the end, unless another escapes it, continues a line. Comments are never continued.
    """
    lines = enumerate(text.split("\n"), 1)
    for number, line in lines:
        whole = line.lstrip(_BLANKS)
        if whole and whole[0] not in "#!":
            while (len(whole) - len(whole.rstrip("\\"))) % 2:
                _, more = next(lines, (0, ""))
                whole = whole[:-1] + more.lstrip(_BLANKS)
            yield number, whole


def _unescaped(value: str) -> str:
    """A value as Java takes it; raises ValueError for a letter that is none."""

    def letter(found: re.Match[str]) -> str:
        escaped = found[1]
        return chr(int(escaped[1:], 16)) if escaped[0] == "u" else _ESCAPED.get(escaped, escaped)

    # Java's letters are of 16 bits: two of them can be one.
    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", letter, value).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
