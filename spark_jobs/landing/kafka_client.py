"""The broker, and what it says of its topics. What is secret stands in no message."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_jobs.engine_errors import first_cause
from spark_jobs.errors import Fault, Stopped, TidemarkError, UsageError
from spark_jobs.landing.kafka_settings import FILE, LEVELS, TIMEOUTS, VARIABLES, Settings
from spark_jobs.logs import log

# What a broker of before 2.8 says where a topic's id is asked for: 16 bytes of zeros.
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_REFUSED = ("AuthenticationException", "SSLException", "SSLHandshakeException")
_FORBIDDEN = "AuthorizationException"
# Names can fail to resolve for a while, at a machine's start above all.
_UNRESOLVED = "No resolvable bootstrap"
_UNUSABLE = ("ConfigException", "UnknownHostException", ".KafkaException", "IllegalArgumentException")
_OFFSETS = re.compile(r"(\S+?)-(\d+)=ListOffsetsResultInfo\(offset=(-?\d+),")
_TOPICS = re.compile(r"name=([^,\s]+), topicId=([^,\s]+), internal=(true|false)")
_PARTITIONS = re.compile(r"\(name=([^,\s]+), internal=\w+, partitions=(.*?), authorizedOperations=")
_PARTITION = re.compile(r"\(partition=(\d+),")
_POLICY = re.compile(r"ConfigEntry\(name=cleanup\.policy, value=([a-z, ]*), source=")
_THROWN = (Py4JJavaError, PySparkException)

Partition = tuple[str, int]
"""Topic and partition."""


class Away(Fault):
    """The broker doesn't answer: it may later."""


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
            if name in TIMEOUTS and value.isdigit():
                properties.setProperty(name, str(min(int(value), max(int(patience * 1000), 1000))))
            elif name != "isolation.level":
                properties.setProperty(name, value)
        try:
            self._admin = kafka.clients.admin.Admin.create(properties)
        except _THROWN as error:
            raise self._explained(error, "its client could not be made") from None
        self._options = {
            level: kafka.clients.admin.ListOffsetsOptions(getattr(kafka.common.IsolationLevel, level.upper()))
            for level in LEVELS
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
            f" certificate, or the one that {VARIABLES['certificate']} names, then run again."
        )
    if any("PBES2" in message for _, message in causes):
        return UsageError(
            f"{VARIABLES['certificate']}: its key is encrypted by PBES2, which Kafka's client can't read with Java"
            " 17. Encrypt it anew: `openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES`."
        )
    if any(name.endswith(_REFUSED) for name in names):
        return Fault(
            f"Kafka at {servers} and this client don't accept each other ({cause}). Nothing more was landed; check"
            f" {VARIABLES['user']}, {VARIABLES['password']}, {VARIABLES['mechanism']}, {VARIABLES['security']} and"
            f" {VARIABLES['ca']}, or what {FILE} names, then run again."
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
            f" it is set by {VARIABLES['security']} and its like, or {FILE}."
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
                    f" check the address, that the broker runs, and its security ({VARIABLES['security']}); the next"
                    " run goes on from there."
                ) from None
        until = time.monotonic() + pause
        while time.monotonic() < until:
            if is_stopped():
                raise Stopped
            time.sleep(0.1)
        pause = min(pause * 2, 15)
