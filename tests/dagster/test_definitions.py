"""Definitions built from dataset declarations: assets, jobs, pools, sensors, and their names."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from lance_core.errors import InvalidInputError
from lance_pipelines.assets.ingested_dataset import build_dataset_asset
from lance_pipelines.build import build_definitions
from lance_pipelines.definitions import application
from lance_pipelines.generated_names import JOBS, STEPS
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.ingest.sources import FileSource, SourceFormat, StreamSource
from lance_pipelines.maintenance.index_declaration import IndexDeclaration, IndexType
from lance_pipelines.maintenance.policy import MaintenancePolicy
from lance_pipelines.maintenance.retention_rule import RetentionRule
from lance_pipelines.publish.settings import PublishSettings
from lance_pipelines.settings import ExecutorKind, Settings

MODULE = "lance_pipelines.definitions"
REPOSITORY = Path(__file__).parents[2]


def declaration(name: str | tuple[str, ...], **values: Any) -> DatasetDeclaration:
    source = FileSource(format=SourceFormat.CSV, paths=("/in/*.csv",))
    return DatasetDeclaration(key=name, uri=f"/lake/{name}.lance", source=source, **values)


def test_the_definitions_of_the_project_load() -> None:
    from lance_pipelines.definitions import defs

    dg.Definitions.validate_loadable(defs)
    assert defs.resolve_job_def("installed_files__ingest").asset_layer.executable_asset_keys == {
        dg.AssetKey("installed_files")
    }


def test_loading_the_definitions_starts_no_jvm_and_reads_no_dataset() -> None:
    """The web interface loads the definitions each time it starts, so that loading must be fast and self-contained."""
    code = (
        "import lance_pipelines.definitions, subprocess\n"
        "from pyspark import SparkContext\n"
        "assert SparkContext._gateway is None\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True, env={"PATH": "/nowhere"})


def test_an_asset_shows_its_kinds_and_its_uri() -> None:
    defs = build_definitions([declaration("trips")])
    spec = defs.resolve_assets_def("trips").get_asset_spec()
    assert spec.kinds == {"lance", "spark"}
    assert spec.metadata["dagster/uri"].value == "/lake/trips.lance"
    assert spec.metadata["dagster/storage_kind"].value == "lance"


def test_each_dataset_has_a_job_and_a_pool() -> None:
    defs = build_definitions([declaration("trips"), declaration("lake/zones-2")])
    dg.Definitions.validate_loadable(defs)
    for name, key in (("trips", dg.AssetKey("trips")), ("lake__zones_2", dg.AssetKey(["lake", "zones-2"]))):
        job = defs.resolve_job_def(f"{name}__ingest")
        assert job.asset_layer.executable_asset_keys == {key}
        pools = {node.name: node.definition.pool for node in job.graph.node_dict[name].definition.nodes}
        assert pools == {"write_fragments": None, "commit_fragments": f"lance__{name}"}


def names_of(defs: dg.Definitions, dataset: str) -> set[str]:
    repository = defs.get_repository_def()
    named = [*repository.get_all_jobs(), *repository.schedule_defs, *repository.sensor_defs]
    return {each.name for each in named if dataset in each.name}


def test_job_and_schedule_names_of_a_dataset_do_not_depend_on_other_datasets() -> None:
    alone = names_of(build_definitions([declaration("trips")]), "trips")
    assert alone == {
        "trips__ingest",
        "trips__compact",
        "trips__compact_schedule",
        "trips__materialize_deletions",
        "trips__materialize_deletions_schedule",
        "trips__cleanup",
        "trips__cleanup_schedule",
        "trips__delete_rows",
        "trips__restore",
        "trips__verify",
        "trips__optimize_indices",
        "trips__optimize_indices_schedule",
        "trips__check",
    }
    assert names_of(build_definitions([declaration("zones"), declaration("trips")]), "trips") == alone


def test_the_documented_job_and_step_names_equal_those_of_a_dataset() -> None:
    index = IndexDeclaration(column="id", type=IndexType.BTREE)
    rule = RetentionRule(predicate="id < 0")
    trips = declaration("trips", publish=PublishSettings(tag="prod"), indices=[index], retention=rule)
    defs = build_definitions([trips])
    jobs = {job.name for job in defs.get_repository_def().get_all_jobs() if job.name.startswith("trips")}
    assert jobs == {f"trips__{job}" for job in JOBS}
    published = defs.assets[1].node_def
    graphs = [
        *(asset.node_def for asset in defs.assets if isinstance(getattr(asset, "node_def", None), dg.GraphDefinition)),
        *(job.graph for job in defs.jobs if isinstance(job, dg.JobDefinition)),
        build_dataset_asset(
            dataclasses.replace(trips, source=StreamSource(format="lance", path="/lake/stream.lance"))
        ).node_def,
    ]
    steps = {node.definition.name for graph in graphs for node in graph.nodes}
    (checks,) = defs.asset_checks
    assert {*steps, checks.node_def.name, published.name} == {f"trips__{step}" for step in STEPS}


def sensors_of(defs: dg.Definitions) -> dict[str, dg.SensorDefinition]:
    return {sensor.name: sensor for sensor in defs.get_repository_def().sensor_defs}


def test_each_kind_of_sensor_exists_once_for_all_datasets() -> None:
    sensors = sensors_of(build_definitions([declaration("trips"), declaration("zones")], namespace="lake"))
    targets = {name: {target.job_name for target in sensor.targets} for name, sensor in sensors.items()}
    assert targets == {
        "lake_version_sensor": set(),
        "lake_compaction_sensor": {"trips__compact", "zones__compact"},
        "lake_deletion_sensor": {"trips__materialize_deletions", "zones__materialize_deletions"},
        "lake_index_sensor": {"trips__optimize_indices", "zones__optimize_indices"},
        "lake_cleanup_sensor": {"trips__cleanup", "zones__cleanup"},
    }


def test_maintenance_sensors_are_switched_off_unless_requested() -> None:
    def running(**arguments: object) -> set[str]:
        defs = build_definitions([declaration("trips")], **arguments)
        return {
            name for name, sensor in sensors_of(defs).items() if sensor.default_status is dg.DefaultSensorStatus.RUNNING
        }

    acting = {"lance_compaction_sensor", "lance_deletion_sensor", "lance_index_sensor", "lance_cleanup_sensor"}
    assert running() == {"lance_version_sensor"}
    assert running(maintenance_status=dg.DefaultSensorStatus.RUNNING) == {"lance_version_sensor"} | acting


@pytest.mark.parametrize("status", dg.DefaultSensorStatus)
@pytest.mark.parametrize(("says", "is_on"), [(True, True), (False, False), (None, False)])
def test_maintenance_sensors_run_by_default_if_the_policy_of_one_dataset_requests_it(says, is_on, status) -> None:
    zones = declaration("zones", maintenance=MaintenancePolicy(running=says))
    sensors = sensors_of(build_definitions([declaration("trips"), zones], maintenance_status=status))
    del sensors["lance_version_sensor"]
    expected = dg.DefaultSensorStatus.RUNNING if is_on else status
    assert {sensor.default_status for sensor in sensors.values()} == {expected}


def test_the_interval_of_the_sensors_can_be_set() -> None:
    for interval, expected in ((None, {30, 300}), (2, {2})):
        defs = build_definitions([declaration("trips")], sensor_interval_seconds=interval)
        assert {sensor.minimum_interval_seconds for sensor in sensors_of(defs).values()} == expected


def test_deps_may_contain_assets_and_keys_that_differ_only_in_a_dash_or_an_underscore() -> None:
    @dg.asset
    def upstream() -> None: ...

    keys = ["x-b", "x_b", dg.AssetKey(["lake", "k"])]
    defs = build_definitions([declaration("events", deps=[*keys, upstream])])
    dg.Definitions.validate_loadable(dg.Definitions.merge(defs, dg.Definitions(assets=[upstream])))
    graph = defs.resolve_asset_graph()
    parents = {"/".join(key.path) for key in graph.get(dg.AssetKey("events")).parent_keys}
    assert parents == {"x-b", "x_b", "lake/k", "upstream"}


def test_definitions_of_many_datasets_are_excluded_from_garbage_collection() -> None:
    code = (
        "import gc\n"
        "from lance_pipelines import DatasetDeclaration, build_definitions\n"
        "for number, is_frozen in ((5, False), (50, True)):\n"
        "    build_definitions([DatasetDeclaration(key=f'd{i}', uri=f'/lake/{i}.lance') for i in range(number)])\n"
        "    assert bool(gc.get_freeze_count()) is is_frozen\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("/lake/t.lance", "file:///lake/x/../t.lance/"),
        ("s3://lake/t.lance", "s3a://lake/t.lance/"),
        ("s3://lake/t.lance", "s3+ddb://lake/t.lance?ddbTableName=versions"),
    ],
)
def test_two_datasets_with_the_same_location_are_refused(first, second) -> None:
    declared = [DatasetDeclaration(key=key, uri=uri) for key, uri in (("lake/a", first), ("b", second))]
    with pytest.raises(
        InvalidInputError, match=f"datasets lake/a and b have the same location, {re.escape(second)}, so"
    ):
        build_definitions(declared)


def test_two_streams_with_the_same_checkpoint_are_refused() -> None:
    sources = [StreamSource(format="lance", path="/in", checkpoint=f"/points{end}") for end in ("", "/")]
    declared = [DatasetDeclaration(key=f"k{n}", uri=f"s3://lake/{n}", source=each) for n, each in enumerate(sources)]
    with pytest.raises(InvalidInputError, match="datasets k0 and k1 have the same checkpoint, /points/, so each would"):
        build_definitions(declared)


def test_two_datasets_with_the_same_uri_in_different_stores_are_accepted() -> None:
    stores = {"a": {"aws_endpoint": "http://one"}, "b": {"aws_endpoint": "http://two"}}
    declared = [DatasetDeclaration(key=key, uri="s3://t", storage_options=options) for key, options in stores.items()]
    dg.Definitions.validate_loadable(build_definitions(declared))


def test_a_project_without_datasets_loads() -> None:
    defs = build_definitions([])
    dg.Definitions.validate_loadable(defs)
    assert set(sensors_of(defs)) == {"lance_version_sensor"}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["trips", "trips"], "datasets trips and trips have the same name 'trips'"),
        (["lake/trips", "lake__trips"], "datasets lake/trips and lake__trips have the same name 'lake__trips'"),
        (["a-b", "a.b"], "datasets a-b and a.b have the same name 'a_b'"),
        (
            ["a", "a/compact"],
            "the name 'a__compact' of dataset a/compact is also the name of a job of dataset a",
        ),
        (
            ["a__write_fragments", "a"],
            "the name 'a__write_fragments' of dataset a__write_fragments is also the name of a step of dataset a",
        ),
        (["b", "ingest", "compact", "a/compact"], None),
        (["lance_version_sensor", "write_fragments", "plan_cleanup", "2024"], None),
        (["config"], "invalid dataset name 'config'"),
        (["class"], "invalid dataset name 'class'"),
        (["__ASSET_JOB"], "invalid dataset name '__ASSET_JOB'"),
        (["lake/c d"], "invalid asset key 'lake/c d': each part must"),
        (["events\n"], r"invalid asset key 'events\n': each part must"),
        (["ключ"], "invalid asset key 'ключ'"),
        ([("x/y", "z")], "invalid asset key 'x/y/z'"),
    ],
)
def test_dataset_keys_with_colliding_names_are_refused(keys, expected) -> None:
    if expected is None:
        dg.Definitions.validate_loadable(build_definitions(map(declaration, keys)))
    else:
        with pytest.raises(InvalidInputError, match=re.escape(expected)):
            build_definitions(map(declaration, keys))


def test_a_malformed_namespace_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="invalid namespace 'my-lake'"):
        build_definitions([], namespace="my-lake")


def test_asset_has_the_attributes_of_its_declaration() -> None:
    declared = dataclasses.replace(
        declaration("lake/trips"),
        description="Trips.",
        group="rides",
        owners=["team:rides", "ann@example.com"],
        tags={"tier": "gold"},
        kinds=["csv"],
        deps=["landing/files", ("raw", "zones"), dg.AssetDep("fares")],
        automation_condition=dg.AutomationCondition.on_cron("@daily"),
        freshness=dg.FreshnessPolicy.time_window(fail_window=timedelta(days=1)),
        column_lineage={"fare": [("fares", "amount"), (("raw", "zones"), "factor")]},
    )
    defs = dg.Definitions.merge(build_definitions([declared]), dg.Definitions(assets=[dg.AssetSpec("fares")]))
    dg.Definitions.validate_loadable(defs)
    spec = defs.resolve_assets_def(["lake", "trips"]).get_asset_spec()
    assert spec.key == dg.AssetKey(["lake", "trips"])
    assert (spec.description, spec.group_name, spec.owners) == ("Trips.", "rides", ["team:rides", "ann@example.com"])
    assert spec.tags["tier"] == "gold"
    assert spec.kinds == {"lance", "spark", "csv"}
    assert {dep.asset_key.to_user_string() for dep in spec.deps} == {"landing/files", "raw/zones", "fares"}
    assert spec.automation_condition == declared.automation_condition
    assert spec.freshness_policy == declared.freshness
    lineage = spec.metadata["dagster/column_lineage"].value.deps_by_column
    assert lineage == {
        "fare": [
            dg.TableColumnDep(dg.AssetKey("fares"), "amount"),
            dg.TableColumnDep(dg.AssetKey(["raw", "zones"]), "factor"),
        ]
    }


def test_a_run_of_the_application_uses_the_executor_of_the_settings() -> None:
    for kind, name in ((ExecutorKind.IN_PROCESS, "in_process"), (ExecutorKind.MULTIPROCESS, "multiprocess")):
        defs = application(Settings(warehouse="/l", executor=kind))
        assert defs.resolve_job_def("installed_files__ingest").executor_def.name == name


def test_the_instance_configuration_is_accepted_by_dagster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    settings = yaml.safe_load((REPOSITORY / "dagster.yaml").read_text())
    with dg.instance_for_test(overrides=settings, temp_dir=str(tmp_path)) as instance:
        pools = instance.get_concurrency_config().pool_config
        assert (pools.pool_granularity.value, pools.default_pool_limit) == ("op", 1)
        assert instance.run_monitoring_enabled
        assert not instance.telemetry_enabled


def test_the_code_location_has_the_same_name_in_every_file() -> None:
    """The name is the module's, as with ``-m``: the state of sensors and schedules is stored under the name."""
    (entry,) = yaml.safe_load((REPOSITORY / "workspace.yaml").read_text())["load_from"]
    assert entry["python_module"] == {"module_name": MODULE, "location_name": MODULE}
    tools = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]
    assert tools["dagster"] == {"module_name": MODULE, "code_location_name": MODULE}
    project = tools["dg"]["project"]
    assert (project["code_location_target_module"], project["code_location_name"]) == (MODULE, MODULE)
    assert f"dagster sensor start -m {MODULE} " in (REPOSITORY / "docs" / "guides" / "sensors.md").read_text()
