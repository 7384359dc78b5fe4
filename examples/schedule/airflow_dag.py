"""Tidemark every ten minutes, by Airflow: one task, since land, build and check share a Spark session."""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG(
    "tidemark",
    schedule=timedelta(minutes=10),
    start_date=datetime(2026, 1, 1),
    catchup=False,  # records wait in Kafka: one run lands those of all that were missed
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=2)},
):
    BashOperator(
        task_id="run",
        cwd="/srv/tidemark",
        bash_command=(
            r".venv/bin/tidemark run --kafka broker:9092 --topics '(__debezium-heartbeat\.)?shop(\..*)?'"
            " --skip-unchanged --upkeep-every 24h --wait 600 --summary run.json"
        ),
        append_env=True,
        execution_timeout=timedelta(hours=2),
    )
