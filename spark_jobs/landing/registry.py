"""Schema registries: what is asked of Confluent's and Apicurio's by the ids that records carry.

Where they are, and who asks, the environment or a file says: `TIDEMARK_REGISTRY_URL` with `TIDEMARK_REGISTRY_USER` and
`TIDEMARK_REGISTRY_PASSWORD` (or `TIDEMARK_REGISTRY_TOKEN`), or `TIDEMARK_REGISTRY_FILE`, which can hold several.
Credentials stand in no message, and no address that holds them is taken.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from spark_jobs.errors import Fault, UsageError

# Ids as records carry them: four bytes, as Confluent's converters write them; Apicurio's of eight bytes, or beside
# JSON; and where a header says which of its two kinds an id is, that kind.
SHORT, LONG, GLOBAL, CONTENT = "id", "long_id", "global_id", "content_id"
# What Confluent's converters write into a header, where they write no id in front of the bytes.
GUID = "guid"
# Where Apicurio's API is asked for them. Nothing in a record tells whether four bytes are a content id or a global one.
_PATHS = {SHORT: ("contentIds", "globalIds"), GLOBAL: ("globalIds",), CONTENT: ("contentIds",)}
# Of Apicurio's converters those up to version 2 write global ids, later ones content ids.
_WITH_GLOBAL_IDS = ("v1", "v2")
_VARIABLES = {
    "url": "TIDEMARK_REGISTRY_URL",
    "user": "TIDEMARK_REGISTRY_USER",
    "password": "TIDEMARK_REGISTRY_PASSWORD",
    "token": "TIDEMARK_REGISTRY_TOKEN",
    "ca": "TIDEMARK_REGISTRY_CA",
}
# What HTTP has to send as it is.
_SENT = ("user", "password", "token")
_NAME = re.compile(r"[\w-]+")
_FILE = "TIDEMARK_REGISTRY_FILE"
_SECONDS = 10
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Found:
    """A registry's answer: the text of a schema, in Avro or in JSON Schema, or the code of R2 for why there is none."""

    text: str = ""
    code: str | None = None
    is_json_schema: bool = False


@dataclass(frozen=True, slots=True)
class Registry:
    """One registry: its address, and what it wants to know of who asks. Its `repr` shows neither."""

    url: str = field(repr=False)
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca: str | None = field(default=None, repr=False)

    @property
    def is_apicurio(self) -> bool:
        """Whether it speaks Apicurio's own API; its address says so, also of one that speaks Confluent's beside it."""
        return "/apis/registry/" in f"{self.url}/"

    @property
    def long_ids(self) -> str:
        """Which kind of id converters of its version write where nothing in a record says it: its address tells."""
        version = f"{self.url}/".partition("/apis/registry/")[2].partition("/")[0]
        return GLOBAL if version in _WITH_GLOBAL_IDS else CONTENT

    def schema(self, kind: str, schema_id: int) -> Found:
        """The schema of an id.

        Args:
            kind: `SHORT`, `LONG`, `GLOBAL` or `CONTENT`.
            schema_id: The id.

        Raises:
            Fault: It can't be reached, or doesn't answer this user.
        """
        return self._of_apicurio(kind, schema_id) if self.is_apicurio else self._of_confluent(schema_id)

    def _of_confluent(self, schema_id: int) -> Found:
        # Half a second to import, and few records need it.
        from confluent_kafka.schema_registry import SchemaRegistryClient, SchemaRegistryError

        settings: dict[str, Any] = {
            "url": self.url, "timeout": _SECONDS, "max.retries": _TRIES - 1,
            "retries.wait.ms": 200, "retries.max.wait.ms": 1000,
        }  # fmt: skip
        if self.user is not None:
            settings["basic.auth.user.info"] = f"{self.user}:{self.password or ''}"
        if self.token is not None:
            settings |= {
                "bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": self.token,
                "bearer.auth.logical.cluster": "", "bearer.auth.identity.pool.id": "",
            }  # fmt: skip
        if self.ca is not None:
            settings["ssl.ca.location"] = self.ca
        try:
            schema = SchemaRegistryClient(settings).get_schema(schema_id)
        except SchemaRegistryError as error:
            # 40403 and its like are the registry's own; where nothing is at the address, the status is all there is.
            if error.http_status_code == 404 and error.error_code not in (None, -1, 404):
                return Found(code="schema-unknown")
            raise self._refused(error.http_status_code) from None
        except Exception as error:
            raise self._silent(error) from None
        if schema.schema_type == "PROTOBUF":
            return Found(code="schema-protobuf")
        if schema.schema_type not in (None, "AVRO", "JSON") or schema.references:
            return Found(code="schema-not-read")
        return Found(schema.schema_str or "", is_json_schema=schema.schema_type == "JSON")

    def _of_apicurio(self, kind: str, schema_id: int) -> Found:
        import requests
        from requests.adapters import HTTPAdapter
        from urllib3.util import Retry

        with requests.Session() as session:
            retries = Retry(total=_TRIES - 1, backoff_factor=0.2, status_forcelist=(500, 502, 503, 504))
            retries.raise_on_status = False
            session.mount("http://", HTTPAdapter(max_retries=retries))
            session.mount("https://", HTTPAdapter(max_retries=retries))
            if self.user is not None:
                session.auth = (self.user, self.password or "")
            if self.token is not None:
                session.headers["Authorization"] = f"Bearer {self.token}"
            try:
                for place in _PATHS[self.long_ids if kind == LONG else kind]:
                    answer = session.get(
                        f"{self.url.rstrip('/')}/ids/{place}/{schema_id}", timeout=_SECONDS, verify=self.ca or True
                    )
                    if answer.status_code != 404:
                        break
            except (requests.RequestException, OSError, ValueError) as error:
                raise self._silent(error) from None
        if answer.status_code == 404 and _is_of_apicurio(answer.text):
            return Found(code="schema-unknown")
        if answer.status_code != 200:
            raise self._refused(answer.status_code)
        return Found(answer.text)

    def _refused(self, status: int) -> Fault:
        asked = "credentials" if status in (401, 403) else "address"
        return Fault(
            f"The schema registry at {self._host} answered with status {status}. Nothing more was landed; check its"
            f" {asked} ({_VARIABLES['url']} and its like, or {_FILE}), then land again."
        )

    def _silent(self, error: Exception) -> Fault:
        return Fault(
            f"The schema registry at {self._host} can't be reached ({type(error).__name__}). Nothing more was landed;"
            f" land again once it answers, or set {_VARIABLES['url']} to where it is."
        )

    @property
    def _host(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)


