"""What surrounds a Spark session, most of it without one."""

from __future__ import annotations

import os
import re
import socket
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkContext, accumulators
from pyspark.sql import SparkSession

from spark_jobs import session
from spark_jobs.errors import Fault, UsageError
from spark_jobs.places import Places
from spark_jobs.session import (
    _java_noise_aside,
    let_java_end,
)
from tests.projects import PROJECT


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


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (
            "java.io.IOException: Failed to create a temp directory (under /gone) after 10 attempts!\n"
            "\tat a.JavaUtils.createDirectory(JavaUtils.java:411)03:44:25 ERROR DiskBlockManager: Failed.\n",
            "java.io.IOException: Failed to create a temp directory (under /gone) after 10 attempts!",
        ),
        (
            'Exception in thread "main" a.Error: it is old\n\tat a.b(c.java:1)\n\t... 3 more\n\n',
            'Exception in thread "main" a.Error: it is old',
        ),
        ("", "Java is gone"),
    ],
)
def test_what_keeps_spark_from_starting_is_told_without_frames(said: str, cause: str) -> None:
    def start() -> None:
        with _java_noise_aside():
            os.write(2, said.encode())
            raise RuntimeError("Java is gone")

    with pytest.raises(Fault, match=f"^{re.escape(f'Spark did not start: {cause}')}$"):
        start()


def test_temporary_files_of_spark_are_this_users_alone(spark: SparkSession) -> None:
    [folder] = session._folders
    blocks = spark._jsc.sc().env().blockManager().diskBlockManager().localDirs()

    assert Path(folder).stat().st_mode & 0o777 == 0o700
    assert spark._jvm.java.lang.System.getProperty("java.io.tmpdir") == folder
    assert all(str(one).startswith(f"{folder}/") for one in blocks)


def test_a_store_that_the_target_has_no_classes_for_is_told_with_one_that_has(spark: SparkSession) -> None:
    places = Places(Path(), "s3a://bucket/lake", "")

    with pytest.raises(Fault, match=r"^Target local can't open s3a://.*S3AFileSystem.*\. Use the target thrift"):
        session._require_file_system(spark, places)


@pytest.mark.parametrize(
    "address", ["db/metastore?user=hive&password=planted", "db/m?PASSWORD=planted", "me:planted@db/m"]
)
def test_an_address_of_the_metastore_that_holds_a_password_goes_into_no_settings(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_METASTORE", f"jdbc:postgresql://{address}")

    with pytest.raises(UsageError, match="TIDEMARK_METASTORE_PASSWORD") as refused:
        session.settings(Places(PROJECT, "s3a://bucket/lake", "", "thrift", is_local=False))
    assert "planted" not in str(refused.value)


def test_settings_of_hadoop_are_sent_to_tasks_without_the_files_that_they_are_from(spark: SparkSession) -> None:
    settings = spark._jsparkSession.sessionState().newHadoopConf()

    assert settings.get("io.file.buffer.size")
    assert settings.getPropertySources("io.file.buffer.size") is None
