"""Where things are: the project, its lakehouse and its catalog. The environment says so, never the options schema."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.errors import UsageError


@dataclass(frozen=True, slots=True)
class Places:
    """The folders a command works on.

    `project` holds `dbt_project.yml`; `lakehouse` holds every table (`TIDEMARK_LAKEHOUSE`, default `lakehouse/` in the
    project); `catalog` holds the metastore (`TIDEMARK_CATALOG`, default `catalog/` in the project).
    """

    project: Path
    lakehouse: str
    catalog: str

    @classmethod
    def of(cls, project: str | Path = ".", environ: Mapping[str, str] = os.environ) -> Places:
        """The places of the project in folder `project`; raises UsageError where there is none."""
        root = Path(project).resolve()
        if not (root / "dbt_project.yml").is_file():
            raise UsageError(
                f"--project-dir {project}: no dbt_project.yml there. Run in Tidemark's project or name its folder."
            )
        return cls(
            project=root,
            lakehouse=_absolute(root, environ.get("TIDEMARK_LAKEHOUSE", "lakehouse")),
            catalog=_absolute(root, environ.get("TIDEMARK_CATALOG", "catalog")),
        )

    def environment(self) -> dict[str, str]:
        """The variables by which dbt and Spark find the same places."""
        return {"TIDEMARK_LAKEHOUSE": self.lakehouse, "TIDEMARK_CATALOG": self.catalog}

    def table(self, layer: str, name: str) -> str:
        """The location of a table of `bronze`, `silver`, `gold` or `ops`."""
        return f"{self.lakehouse}/{layer}/{name}"


def _absolute(root: Path, place: str) -> str:
    return place.rstrip("/") if "://" in place else str((root / place).resolve())
