"""The demo: real events of a small shop, from record file to report, and what to look at next. Run by `make demo`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from spark_jobs.cli import main
from spark_jobs.places import Places
from spark_jobs.session import FOR_SMALL_TABLES

ONE_LIFE = """
select id, name, email, tier, valid_from, valid_to, opened_by, closed_by, previous_key, next_key
from inv__public__customers_history
where id = 101
order by position
"""


def demo() -> int:
    """Land, build and check the example records; the exit status, of the first command that fails."""
    os.environ.setdefault("TIDEMARK_JAVA_OPTIONS", FOR_SMALL_TABLES)
    records = Path(__file__).parent / "records"
    status = main(["run", str(records)])
    if status:
        return status
    report = json.loads((Path(Places.of().lakehouse) / "reports" / "latest" / "report.json").read_text())
    print("\nWhat became of the records:\n")
    for account in report["accounting"]:
        outcome = ", ".join(f"{records} {name}" for name, records in account["dispositions"].items() if records)
        print(f"{account['name']}: {account['records']} records: {outcome.replace('_', ' ')}")
    print("\nCustomer 101: inserted, changed, deleted and born again, each version with its interval (UTC):\n")
    status = main(["sql", ONE_LIFE])
    print(f"\nReport of run {report['run_id']}: {Places.of().lakehouse}/reports/latest/report.html")
    print("Next: .venv/bin/tidemark tables, .venv/bin/tidemark status, .venv/bin/dbt docs generate")
    return status


if __name__ == "__main__":
    sys.exit(demo())
