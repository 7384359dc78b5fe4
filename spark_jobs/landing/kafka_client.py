"""The broker: who asks it, and what it says of its topics.

Who asks stands in the environment or a file, never in an option: `TIDEMARK_KAFKA_FILE` is a properties file as Kafka's
own tools take it (`--command-config`), the other variables spell its usual lines. What is secret stands in no message.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_jobs.engine_errors import first_cause
from spark_jobs.errors import Fault, Stopped, TidemarkError, UsageError
from spark_jobs.logs import log

_VARIABLES = {
    "security": "TIDEMARK_KAFKA_SECURITY",
    "mechanism": "TIDEMARK_KAFKA_MECHANISM",
    "user": "TIDEMARK_KAFKA_USER",
    "password": "TIDEMARK_KAFKA_PASSWORD",
    "ca": "TIDEMARK_KAFKA_CA",
    "certificate": "TIDEMARK_KAFKA_CERTIFICATE",
    "key_password": "TIDEMARK_KAFKA_KEY_PASSWORD",
}
_FILE = "TIDEMARK_KAFKA_FILE"
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
_TIMEOUTS = ("request.timeout.ms", "default.api.timeout.ms")
# What a broker of before 2.8 says where a topic's id is asked for: 16 bytes of zeros.
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_SECRETS = re.compile(r"jaas|password|secret|token|key$", re.IGNORECASE)
# An option of a login module: its name, and its value in either quotation marks or bare.
_OPTION = re.compile(r"""([\w.-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""", re.DOTALL)
_SWITCHES = ("", "true", "false")
_REFUSED = ("AuthenticationException", "SSLException", "SSLHandshakeException")
_FORBIDDEN = "AuthorizationException"
# Names can fail to resolve for a while, at a machine's start above all.
_UNRESOLVED = "No resolvable bootstrap"
_LEVELS = ("read_committed", "read_uncommitted")
_UNUSABLE = ("ConfigException", "UnknownHostException", ".KafkaException", "IllegalArgumentException")
_OFFSETS = re.compile(r"(\S+?)-(\d+)=ListOffsetsResultInfo\(offset=(-?\d+),")
_TOPICS = re.compile(r"name=([^,\s]+), topicId=([^,\s]+), internal=(true|false)")
_PARTITIONS = re.compile(r"\(name=([^,\s]+), internal=\w+, partitions=(.*?), authorizedOperations=")
_PARTITION = re.compile(r"\(partition=(\d+),")
_POLICY = re.compile(r"ConfigEntry\(name=cleanup\.policy, value=([a-z, ]*), source=")

# Of a properties file: what may stand before a line, a line, and letters that stand for others behind a backslash.
_BLANKS = " \t\f"
_SETTING = re.compile(rf"([\w.-]+)[{_BLANKS}]*[=:][{_BLANKS}]*((?:\\.|[^\\])*?)[{_BLANKS}]*")
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_THROWN = (Py4JJavaError, PySparkException)

Partition = tuple[str, int]
"""Topic and partition."""


class Away(Fault):
    """The broker doesn't answer: it may later."""


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
        variables = {name: environ[variable] for name, variable in _VARIABLES.items() if environ.get(variable)}
        file = _of_file(environ[_FILE]) if environ.get(_FILE) else {}
        for name in file:
            if not any(name == one or (one.endswith(".") and name.startswith(one)) for one in _TAKEN):
                near = get_close_matches(name, [one for one in _TAKEN if one[-1] != "."], n=1)
                hint = f" Did you mean {near[0]}?" if near else " It takes what begins with security, ssl or sasl."
                raise UsageError(f"{_FILE}={environ[_FILE]}: it sets {name}, which a landing decides itself.{hint}")
        level = file.get("isolation.level", _LEVELS[0])
        if level not in _LEVELS:
            raise UsageError(f"{_FILE}={environ[_FILE]}: isolation.level={level}: it takes {' or '.join(_LEVELS)}.")
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
    request, call = (file.get(name, "") for name in _TIMEOUTS)
    usual_request, usual_call = (int(_DEFAULTS[name]) for name in _TIMEOUTS)
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
        raise UsageError(f"{_VARIABLES['security']}={protocol}: it takes {', '.join(_PROTOCOLS)}.")
    properties["security.protocol"] = protocol
    if "user" in variables:
        mechanism = variables.get("mechanism") or file.get("sasl.mechanism") or "PLAIN"
        if mechanism not in _LOGIN:
            raise UsageError(
                f"{_VARIABLES['mechanism']}={mechanism}: {_VARIABLES['user']} goes with {', '.join(_LOGIN)}; for others"
                f" write sasl.mechanism and sasl.jaas.config into a file and name it by {_FILE}."
            )
        if "password" not in variables:
            raise UsageError(
                f"{_VARIABLES['user']} is set without {_VARIABLES['password']}. Set both, or neither and {_FILE}."
            )
        login = " ".join(
            f"{name}={_in_quotes(variables[part])}" for name, part in (("username", "user"), ("password",) * 2)
        )
        properties |= {"sasl.mechanism": mechanism, "sasl.jaas.config": f"{_LOGIN[mechanism]} required {login};"}
    for part, store in (("ca", "truststore"), ("certificate", "keystore")):
        if part in variables:
            if not os.access(variables[part], os.R_OK):
                raise UsageError(f"{_VARIABLES[part]}={variables[part]}: no such file, or this user may not read it.")
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
        raise UsageError(f"{_FILE}={name}: can't be read ({type(error).__name__}).") from None
    known = {}
    for number, line in _whole_lines(text):
        found = _SETTING.fullmatch(line)
        if found is None:
            raise UsageError(f"{_FILE}={name}: line {number} is no `name=value`.")
        try:
            known[found[1]] = _unescaped(found[2])
        except ValueError:
            raise UsageError(
                f"{_FILE}={name}: line {number} has a \\u that isn't followed by the 4 digits of a letter. Write a"
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


@dataclass(frozen=True, slots=True)
class Ends:
    """A partition as the broker has it: the id of its topic's present life, its first offset, the one behind its last.

    With `isolation.level=read_committed`, the default, the end is where the oldest open transaction begins; `is_open`
    says that there is one.
    """

    topic_id: str
    first: int
    end: int
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """What the broker had at a moment; `topics` are all that this user is shown, with their ids."""

    at: datetime
    partitions: Mapping[Partition, Ends]
    topics: Mapping[str, str]

    def is_without(self, partition: Partition) -> bool:
        """Whether a partition isn't there any more; one of a topic that the pattern doesn't name may be."""
        topic = partition[0]
        return partition not in self.partitions and (topic not in self.topics or (topic, 0) in self.partitions)


class Broker:
    """A cluster, asked through Kafka's own client in Spark's JVM; the topics that a pattern names whole."""

    def __init__(
        self, spark: SparkSession, servers: str, pattern: str, settings: Settings, patience: float = 60
    ) -> None:
        """Connect.

        Args:
            spark: The session.
            servers: Addresses of brokers.
            pattern: What the whole name of a topic matches.
            settings: How to connect.
            patience: Seconds that one question may take at most, where the settings allow as much.

        Raises:
            UsageError: The pattern is none, or the settings can't be.
        """
        self.servers, self.pattern, self.settings = servers, pattern, settings
        self._jvm: Any = spark._jvm
        self._matching: dict[str, bool] = {}
        self._asked: tuple[frozenset[Partition] | None, Any, Any] = (None, None, None)
        kafka = self._jvm.org.apache.kafka
        try:
            self._topic = self._jvm.java.util.regex.Pattern.compile(pattern)
        except _THROWN as error:
            said = str(_thrown(error).getMessage()).splitlines()[0]
            raise UsageError(f"--topics {pattern}: no regular expression of Java's ({said}).") from None
        properties = self._jvm.java.util.Properties()
        for name, value in ({**settings.properties, "bootstrap.servers": servers}).items():
            if name in _TIMEOUTS and value.isdigit():
                properties.setProperty(name, str(min(int(value), max(int(patience * 1000), 1000))))
            elif name != "isolation.level":
                properties.setProperty(name, value)
        try:
            self._admin = kafka.clients.admin.Admin.create(properties)
        except _THROWN as error:
            raise self._explained(error, "its client could not be made") from None
        self._options = {
            level: kafka.clients.admin.ListOffsetsOptions(getattr(kafka.common.IsolationLevel, level.upper()))
            for level in _LEVELS
        }

    def close(self) -> None:
        """Disconnect."""
        with suppress(Py4JError, OSError):  # where the JVM is gone its connections are too
            self._admin.close(self._jvm.java.time.Duration.ofSeconds(2))

    def has(self, topic: str) -> bool:
        """Whether the pattern names a topic."""
        if topic not in self._matching:
            self._matching[topic] = bool(self._topic.matcher(topic).matches())
        return self._matching[topic]

    def cluster_id(self) -> str:
        """The cluster's own name."""
        return str(self._answer(lambda: self._admin.describeCluster().clusterId().get()))

    def look(self) -> Look:
        """What the topics are now.

        Raises:
            Away: The broker doesn't answer.
            Fault: It refuses who asks.
        """
        listed = self._answer(lambda: self._admin.listTopics().listings().get().toString())
        topics = {name: topic_id for name, topic_id, internal in _TOPICS.findall(listed) if internal == "false"}
        names = [name for name in topics if self.has(name)]
        described = self._answer(lambda: self._admin.describeTopics(names).allTopicNames().get().toString())
        found = frozenset(
            (name, int(number))
            for name, parts in _PARTITIONS.findall(described)
            for number in _PARTITION.findall(parts)
        )
        if found != self._asked[0]:
            spec = self._jvm.org.apache.kafka.clients.admin.OffsetSpec
            self._asked = (found, self._map(found, spec.earliest()), self._map(found, spec.latest()))
        first = self._offsets(self._asked[1])
        # Before the end: what is committed between the two looks like no open transaction.
        last = self._offsets(self._asked[2], "read_uncommitted")
        end = self._offsets(self._asked[2])
        partitions = {
            one: Ends(topics[one[0]], first[one], end[one], last.get(one, 0) > end[one])
            for one in found
            if one in first and one in end
        }
        return Look(datetime.now(UTC), partitions, topics)

    def cleanup_policies(self, topics: Iterable[str]) -> dict[str, str | None]:
        """What the broker does with old records of topics: `delete`, `compact` or both, in the broker's words.

        None for those whose settings this user may not ask for.

        Raises:
            Away: It doesn't answer.
        """
        config = self._jvm.org.apache.kafka.common.config.ConfigResource
        resources = {topic: config(config.Type.TOPIC, topic) for topic in topics}
        answers = self._answer(lambda: self._admin.describeConfigs([*resources.values()]).values())
        policies: dict[str, str | None] = {}
        for topic, of_topic in resources.items():
            try:
                # As text: of a topic there are thirty settings, and each would be several calls.
                policy = _POLICY.search(self._answer(partial(_text_of, answers.get(of_topic))))
                policies[topic] = policy and policy[1]
            except Away:
                raise
            except TidemarkError as error:
                policies[topic] = None
                log.info("the cleanup policy of %s is not known: %s", topic, error)
        return policies

    def offsets_at(self, moment: datetime, look: Look) -> dict[Partition, int]:
        """The first offset of each partition whose record is not older than a moment; its end where none is."""
        spec = self._jvm.org.apache.kafka.clients.admin.OffsetSpec
        specs = self._map(look.partitions, spec.forTimestamp(int(moment.timestamp() * 1000)))
        offsets = self._offsets(specs)
        return {one: offsets[one] if offsets[one] >= 0 else ends.end for one, ends in look.partitions.items()}

    def _map(self, partitions: Iterable[Partition], spec: Any) -> Any:
        specs, named = self._jvm.java.util.HashMap(), self._jvm.org.apache.kafka.common.TopicPartition
        for topic, number in sorted(partitions):
            specs.put(named(topic, number), spec)
        return specs

    def _offsets(self, specs: Any, level: str | None = None) -> dict[Partition, int]:
        options = self._options[level or self.settings.properties["isolation.level"]]
        # As text: one answer of the JVM's, however many partitions there are.
        answers = self._admin.listOffsets(specs, options)
        try:
            answer = self._answer(lambda: answers.all().get().toString())
        except Away:
            silent = [str(one) for one in specs.keySet() if answers.partitionResult(one).isCompletedExceptionally()]
            if len(silent) == specs.size():
                raise
            raise Away(
                f"Kafka at {self.servers}: it answered, and not for {', '.join(sorted(silent)[:3])}"
                f"{', …' if silent[3:] else ''}, of which no broker may be the leader; a pattern that doesn't name the"
                " topic lands the others."
            ) from None
        return {
            (topic, int(number)): int(offset) for topic, number, offset in _OFFSETS.findall(answer.replace("{", " "))
        }

    def _answer(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except _THROWN as error:
            raise self._explained(error, "it did not answer") from None

    def _explained(self, error: Exception, what: str) -> TidemarkError:
        """What the client's error comes to; whatever it quotes is looked through for secrets."""
        causes: list[tuple[str, str]] = []
        one = _thrown(error)
        while one is not None and len(causes) < 10:
            causes.append((str(one.getClass().getName()), str(one.getMessage() or "")))
            one = one.getCause()
        cause = first_cause(self.settings.redacted("\n".join(f"{name}: {message}" for name, message in causes)))
        return explained(self.servers, causes, cause, what)


def _text_of(future: Any) -> str:
    return str(future.get().toString())


def _thrown(error: Exception) -> Any:
    """What Java threw; PySpark wraps some of it once more."""
    return error.java_exception if isinstance(error, Py4JJavaError) else error._origin  # type: ignore[attr-defined]


def explained(
    servers: str, causes: list[tuple[str, str]], cause: str, what: str = "it did not answer"
) -> TidemarkError:
    """The error that a chain of the client's exceptions comes to.

    Args:
        servers: The broker's address.
        causes: Names and messages of the exceptions, each with its cause behind it.
        cause: The last of them in words that may be shown.
        what: What could not be done.
    """
    names = [name for name, _ in causes]
    if any("CertificateExpired" in name for name in names) or any("NotAfter" in message for _, message in causes):
        return Fault(
            f"Kafka at {servers}: a certificate has expired ({cause}). Nothing more was landed; renew the broker's"
            f" certificate, or the one that {_VARIABLES['certificate']} names, then run again."
        )
    if any("PBES2" in message for _, message in causes):
        return UsageError(
            f"{_VARIABLES['certificate']}: its key is encrypted by PBES2, which Kafka's client can't read with Java"
            " 17. Encrypt it anew: `openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES`."
        )
    if any(name.endswith(_REFUSED) for name in names):
        return Fault(
            f"Kafka at {servers} and this client don't accept each other ({cause}). Nothing more was landed; check"
            f" {_VARIABLES['user']}, {_VARIABLES['password']}, {_VARIABLES['mechanism']}, {_VARIABLES['security']} and"
            f" {_VARIABLES['ca']}, or what {_FILE} names, then run again."
        )
    if any(name.endswith(_FORBIDDEN) for name in names):
        return Fault(
            f"Kafka at {servers} forbids this user something ({cause}). Nothing more was landed; it needs to describe"
            " the cluster, and to describe and read the topics; then run again."
        )
    is_away = any("Timeout" in name or _UNRESOLVED in message for name, message in causes)
    if any(name.endswith(_UNUSABLE) for name in names) and not is_away:
        return UsageError(
            f"--kafka {servers}: {what} ({cause}). Give host:port of a broker, or several with commas; what connects to"
            f" it is set by {_VARIABLES['security']} and its like, or {_FILE}."
        )
    return Away(f"Kafka at {servers}: {what} ({cause}).")


def patiently(ask: Callable[[], Any], patience: float, is_stopped: Callable[[], bool]) -> Any:
    """Ask the broker again while it is away, with longer and longer pauses.

    Args:
        ask: What may raise Away.
        patience: For how many seconds.
        is_stopped: Whether to give up at once.

    Raises:
        Fault: It was away all the time.
        Stopped: The landing is to stop.
    """
    began, pause = time.monotonic(), 1.0
    while True:
        try:
            return ask()
        except Away as error:
            waited = time.monotonic() - began
            if waited + pause > patience:
                raise Fault(
                    f"{error} It was asked for {waited:.0f} s (--patience {patience:g}). What was landed is whole;"
                    f" check the address, that the broker runs, and its security ({_VARIABLES['security']}); the next"
                    " run goes on from there."
                ) from None
        until = time.monotonic() + pause
        while time.monotonic() < until:
            if is_stopped():
                raise Stopped
            time.sleep(0.1)
        pause = min(pause * 2, 15)
