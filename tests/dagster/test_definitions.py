from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import dagster as dg
import pytest
import yaml

from lance_core.errors import InvalidInputError
from lance_pipelines.build import build_definitions
from lance_pipelines.ingest.declaration import DatasetDeclaration, SourceFormat, SourceSpec
from lance_pipelines.settings import ExecutorKind, Settings

MODULE = "lance_pipelines.definitions"
REPOSITORY = Path(__file__).parents[2]


def declaration(name: str) -> DatasetDeclaration:
    return DatasetDeclaration(
        name=name, uri=f"/lake/{name}.lance", source=SourceSpec(format=SourceFormat.CSV, paths=("/in/*.csv",))
    )


def test_the_definitions_of_the_project_load() -> None:
    from lance_pipelines.definitions import defs

    dg.Definitions.validate_loadable(defs)
    assert defs.resolve_job_def("ingest").asset_layer.executable_asset_keys == {dg.AssetKey("installed_files")}


def test_loading_the_definitions_starts_no_jvm_and_reads_no_dataset() -> None:
    """Definitions are loaded on every start of the UI: that must be quick and need nothing."""
    code = (
        "import lance_pipelines.definitions, subprocess\n"
        "from pyspark import SparkContext\n"
        "assert SparkContext._gateway is None\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True, env={"PATH": "/nowhere"})


def test_an_asset_shows_its_kinds_and_its_uri() -> None:
    defs = build_definitions(declarations=[declaration("trips")], settings=Settings(warehouse="/lake"))
    spec = defs.resolve_assets_def("trips").get_asset_spec()
    assert spec.kinds == {"lance", "spark"}
    assert spec.metadata["dagster/uri"].value == "/lake/trips.lance"
    assert spec.metadata["dagster/storage_kind"].value == "lance"


def test_each_dataset_has_a_job_and_a_pool() -> None:
    defs = build_definitions(
        declarations=[declaration("trips"), declaration("zones")], settings=Settings(warehouse="/lake")
    )
    dg.Definitions.validate_loadable(defs)
    for job_name, asset in (("ingest_trips", "trips"), ("ingest_zones", "zones")):
        job = defs.resolve_job_def(job_name)
        assert job.asset_layer.executable_asset_keys == {dg.AssetKey(asset)}
        pools = {node.name: node.definition.pool for node in job.graph.node_dict[asset].definition.nodes}
        assert pools == {"write_fragments": None, "commit_fragments": f"lance__{asset}"}


def test_names_do_not_depend_on_the_order_of_declarations() -> None:
    def names(*datasets: str) -> dict[str, object]:
        declarations = list(map(declaration, datasets))
        repository = build_definitions(
            declarations=declarations, settings=Settings(warehouse="/l")
        ).get_repository_def()
        jobs = {job.name: job.tags for job in repository.get_all_jobs() if job.tags}
        schedules = {schedule.name: schedule.job_name for schedule in repository.schedule_defs}
        sensors = {sensor.name: {target.job_name for target in sensor.targets} for sensor in repository.sensor_defs}
        return {"jobs": jobs, "schedules": schedules, "sensors": sensors}

    assert names("trips", "zones", "users") == names("users", "zones", "trips")


def test_a_second_dataset_leaves_the_names_of_schedules_as_they_are() -> None:
    """Whether a schedule is switched on belongs to its name."""

    def schedules(*datasets: str) -> set[str]:
        declarations = list(map(declaration, datasets))
        repository = build_definitions(
            declarations=declarations, settings=Settings(warehouse="/l")
        ).get_repository_def()
        return {schedule.name for schedule in repository.schedule_defs}

    assert schedules("trips") < schedules("zones", "trips")


def sensors_of(defs: dg.Definitions) -> dict[str, dg.SensorDefinition]:
    return {sensor.name: sensor for sensor in defs.get_repository_def().sensor_defs}


def test_each_kind_of_sensor_exists_once_for_all_datasets() -> None:
    declarations = [declaration("trips"), declaration("zones")]
    sensors = sensors_of(build_definitions(declarations=declarations, settings=Settings(warehouse="/lake")))
    targets = {name: {target.job_name for target in sensor.targets} for name, sensor in sensors.items()}
    assert targets == {
        "version_sensor": set(),
        "automation_sensor": targets["automation_sensor"],
        "compaction_sensor": {"compact_trips", "compact_zones"},
        "deletion_sensor": {"materialize_deletions_trips", "materialize_deletions_zones"},
        "cleanup_sensor": {"cleanup_trips", "cleanup_zones"},
    }


def test_maintenance_sensors_are_switched_off_unless_requested() -> None:
    def running(**arguments: object) -> set[str]:
        defs = build_definitions(declarations=[declaration("trips")], settings=Settings(warehouse="/l"), **arguments)
        return {
            name for name, sensor in sensors_of(defs).items() if sensor.default_status is dg.DefaultSensorStatus.RUNNING
        }

    watching = {"version_sensor", "automation_sensor"}
    acting = {"compaction_sensor", "deletion_sensor", "cleanup_sensor"}
    assert running() == watching
    assert running(maintenance_status=dg.DefaultSensorStatus.RUNNING) == watching | acting


def test_the_interval_of_the_sensors_can_be_given() -> None:
    for interval, expected in ((None, {30, 300}), (2, {2})):
        defs = build_definitions(
            declarations=[declaration("trips")], settings=Settings(warehouse="/l"), sensor_interval_seconds=interval
        )
        assert {sensor.minimum_interval_seconds for sensor in sensors_of(defs).values()} == expected


def test_a_project_without_datasets_loads() -> None:
    defs = build_definitions(declarations=[], settings=Settings(warehouse="/l"))
    dg.Definitions.validate_loadable(defs)
    assert set(sensors_of(defs)) == {"version_sensor", "automation_sensor"}


def test_an_automation_sensor_of_the_user_replaces_the_default_one() -> None:
    """Two of them would both claim every asset."""
    mine = dg.AutomationConditionSensorDefinition("mine", target=dg.AssetSelection.all())
    defs = build_definitions(declarations=[declaration("trips")], settings=Settings(warehouse="/l"), sensors=[mine])
    dg.Definitions.validate_loadable(defs)
    assert {"mine", "version_sensor"} <= set(sensors_of(defs))
    assert "automation_sensor" not in sensors_of(defs)


def test_additional_sensors_and_schedules_become_part_of_the_definitions() -> None:
    @dg.sensor(job_name="ingest")
    def new_files(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        return dg.SkipReason("none")

    hourly = dg.ScheduleDefinition(name="hourly", job_name="ingest", cron_schedule="0 * * * *")
    defs = build_definitions(
        declarations=[declaration("trips")], settings=Settings(warehouse="/l"), sensors=[new_files], schedules=[hourly]
    )
    dg.Definitions.validate_loadable(defs)
    assert "new_files" in sensors_of(defs)
    assert "hourly" in {schedule.name for schedule in defs.get_repository_def().schedule_defs}


def test_a_dataset_name_declared_twice_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"duplicate dataset names: \['trips'\]"):
        build_definitions(declarations=[declaration("trips"), declaration("trips")])


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (
            ["compact"],
            "a job of dataset 'compact' and the asset of dataset 'compact' would have the same name 'compact'",
        ),
        (
            ["trips", "ingest_trips"],
            "a job of dataset 'trips' and the asset of dataset 'ingest_trips' would have the same name 'ingest_trips'",
        ),
        (
            ["a", "compact_b", "b"],
            "a job of dataset 'b' and the asset of dataset 'compact_b' would have the same name 'com",
        ),
        (["a", "delete_rows_from_a"], "an op of dataset 'a' and the asset of dataset 'delete_rows_from_a' would have"),
        (["a", "write_fragments_of_a"], "an op of dataset 'a' and the asset of dataset 'write_fragments_of_a' would"),
        (
            ["b", "from_b"],
            "a job of dataset 'from_b' and an op of dataset 'b' would have the same name 'delete_rows_from_b'",
        ),
        (["b", "ingest"], None),
        (["compact_schedule", "version_sensor", "write_fragments", "plan_cleanup"], None),
        (["config"], "invalid dataset name 'config'"),
        (["class"], "invalid dataset name 'class'"),
        (["__ASSET_JOB"], "invalid dataset name '__ASSET_JOB'"),
    ],
)
def test_a_dataset_name_used_by_another_definition_is_refused(names, expected) -> None:
    def load() -> dg.Definitions:
        return build_definitions(declarations=list(map(declaration, names)), settings=Settings(warehouse="/lake"))

    if expected is None:
        dg.Definitions.validate_loadable(load())
    else:
        with pytest.raises(InvalidInputError, match=expected):
            load()


