"""Keep the classes that Spark loads in an archive that Java maps at its start: `make setup` does it once.

A third of what a short command costs is reading, checking and linking twenty thousand classes. Where the archive is
missing, or is of another Java or other jars, Java goes without it and says nothing.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from spark_jobs.errors import TidemarkError
from spark_jobs.landing.land import Landing, land_files
from spark_jobs.names import table_at
from spark_jobs.places import Places
from spark_jobs.session import build_session, java, let_java_end


def main(archive: Path) -> None:
    """Land the example's records, merge a table with itself, and write down which classes that took.

    Raises:
        Fault: Java or Spark did not start.
    """
    project = Path(__file__).parents[1]
    properties = subprocess.run(
        [java(), "-XshowSettings:properties", "-version"], capture_output=True, text=True, check=True
    )
    [home] = re.findall(r"java\.home = (.*)", properties.stderr)
    os.environ["TIDEMARK_JAVA_OPTIONS"] = (
        f'-XX:SharedArchiveFile="{home}/lib/server/classes.jsa" -XX:ArchiveClassesAtExit="{archive}"'
    )
    with tempfile.TemporaryDirectory(prefix="tidemark-classes-") as folder:
        places = Places(project, f"{folder}/lakehouse", f"{folder}/catalog")
        spark = build_session(places, catalog=True)
        land_files(spark, places, [str(project / "examples/records")], Landing("classes", datetime.now(UTC)))
        records = table_at(places.table("bronze", "records"))
        spark.sql("create schema if not exists bronze")
        spark.sql(f"create table bronze.records using delta location '{places.table('bronze', 'records')}'")
        spark.sql(
            f"merge into {records} as stored using (select *, row_number() over (partition by topic order by `offset`)"
            f" as number from {records}) as told on stored.feed = told.feed and stored.content_hash = told.content_hash"
            " and told.number = 1 when matched then update set run_id = told.run_id"
        ).collect()
        spark.stop()
        # Java writes the archive when it ends.
        let_java_end()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]).resolve())
    except TidemarkError as error:
        sys.exit(f"setup: {error}")
