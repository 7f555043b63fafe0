"""The package as users install it: built as a wheel, and installed in an environment without the repository.

The dependencies of the wheel come from the package index or from the cache of uv.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow


class Environment:
    """A virtual environment with the wheel."""

    def __init__(self, root: Path, wheel: Path, *, extras: str, more: tuple[str, ...] = ()) -> None:
        self.bin = root / "venv" / "bin"
        self.home = root / "home"
        self.home.mkdir(parents=True)
        call("uv", "venv", "--quiet", "--python", "3.11", str(root / "venv"), cwd=root)
        constraints = str(ROOT / "constraints.txt")
        requirement = f"lance-pipelines{extras} @ {wheel.as_uri()}"
        install = ("uv", "pip", "install", "--quiet", "--python", str(self.bin / "python"), "-c", constraints)
        try:
            # Cached packages are not downloaded again: pyspark alone has hundreds of megabytes.
            call(*install, "--offline", requirement, *more, cwd=root)
        except AssertionError:
            call(*install, requirement, *more, cwd=root)

    def run(self, command: str, *arguments: str, cwd: Path, expected: int = 0) -> str:
        """Run a command in the environment and return its output."""
        return call(str(self.bin / command), *arguments, cwd=cwd, home=self.home, expected=expected)


def call(*command: str, cwd: Path, home: Path | None = None, expected: int = 0) -> str:
    variables = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("PYTHON", "DAGSTER", "LANCE_", "VIRTUAL_ENV"))
    }
    # A session would start a process that records classes for this environment in the user's cache directory.
    variables["LANCE_SPARK_CLASS_ARCHIVE"] = "0"
    if home is not None:
        variables["DAGSTER_HOME"] = str(home)
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == expected, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    # Dagster issues warnings about its own packages.
    assert [line for line in done.stderr.splitlines() if "Warning" in line and "lance_pipelines/" in line] == []
    return done.stdout + (done.stderr if expected else "")


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the source distribution and the wheel that was built from it."""
    directory = tmp_path_factory.mktemp("dist")
    call("uv", "build", "--quiet", "--out-dir", str(directory), str(ROOT), cwd=directory)
    return directory


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> Path:
    (found,) = distributions.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    return Environment(tmp_path_factory.mktemp("base"), wheel, extras="")


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    return Environment(tmp_path_factory.mktemp("full"), wheel, extras="[pipelines]", more=("dagster-dg-cli==1.13.*",))


BASE = """
import importlib.metadata as metadata
import importlib.util
import pathlib
import sys

import pyarrow as pa
import lance_core

names = {each.name.lower() for each in metadata.distributions()}
assert names.isdisjoint({"dagster", "pyspark", "pandas", "pylance"}), names
assert pathlib.Path(lance_core.__file__).is_relative_to(sys.prefix)
rows = pa.table({"x": [1, 2, 3]})
lance_core.write_dataset(rows, "t.lance")
assert lance_core.dataset("t.lance").to_table() == rows

about = metadata.metadata("lance-pipelines")
assert about["Description-Content-Type"] == "text/markdown"
assert about.get_payload().startswith("# lance-pipelines")
for package in ("lance_core", "lance_pipelines"):
    assert (pathlib.Path(importlib.util.find_spec(package).origin).parent / "py.typed").exists()

# Plain data needs no extra.
from lance_pipelines import DatasetDeclaration, FileSource, MaintenancePolicy, SourceFormat
DatasetDeclaration(key="a/b", uri="/x", source=FileSource(format=SourceFormat.CSV, paths=["/data"]))
"""


def test_lance_pipelines_without_its_extra_suggests_how_to_install_it(base: Environment, tmp_path: Path) -> None:
    hint = "pip install 'lance-pipelines[pipelines]'"
    assert hint in base.run("lance-pipelines", "--help", cwd=tmp_path, expected=1)
    assert hint in base.run("python", "-c", "from lance_pipelines import build_definitions", cwd=tmp_path, expected=1)


def test_lance_core_can_be_used_without_optional_packages(base: Environment, tmp_path: Path) -> None:
    base.run("python", "-c", BASE, cwd=tmp_path)
    assert "Usage" in base.run("lance-core", "--help", cwd=tmp_path).title()


