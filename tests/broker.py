"""A real Kafka broker on the loopback, for tests: one process (KRaft), with its own folder, ended by its id.

Its jars are `tests/broker_jars.txt`'s, fetched by `make test`; what those need beside them is among Spark's own.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import Any, ClassVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509.oid import NameOID

from tests.servers import PATIENCE, PROJECT, Server, free_ports, java, of_spark

USER, PASSWORD, STORE_PASSWORD = "tide", 'm4rk; "it\'s" \\secret', "st0re of the client"

_OF_SPARK = ("scala-library", "scala-reflect", "jackson-core-2", "jackson-databind", "jackson-annotations", "lz4-java",
             "snappy-java", "zstd-jni", "slf4j-api", "log4j-api", "log4j-core", "log4j-slf4j2")  # fmt: skip
_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAIN://127.0.0.1:{plain},SECURED://127.0.0.1:{secured},EXPIRED://127.0.0.1:{expired},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAIN://127.0.0.1:{plain},SECURED://127.0.0.1:{secured},EXPIRED://127.0.0.1:{expired}
listener.security.protocol.map=PLAIN:PLAINTEXT,SECURED:SASL_SSL,EXPIRED:SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAIN
sasl.enabled.mechanisms=PLAIN
listener.name.secured.sasl.enabled.mechanisms=PLAIN
listener.name.secured.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule \\
  required user_{user}="{password}";
listener.name.secured.ssl.keystore.type=PEM
listener.name.secured.ssl.keystore.location={folder}/secured.pem
listener.name.secured.ssl.client.auth=requested
listener.name.secured.ssl.truststore.type=PEM
listener.name.secured.ssl.truststore.location={folder}/authority.pem
listener.name.expired.ssl.keystore.type=PEM
listener.name.expired.ssl.keystore.location={folder}/expired.pem
log.dirs={folder}/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
file.delete.delay.ms=0
log.retention.ms=-1
broker.session.timeout.ms=1500
broker.heartbeat.interval.ms=300
"""


