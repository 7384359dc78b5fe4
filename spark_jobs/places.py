"""Where things are: the project, its lakehouse and its catalog. The environment says so, never the options schema."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_jobs.errors import UsageError

BRONZE = "bronze"
# The layers that hold tables.
LAYERS = (BRONZE, "silver", "gold", "ops")
# The report of the last check, among those of runs.
LATEST = "latest"
# Tables of ops that landing writes.
LANDED = ("kafka_offsets", "kafka_gaps")
# Folders of ops that are no tables: rows that models hold, as the macro `staging` has it, and tables moved aside.
STAGED, ASIDE = "_staged", "_damaged"
# The label of what is landed without one.
DEFAULT_LABEL = "default"
# The schema of targets whose layers have their plain names.
_PLAIN = "default"


@dataclass(frozen=True, slots=True)
class Places:
    """The folders a command works on.

    `project` holds `dbt_project.yml`; `lakehouse` holds every table (`TIDEMARK_LAKEHOUSE`, default `lakehouse/` in the
    project; a folder, or a URL of an object store); `catalog` holds the embedded metastore (`TIDEMARK_CATALOG`, default
    `catalog/` in the project). `target` is the one of `profiles.yml` (`TIDEMARK_TARGET`, default the profile's own);
    `is_local` says whether dbt shares this process's Spark, or asks a Thrift Server. `prefix` stands before the layers
    of an environment that reads another's bronze: `dev_`, or nothing.
    """

    project: Path
    lakehouse: str
    catalog: str
    target: str = "local"
    is_local: bool = True
    prefix: str = ""

    @classmethod
    def of(cls, project: str | Path = ".", environ: Mapping[str, str] = os.environ) -> Places:
        """The places of the project in folder `project`; raises UsageError where there is none."""
        root = Path(project).resolve()
        if not (root / "dbt_project.yml").is_file():
            raise UsageError(
                f"--project-dir {project}: no dbt_project.yml there. Run in Tidemark's project or name its folder."
            )
        said = profile(root, environ)
        target = environ.get("TIDEMARK_TARGET") or said["target"]
        if target not in said["outputs"]:
            raise UsageError(f"--target {target}: profiles.yml has {', '.join(sorted(said['outputs']))}.")
        chosen = said["outputs"][target]
        catalog = _absolute(root, environ.get("TIDEMARK_CATALOG") or "catalog")
        if chosen["method"] == "session" and ";" in catalog:
            raise UsageError(
                f"The catalog {catalog}: its path has a semicolon, and the URL by which Derby opens it would end there."
                " Set TIDEMARK_CATALOG to a folder without one."
            )
        return cls(
            project=root,
            lakehouse=_absolute(root, environ.get("TIDEMARK_LAKEHOUSE") or "lakehouse"),
            catalog=catalog,
            target=target,
            is_local=chosen["method"] == "session",
            prefix="" if chosen["schema"] == _PLAIN else f"{chosen['schema']}_",
        )

    def environment(self) -> dict[str, str]:
        """The variables by which dbt and Spark find the same places."""
        return {"TIDEMARK_LAKEHOUSE": self.lakehouse, "TIDEMARK_CATALOG": self.catalog}

    @property
    def option(self) -> str:
        """What a command has to say to act on this target: ` --target NAME`; nothing where it is the profile's own."""
        usual = profile(self.project, {**os.environ, "TIDEMARK_TARGET": ""})["target"]
        return "" if self.target == usual else f" --target {self.target}"

    @property
    def bronze_option(self) -> str:
        """The same for the target that writes the bronze of this one: the plain one of its method."""
        if not self.reads_only:
            return self.option
        said = profile(self.project, os.environ)
        plain = [name for name, one in said["outputs"].items() if one["schema"] == _PLAIN]
        alike = [name for name in plain if (said["outputs"][name]["method"] == "session") == self.is_local]
        return f" --target {(alike or plain or [said['target']])[0]}"

    def files(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The variables by which dbt and Spark find the project's jars and logging, whatever folder they run in."""
        usual = {"TIDEMARK_JARS": ".jars", "TIDEMARK_LOG4J": "conf/log4j2.properties"}
        return {name: environ.get(name) or str(self.project / file) for name, file in usual.items()}

    @property
    def is_folder(self) -> bool:
        """Whether the lakehouse is a folder; else it is on an object store."""
        return "://" not in self.lakehouse

    @property
    def reads_only(self) -> bool:
        """Whether bronze is another environment's, which this one reads and never writes."""
        return bool(self.prefix)

    def schema(self, layer: str) -> str:
        """The schema, and the folder, of a layer: `bronze`, `silver`, `gold`, `ops`, `reports` or `logs`."""
        return layer if layer == BRONZE else f"{self.prefix}{layer}"

    def table(self, layer: str, name: str) -> str:
        """The location of a table of a layer; what landing knows of topics goes with its bronze."""
        schema = layer if name in LANDED else self.schema(layer)
        return f"{self.lakehouse}/{schema}/{name}"

    def require_bronze(self, command: str) -> None:
        """Raise UsageError where bronze is another environment's."""
        if self.reads_only:
            raise UsageError(
                f"{command}: target {self.target} reads bronze and never writes it. Land with a target whose schema is"
                f" {_PLAIN}, then `tidemark build --target {self.target}`."
            )


def profile(project: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """The project's profile in `profiles.yml`, as dbt reads it; raises UsageError where it can't be read."""
    import jinja2
    import yaml

    try:
        text = (project / "profiles.yml").read_text()
    except OSError as error:
        raise UsageError(
            f"{project}: no profiles.yml that can be read, so it is no project of Tidemark's."
            " Run in Tidemark's project, or name its folder with --project-dir."
        ) from error
    engine = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)  # noqa: S701 - YAML, and no page
    engine.filters["as_number"] = int

    # YAML first, then each text of it, as dbt does: what a variable holds is no YAML.
    def rendered(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: rendered(value) for name, value in part.items()}
        if isinstance(part, list):
            return [rendered(value) for value in part]
        if isinstance(part, str):
            return engine.from_string(part).render(env_var=lambda name, default="": environ.get(name, default))
        return part

    try:
        profile: dict[str, Any] = rendered(yaml.safe_load(text)["tidemark"])
        for name, output in profile["outputs"].items():
            if lacking := {"method", "schema"} - {*output}:
                raise UsageError(
                    f"{project}/profiles.yml: target {name} doesn't say its {' and '.join(sorted(lacking))}."
                )
        return profile | {"target": profile["target"]}
    except (yaml.YAMLError, jinja2.TemplateError, LookupError, ValueError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{project}/profiles.yml can't be read ({' '.join(str(error).split())[:300]}). It has to be YAML with the"
            " profile `tidemark`, its `target` and `outputs`, as this version of Tidemark comes with it."
        ) from error


def _absolute(root: Path, place: str) -> str:
    # As dbt spells it, which follows no links, and knows no path that begins with two slashes.
    return place.rstrip("/") if "://" in place else f"/{os.path.abspath(root / place).lstrip('/')}"  # noqa: PTH100