OWN_PROJECT = '''
import dagster as dg
import pandas as pd
import pyarrow as pa

from lance_pipelines import (
    CheckSettings, DatasetDeclaration, FileSource, FunctionSource, LanceIOManager, SourceFormat, build_definitions,
    on_new_data,
)


@dg.asset
def raw(spark: dg.ResourceParam[str]) -> None:
    """Uses the project's own resource."""
    assert spark == "my own Spark"


EVENTS = DatasetDeclaration(
    key="lake/events-2",
    uri="lake/events.lance",
    source=FileSource(format=SourceFormat.CSV, paths=["landing/*.csv"], options={"header": "true"}),
    storage_options={"secret": dg.EnvVar("NO_SUCH_SECRET")},
    partitions=None,
    group="lake",
    owners=["team:data"],
    tags={"tier": "gold"},
    kinds=["csv"],
    deps=["raw"],
    automation_condition=dg.AutomationCondition.on_cron("@daily"),
    checks=CheckSettings(key=["id"]),
)
TRIPS = DatasetDeclaration(
    key="trips",
    uri="lake/trips.lance",
    source=FileSource(format=SourceFormat.CSV, paths=["landing/*.csv"], options={"header": "true"}),
)
DAYS = DatasetDeclaration(
    key="ml/days",
    uri="lake/days.lance",
    source=FunctionSource(function=lambda context: pa.table({"day": list(context.partition_keys)})),
    partitions=dg.DailyPartitionsDefinition("2026-01-01"),
    partition_by="day",
)


@dg.asset(deps=[dg.AssetKey(["lake", "events-2"])], automation_condition=on_new_data(), io_manager_key="lance_io")
def report() -> pd.DataFrame:
    """Stored by the IO manager."""
    return pd.DataFrame({"rows": [2]})


@dg.op
def work() -> None:
    """Does nothing."""


@dg.job
def cleanup() -> None:
    """Has the name of an operation."""
    work()


defs = dg.Definitions.merge(
    dg.Definitions(
        assets=[raw, report],
        jobs=[cleanup],
        schedules=[dg.ScheduleDefinition(name="compact_schedule", job=cleanup, cron_schedule="@daily")],
        resources={"spark": "my own Spark", "lance_io": LanceIOManager(base_uri="tables")},
        executor=dg.multiprocess_executor,
    ),
    build_definitions([EVENTS, TRIPS]),
    build_definitions([DAYS], namespace="ml"),
)
'''

THINGS = """
import json

import dagster as dg
from dagster_graphql.schema.run_config import default_values_yaml_from_type_snap

import definitions as project
from lance_pipelines import build_definitions

defs = project.defs
repository = defs.get_repository_def()
graph = defs.resolve_asset_graph()
events = graph.get(dg.AssetKey(["lake", "events-2"]))
jobs = set(repository.job_names)
sensors = {each.name for each in repository.sensor_defs}
turned = build_definitions([project.TRIPS, project.EVENTS]).get_repository_def().job_names
snapshot = repository.get_job("trips__ingest").get_job_snapshot()
schema = snapshot.config_schema_snapshot
root = schema.get_config_snap(snapshot.mode_def_snaps[0].root_config_key)
launchpad = default_values_yaml_from_type_snap(schema, root)

found = {
    "own executor": all(
        defs.resolve_job_def(name).executor_def is dg.multiprocess_executor
        for name in ("cleanup", "trips__ingest", "ml__days__compact")
    ),
    "own resource spark": repository.get_top_level_resources()["spark"] is not None,
    "own job cleanup": {"cleanup", "trips__cleanup"} <= jobs,
    "own schedule compact_schedule": {"compact_schedule", "trips__compact_schedule"}
    <= {each.name for each in repository.schedule_defs},
    "two calls": {"lance_version_sensor", "ml_version_sensor"} <= sensors,
    "key prefix and dash": events.key.path == ["lake", "events-2"],
    "group": events.group_name == "lake",
    "owners": list(events.owners) == ["team:data"],
    "tags": events.tags["tier"] == "gold",
    "kinds": {"csv", "lance"} <= events.kinds,
    "deps": events.parent_keys == {dg.AssetKey("raw")},
    "downstream of an asset": dg.AssetKey(["lake", "events-2"]) in graph.get(dg.AssetKey("report")).parent_keys,
    "partitions": graph.get(dg.AssetKey(["ml", "days"])).partitions_def.get_partition_keys()[0] == "2026-01-01",
    "storage options": project.EVENTS.storage_options["secret"].env_var_name == "NO_SUCH_SECRET",
    "automation condition": events.automation_condition is not None,
    "job names without order": set(turned) <= jobs,
    "asset checks": {dg.AssetCheckKey(events.key, name) for name in ("key_unique", "rows")} <= graph.asset_check_keys,
    "launchpad shows source, uri and mode": all(
        text in launchpad for text in ("landing/*.csv", "lake/trips.lance", "append")
    ),
}
print(json.dumps(found))
"""

