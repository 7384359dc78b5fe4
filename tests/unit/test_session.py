"""What surrounds a Spark session, without one."""

from __future__ import annotations

import socket
import time
from types import SimpleNamespace

import pytest
from pyspark import SparkContext, accumulators

from spark_jobs.session import let_java_end


def test_the_end_of_java_is_not_told_in_frames(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = accumulators._start_update_server("token")
    java = socket.create_connection(server.server_address, timeout=20)
    for part in (b"token", bytes(4)):
        java.sendall(part)
        time.sleep(0.2)
    assert java.recv(1), "it waits for more"
    process = SimpleNamespace(stdin=SimpleNamespace(close=lambda: None), wait=lambda _: None)
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process, shutdown=java.close))
    monkeypatch.setattr(SparkContext, "_active_spark_context", SimpleNamespace(_accumulatorServer=server))

    let_java_end()

    server.shutdown()
    server.server_close()
    assert capsys.readouterr().err == ""