def test_a_run_uses_the_executor_of_the_settings() -> None:
    for kind, name in ((ExecutorKind.IN_PROCESS, "in_process"), (ExecutorKind.MULTIPROCESS, "multiprocess")):
        defs = build_definitions(declarations=[declaration("trips")], settings=Settings(warehouse="/l", executor=kind))
        assert defs.resolve_job_def("ingest").executor_def.name == name


def test_additional_assets_and_resources_become_part_of_the_definitions() -> None:
    @dg.asset(deps=["trips"])
    def report() -> None:
        """Reads the trips."""

    defs = build_definitions(
        declarations=[declaration("trips")], settings=Settings(warehouse="/l"), assets=[report], resources={"more": 1}
    )
    assert defs.resolve_asset_graph().get(dg.AssetKey("report")).parent_keys == {dg.AssetKey("trips")}
    assert set(defs.resources) == {"spark", "more"}


def test_the_instance_configuration_is_accepted_by_dagster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    settings = yaml.safe_load((REPOSITORY / "dagster.yaml").read_text())
    with dg.instance_for_test(overrides=settings, temp_dir=str(tmp_path)) as instance:
        pools = instance.get_concurrency_config().pool_config
        assert (pools.pool_granularity.value, pools.default_pool_limit) == ("op", 1)
        assert instance.run_monitoring_enabled
        assert not instance.telemetry_enabled


def test_the_code_location_has_the_same_name_in_every_file() -> None:
    """That of the module, which is also what ``-m`` calls it: the state of sensors and schedules belongs to a name."""
    (entry,) = yaml.safe_load((REPOSITORY / "workspace.yaml").read_text())["load_from"]
    assert entry["python_module"] == {"module_name": MODULE, "location_name": MODULE}
    tools = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]
    assert tools["dagster"] == {"module_name": MODULE, "code_location_name": MODULE}
    project = tools["dg"]["project"]
    assert (project["code_location_target_module"], project["code_location_name"]) == (MODULE, MODULE)
    assert f"dagster sensor start -m {MODULE} " in (REPOSITORY / "docs" / "guides" / "sensors.md").read_text()