@dataclass
class Broker(Server):
    """A broker; `start` and `stop` may take turns, its records stay."""

    ports: dict[str, int] = field(default_factory=dict)

    ERRORS: ClassVar = (KafkaException,)

    def __post_init__(self) -> None:
        """Make its folder: certificates, settings, an empty log."""
        super().__post_init__()
        others = zip(("secured", "expired", "controller"), free_ports(3), strict=True)
        self.ports = {"plain": self.port, **dict(others)}
        self._certificates(secured=1, expired=-1, client=1)
        escaped = PASSWORD.replace("\\", "\\\\").replace('"', '\\"').replace("\\", "\\\\")
        settings = _SETTINGS.format(folder=self.folder, user=USER, password=escaped, **self.ports)
        (self.folder / "server.properties").write_text(settings)
        (self.folder / "log4j2.properties").write_text("status=off\nrootLogger.level=off\n")
        self.run(*self._java("kafka.tools.StorageTool", "format", "-t", "dGlkZW1hcmstb2YtdGVzdA", "-c"))

    @property
    def address(self) -> str:
        """Where it answers anyone."""
        return f"127.0.0.1:{self.port}"

    @property
    def secured(self) -> str:
        """Where it answers over TLS and wants a password."""
        return f"127.0.0.1:{self.ports['secured']}"

    @property
    def expired(self) -> str:
        """Where its certificate has expired."""
        return f"127.0.0.1:{self.ports['expired']}"

    @property
    def authority(self) -> Path:
        """The certificate that its own are signed by, as PEM."""
        return self.folder / "authority.pem"

    @property
    def client(self) -> Path:
        """A client's certificate and its key, in a store that `STORE_PASSWORD` opens; and a .pem of both."""
        return self.folder / "client.p12"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.begin(*self._java("kafka.Kafka"), answers=lambda: self.admin.list_topics(timeout=2))

    @cached_property
    def admin(self) -> AdminClient:
        """A client that administers it."""
        return AdminClient({"bootstrap.servers": self.address, "log_level": 0})

    def make(self, topic: str, partitions: int = 1, **settings: str) -> None:
        """Make a topic; waits while an earlier one of its name is still going."""
        deadline = time.monotonic() + PATIENCE
        while True:
            [made] = self.admin.create_topics([NewTopic(topic, partitions, config=settings)]).values()
            error = made.exception()
            if error is None:
                return
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS or time.monotonic() > deadline:
                raise error
            time.sleep(0.1)

    def widen(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions."""
        for done in self.admin.create_partitions([NewPartitions(topic, partitions)]).values():
            done.result()

    def remove(self, topic: str) -> None:
        """Delete a topic, and wait until it is gone."""
        for done in self.admin.delete_topics([topic]).values():
            done.result()
        while topic in self.admin.list_topics(timeout=5).topics:
            time.sleep(0.1)

    def lose(self, topic: str, before: int, partition: int = 0) -> None:
        """Let retention pass: the records before an offset are gone."""
        for done in self.admin.delete_records([TopicPartition(topic, partition, before)]).values():
            done.result()

    def tear(self, topic: str, text: bytes, partition: int = 0) -> None:
        """Damage what a topic holds on the disk: the broker goes on handing it out, and no reader takes it."""
        [segment] = (self.folder / "data" / f"{topic}-{partition}").glob("*.log")
        place = segment.read_bytes().index(text)
        with segment.open("r+b") as file:
            file.seek(place)
            file.write(text.swapcase())

    def produce(
        self, records: Iterable[Mapping[str, Any]], *, transaction: str | None = None, commit: bool | None = True
    ) -> None:
        """Write records: `topic`, and as wanted `partition`, `key`, `value`, `headers`, `timestamp` (ms).

        With `transaction`, the name of a transactional producer, in one transaction that is committed, aborted, or left
        open (None).
        """
        settings: dict[str, Any] = {"bootstrap.servers": self.address, "linger.ms": 5, "log_level": 0}
        minutes = {"transactional.id": transaction, "transaction.timeout.ms": 600_000}
        producer = Producer(settings | (minutes if transaction else {}))
        failed: list[str] = []
        if transaction:
            producer.init_transactions(PATIENCE)
            producer.begin_transaction()
        for record in records:
            producer.produce(
                partition=record.get("partition", 0),
                on_delivery=lambda error, _: failed.append(str(error)) if error else None,
                **{name: value for name, value in record.items() if name not in ("partition", "offset")},
            )
            producer.poll(0)
        producer.flush(PATIENCE)
        if transaction and commit is not None:
            producer.commit_transaction(PATIENCE) if commit else producer.abort_transaction(PATIENCE)
        assert not failed

    def consumed(self, topic: str) -> list[Any]:
        """All of a topic's records, by a reader that is not Spark."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "-", "enable.auto.commit": False})
        found: list[Any] = []
        try:
            for partition in consumer.list_topics(topic, timeout=PATIENCE).topics[topic].partitions:
                place = TopicPartition(topic, partition)
                low, high = consumer.get_watermark_offsets(place, timeout=PATIENCE)
                consumer.assign([TopicPartition(topic, partition, low)])
                while consumer.position([place])[0].offset < high if low < high else False:
                    found += [one for one in consumer.consume(1000, timeout=0.5) if not one.error()]
        finally:
            consumer.close()
        return found

    def _java(self, main: str, *arguments: str) -> list[str]:
        jars = [PROJECT / ".jars/broker/*", *of_spark(_OF_SPARK)]
        settings = f"-Dlog4j2.configurationFile={self.folder}/log4j2.properties"
        return java("384m", jars, settings, main, *arguments, "server.properties")

    def _certificates(self, **days: int) -> None:
        """Make certificates for listeners, each with its key, that end so many days from now."""
        now, signer = datetime.now(UTC), ec.generate_private_key(ec.SECP256R1())
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority of the tests")])
        for name, ends in {"authority": 1, **days}.items():
            is_authority = name == "authority"
            key = signer if is_authority else ec.generate_private_key(ec.SECP256R1())
            subject = issuer if is_authority else x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
            here = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
            made = (
                x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
                .not_valid_before(now - timedelta(days=3))
                .not_valid_after(now + timedelta(days=ends))
                .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
                .add_extension(here, critical=False)
                .sign(signer, hashes.SHA256())
            )
            lock = BestAvailableEncryption(STORE_PASSWORD.encode()) if name == "client" else NoEncryption()
            if name == "client":
                self.client.write_bytes(serialize_key_and_certificates(None, key, made, None, lock))
            private = b"" if is_authority else key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock)
            (self.folder / f"{name}.pem").write_bytes(private + made.public_bytes(Encoding.PEM))
