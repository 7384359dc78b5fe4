"""The network, cut off and watched: what tries to leave this machine is refused and remembered.

Namespaces would cut it deeper, but plain containers forbid them. So it is cut inside: in this process by an audit hook,
which sees every socket of Python's, and in the JVM by a hosts file that knows this machine alone and a SOCKS proxy of
ours, to which Java then hands every name and address that isn't the loopback's.
"""

from __future__ import annotations

import ipaddress
import socket
import socketserver
import sys
import threading
from pathlib import Path
from typing import Any

_EVENTS = ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname")


class Network:
    """Cut from when it is made. `attempts` are the hosts that something tried to reach, in their order."""

    def __init__(self, folder: Path) -> None:
        """Cut this process off; files for the JVM are put into `folder`."""
        self.attempts: list[str] = []
        self._here = {"", "localhost", socket.gethostname()}
        self._hosts = folder / "hosts"
        self._hosts.write_text(f"127.0.0.1 localhost {socket.gethostname()}\n")
        self._proxy = _Proxy(self.attempts)
        sys.addaudithook(self._audit)

    @property
    def java_options(self) -> str:
        """What cuts off a JVM that is started with it."""
        port = self._proxy.server_address[1]
        return f"-Djdk.net.hosts.file={self._hosts} -DsocksProxyHost=127.0.0.1 -DsocksProxyPort={port}"

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _EVENTS:
            return
        place = arguments[-1] if event in ("socket.connect", "socket.sendto") else arguments
        host = place[0] if isinstance(place, tuple) else ""  # a path is a socket of this machine
        name = host.decode() if isinstance(host, bytes) else str(host or "")
        if name not in self._here and not _is_loopback(name):
            self.attempts.append(name)
            raise OSError(f"the tests' network is cut: {name}")


class _Proxy(socketserver.ThreadingTCPServer):
    """Takes a SOCKS request, remembers whom it was for, and hangs up."""

    daemon_threads = True

    def __init__(self, attempts: list[str]) -> None:
        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                _, methods = self.rfile.read(2)
                self.rfile.read(methods)
                self.wfile.write(b"\x05\x00")
                _, _, _, kind = self.rfile.read(4)
                if kind == 3:
                    attempts.append(self.rfile.read(self.rfile.read(1)[0]).decode())
                else:
                    attempts.append(str(ipaddress.ip_address(self.rfile.read(4 if kind == 1 else 16))))

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