def _is_of_apicurio(body: str) -> bool:
    """Whether a 404 says what Apicurio doesn't know; where nothing is at the address, it names no such thing."""
    answer = parsed(body)
    name = answer.get("name") if isinstance(answer, dict) else None
    return isinstance(name, str) and name.endswith("NotFoundException") and name != "NotFoundException"


@dataclass(frozen=True, slots=True)
class Registries:
    """The registries that are known, each id asked of the one that gives such ids."""

    members: Sequence[Registry] = ()

    @classmethod
    def of(cls, environ: Mapping[str, str] = os.environ) -> Registries:
        """The registries of the environment and its file.

        Raises:
            UsageError: The file can't be read or says what can't be, or an address is none.
        """
        of_variables = {name: environ[variable] for name, variable in _VARIABLES.items() if environ.get(variable)}
        registries = [of_variables] if of_variables else []
        if environ.get(_FILE):
            registries += _of_file(environ[_FILE])
        for registry in registries:
            try:
                place = urlsplit(str(registry.get("url", "")))
                is_address = place.scheme in ("http", "https") and bool(place.hostname) and place.port != 0
            except ValueError:  # what it says would quote an address that may hold credentials
                is_address = False
            if not is_address:
                raise UsageError(
                    "A schema registry needs an address that begins with http:// or https://, and names a host (with a"
                    f" port up to 65535, or none): {_VARIABLES['url']}, or `url` in {_FILE}."
                )
            if place.username is not None:
                raise UsageError(
                    f"The schema registry's address holds credentials. Set them apart: {_VARIABLES['user']} and"
                    f" {_VARIABLES['password']}, or `user` and `password` in {_FILE}."
                )
            if (ca := registry.get("ca")) is not None and not os.access(ca, os.R_OK):
                raise UsageError(
                    f"The schema registry's ca {ca}: no such file, or this user may not read it. Set"
                    f" {_VARIABLES['ca']}, or `ca` in {_FILE}, to a file of certificates in PEM."
                )
            if strange := [name for name in _SENT if not _can_be_sent(registry.get(name, ""))]:
                raise UsageError(
                    f"The schema registry's {strange[0]} can't be sent: it has a line end, as behind `cat FILE`, or a"
                    f" letter that Latin-1 doesn't have. Set {_VARIABLES[strange[0]]}, or `{strange[0]}` in {_FILE}."
                )
        return cls([Registry(**registry) for registry in registries])

    def schema(self, kind: str, schema_id: int) -> Found:
        """The schema of an id; see `Registry.schema`.

        Ids of other kinds are Apicurio's alone. One of four bytes is Confluent's where both are known. Registries count
        ids from 1, each for itself: one that two of them give to different schemas is told by neither.
        """
        apicurio = [one for one in self.members if one.is_apicurio]
        others = [one for one in self.members if not one.is_apicurio]
        asked = (others or apicurio) if kind == SHORT else apicurio
        found = [one.schema(kind, schema_id) for one in asked] or [Found(code="registry-unknown")]
        known = [one for one in found if one.code is None]
        if any(_differ(one.text, known[0].text) for one in known[1:]):
            return Found(code="schema-ambiguous")
        return (known or found)[0]


def _differ(one: str, other: str) -> bool:
    """Whether two texts are of different schemas: a registry may lay JSON out anew."""
    return one != other and (parsed(one) is None or parsed(one) != parsed(other))


def _can_be_sent(value: str) -> bool:
    try:
        return not re.search(rb"[\r\n]", value.encode("latin-1"))
    except UnicodeEncodeError:
        return False


def _of_file(name: str) -> list[dict[str, str]]:
    try:
        content = yaml.safe_load(Path(name).read_text())
    except (OSError, ValueError, yaml.YAMLError) as error:
        # What the parser says would quote the file.
        raise UsageError(f"{_FILE}={name}: can't be read as YAML ({type(error).__name__}).") from None
    registries = content if isinstance(content, list) else [content]
    for one in registries:
        strange = _shown(set(one) - set(_VARIABLES)) if isinstance(one, dict) else ["no mapping"]
        if strange or not all(isinstance(value, str) for value in one.values()):
            raise UsageError(
                f"{_FILE}={name}: it takes a mapping of {', '.join(_VARIABLES)} to texts, or a list of such;"
                f" it has {', '.join(strange) or 'a value that is no text'}."
            )
    return registries


def _shown(names: Iterable[object]) -> list[str]:
    """Names that a file has and shouldn't have; one that can hold a value, for want of a space, is not shown."""
    return sorted(
        str(name) if _NAME.fullmatch(str(name)) else "one that is no name (is a space missing behind a colon?)"
        for name in names
    )


def parsed(text: str) -> Any:
    """A schema's text as JSON; None where it is none, or nested too deeply to be read."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