ORDINARY = (
    "own executor",
    "own resource spark",
    "own job cleanup",
    "own schedule compact_schedule",
    "two calls",
    "key prefix and dash",
    "group",
    "owners",
    "tags",
    "kinds",
    "deps",
    "downstream of an asset",
    "partitions",
    "storage options",
    "automation condition",
    "job names without order",
    "asset checks",
    "launchpad shows source, uri and mode",
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with its own executor, resources, job, schedule, and assets, and two calls of ``build_definitions``."""
    directory = tmp_path_factory.mktemp("project")
    (directory / "definitions.py").write_text(OWN_PROJECT)
    (directory / "landing").mkdir()
    (directory / "landing" / "a.csv").write_text("id,city\n1,Rome\n2,Oslo\n")
    return directory


@pytest.fixture(scope="module")
def things(full: Environment, project: Path) -> dict[str, bool]:
    found: dict[str, bool] = json.loads(full.run("python", "-c", THINGS, cwd=project).splitlines()[-1])
    return found


@pytest.mark.parametrize("thing", ORDINARY)
def test_common_dagster_feature_has_the_expected_result_in_a_user_project(things: dict[str, bool], thing: str) -> None:
    assert things[thing]


def test_every_common_dagster_feature_is_tested(things: dict[str, bool]) -> None:
    assert sorted(things) == sorted(ORDINARY)


def test_dagster_validates_the_project(full: Environment, project: Path) -> None:
    full.run("dagster", "definitions", "validate", "-f", "definitions.py", cwd=project)


def test_the_project_ingests_and_reads(full: Environment, project: Path) -> None:
    printed = full.run("dagster", "job", "execute", "-f", "definitions.py", "-j", "trips__ingest", cwd=project)
    assert "lake/trips.lance version 1: 2 rows" in printed
    full.run("dagster", "asset", "materialize", "-f", "definitions.py", "--select", "report", cwd=project)
    program = 'import lance_core; print(lance_core.dataset("tables/report.lance").to_table().to_pylist())'
    assert full.run("python", "-c", program, cwd=project).strip() == "[{'rows': 2}]"


def test_dg_checks_a_project_with_a_dataset_in_yaml(full: Environment, tmp_path: Path) -> None:
    folder = tmp_path / "src" / "shop" / "defs"
    folder.mkdir(parents=True)
    for module in (folder.parent / "__init__.py", folder / "__init__.py"):
        module.touch()
    (folder.parent / "definitions.py").write_text(
        "from pathlib import Path\nimport dagster as dg\n\n@dg.definitions\ndef defs():\n"
        "    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)\n"
    )
    (tmp_path / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "shop"\nversion = "0.1"\n[tool.setuptools.packages.find]\nwhere = ["src"]\n'
        '[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "shop"\n'
    )
    call("uv", "pip", "install", "--quiet", "--python", str(full.bin / "python"), "-e", ".", cwd=tmp_path)
    full.run("dg", "scaffold", "defs", "lance_pipelines.LanceDatasetComponent", "trips", cwd=tmp_path)
    assert "All definitions loaded successfully" in full.run("dg", "check", "defs", cwd=tmp_path)
