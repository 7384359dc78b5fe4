"""A stand-in for a schema registry: an HTTP server on this machine that speaks as much of two APIs as readers use.

It is no registry: the paths, answers and error codes are written from the documents of Confluent's
(`GET /schemas/ids/{id}`) and of Apicurio's (`GET …/apis/registry/v2/ids/globalIds/{id}` and `…/contentIds/{id}`,
which version 3 has as well).
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

APICURIO = "/apis/registry/v2"
_PATH = re.compile(r"^(?:/apis/registry/v[23]/ids/(?P<kind>globalIds|contentIds)|/schemas/ids)/(?P<id>\d+)$")


class StandIn:
    """What the server knows: schemas by id (`only`: of one of Apicurio's kinds), who may ask, and what was asked."""

    def __init__(self) -> None:
        """An empty registry that anybody may ask."""
        self.schemas: dict[int, Any] = {}
        self.types: dict[int, str] = {}
        self.only: str | None = None
        self.requests: list[str] = []
        self.status: int | None = None
        self.authorization: str | None = None
        self.url = ""

    def register(self, schema: Any, schema_type: str = "AVRO") -> int:
        """The id of a schema, a new one where it is not known."""
        for known, one in self.schemas.items():
            if one == schema:
                return known
        number = max(self.schemas, default=0) + 1
        self.schemas[number], self.types[number] = schema, schema_type
        return number

    @property
    def apicurio(self) -> str:
        """The address of Apicurio's own API."""
        return self.url + APICURIO

    def answer(self, path: str, headers: Mapping[str, str]) -> tuple[int, str]:
        """Status and body for a request."""
        self.requests.append(path)
        if self.status is not None:
            return self.status, json.dumps({"error_code": self.status, "message": "by the test's wish"})
        if self.authorization is not None and headers.get("Authorization") != self.authorization:
            return 401, json.dumps({"error_code": 401, "message": "Unauthorized"})
        found = _PATH.match(path.partition("?")[0])
        if not found:
            return 404, json.dumps({"error_code": 404, "message": "HTTP 404 Not Found"})
        kind, number = found["kind"], int(found["id"])
        if number not in self.schemas or (None not in (kind, self.only) and kind != self.only):
            says = {"error_code": 404, "name": "ContentNotFoundException"} if kind else {"error_code": 40403}
            return 404, json.dumps({**says, "message": f"Schema {number} not found"})
        text = json.dumps(self.schemas[number])
        if kind:
            return 200, text
        named = {} if self.types[number] == "AVRO" else {"schemaType": self.types[number]}
        return 200, json.dumps({"schema": text, **named})


def basic(user: str, password: str) -> str:
    """The header in which a client says who it is."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@contextmanager
def serving() -> Iterator[StandIn]:
    """A stand-in that answers on a port of this machine."""
    registry = StandIn()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = registry.answer(self.path, dict(self.headers))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Nothing on the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
