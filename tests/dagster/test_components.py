"""Datasets that are declared in the ``defs.yaml`` files of a project."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import dagster as dg
import jsonschema
import pytest
import yaml
from dagster.components.component_scaffolding import scaffold_object
from dagster.components.definitions import LazyDefinitions

from lance_core.errors import InvalidInputError
from lance_pipelines import (
    AssetSource,
    CheckSettings,
    CleanupPolicy,
    CompactionPolicy,
    DatasetDeclaration,
    FileSource,
    FunctionSource,
    LanceDatasetComponent,
    MaintenancePolicy,
    PartitionColumn,
    SchemaMode,
    SourceFormat,
    SparkSource,
    SqlSource,
    WriteMode,
    on_new_data,
)
from lance_pipelines.components.lance_dataset import ProjectSettings
from lance_pipelines.components.yaml_types import yaml_type

pytestmark = pytest.mark.filterwarnings("error::DeprecationWarning", "error::PendingDeprecationWarning")

DEFINITIONS = """
from pathlib import Path

import dagster as dg


@dg.definitions
def defs():
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
"""

MINIMAL = {"key": "trips", "uri": "/lake/trips.lance", "source": {"format": "csv", "paths": ["/data/trips"]}}


class Project:
    """A project as created by ``create-dagster``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.defs = root / "src" / "shop" / "defs"
        self.defs.mkdir(parents=True)
        for module in (self.defs.parent / "__init__.py", self.defs / "__init__.py"):
            module.touch()
        (self.defs.parent / "definitions.py").write_text(DEFINITIONS)
        (root / "pyproject.toml").write_text(
            '[project]\nname = "shop"\nversion = "0.1"\n[tool.dg]\ndirectory_type = "project"\n'
            '[tool.dg.project]\nroot_module = "shop"\n'
        )

    def add(self, folder: str, *documents: dict[str, Any]) -> Path:
        """Write a file with one document for each mapping of attributes."""
        path = self.defs / folder / "defs.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(
            "---\n".join(
                yaml.safe_dump(
                    {"type": "lance_pipelines.LanceDatasetComponent", "attributes": attributes}, sort_keys=False
                )
                for attributes in documents
            )
        )
        return path

    def load(self) -> dg.Definitions:
        """Return the definitions of all files."""
        shop = importlib.import_module("shop")
        return dg.load_from_defs_folder(path_within_project=Path(shop.__file__))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    made = Project(tmp_path / "shop")
    monkeypatch.syspath_prepend(str(made.root / "src"))
    yield made
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]


def component(attributes: dict[str, Any]) -> LanceDatasetComponent:
    return LanceDatasetComponent.from_attributes_dict(attributes=attributes)


def declared(**attributes: Any) -> DatasetDeclaration:
    (declaration,) = component({**MINIMAL, **attributes}).datasets
    return declaration


@cache
def schema() -> dict[str, Any]:
    found = LanceDatasetComponent.get_model_cls().model_json_schema()
    jsonschema.Draft202012Validator.check_schema(found)
    return found


def errors_of_the_schema(attributes: dict[str, Any]) -> list[str]:
    return [error.message for error in jsonschema.Draft202012Validator(schema()).iter_errors(attributes)]


FIELDS: list[tuple[str, Any, Any]] = [
    ("key", ["lake", "trips-2"], ("lake", "trips-2")),
    ("key", "lake/trips", ("lake", "trips")),
    ("uri", "s3://lake/trips.lance", "s3://lake/trips.lance"),
    (
        "source",
        {
            "format": "csv",
            "paths": ["/data/*.csv"],
            "options": {"header": "true"},
            "schema": "id BIGINT",
            "sql": "SELECT id FROM source",
        },
        FileSource(
            format=SourceFormat.CSV,
            paths=("/data/*.csv",),
            options={"header": "true"},
            schema="id BIGINT",
            sql="SELECT id FROM source",
        ),
    ),
    (
        "source",
        {"type": "sql", "sql": "SELECT 1", "jdbc": {"url": "jdbc:x", "password": "{{ env.PASSWORD }}"}},
        SqlSource(sql="SELECT 1", jdbc={"url": "jdbc:x", "password": dg.EnvVar("PASSWORD")}),
    ),
    (
        "source",
        {"type": "asset", "key": "raw/trips", "uri": "/raw/trips.lance", "columns": ["id"], "filter": "id > 1"},
        AssetSource(key="raw/trips", uri="/raw/trips.lance", columns=("id",), filter="id > 1"),
    ),
    ("source", {"type": "function", "function": "json.loads"}, FunctionSource(function=json.loads)),
    ("source", {"type": "spark", "function": "json.dumps"}, SparkSource(function=json.dumps)),
    ("source", None, None),
    ("mode", "overwrite", WriteMode.OVERWRITE),
    ("schema_mode", "add", SchemaMode.ADD),
    ("partitions", {"type": "daily", "start_date": "2026-01-01"}, dg.DailyPartitionsDefinition("2026-01-01")),
    (
        "partitions",
        {"type": "hourly", "start_date": "2026-01-01-00:00", "timezone": "Europe/Berlin"},
        dg.HourlyPartitionsDefinition("2026-01-01-00:00", timezone="Europe/Berlin"),
    ),
    ("partitions", {"type": "weekly", "start_date": "2026-01-01"}, dg.WeeklyPartitionsDefinition("2026-01-01")),
    (
        "partitions",
        {"type": "monthly", "start_date": "2026-01-01", "day_offset": 2},
        dg.MonthlyPartitionsDefinition("2026-01-01", day_offset=2),
    ),
    (
        "partitions",
        {"type": "time_window", "start": "2026-01", "fmt": "%Y-%m", "cron_schedule": "0 0 1 * *"},
        dg.TimeWindowPartitionsDefinition(start="2026-01", fmt="%Y-%m", cron_schedule="0 0 1 * *"),
    ),
    (
        "partitions",
        {"type": "static", "partition_keys": ["eu", "us"]},
        dg.StaticPartitionsDefinition(("eu", "us")),
    ),
    ("partitions", {"type": "dynamic", "name": "cities"}, dg.DynamicPartitionsDefinition(name="cities")),
    (
        "partitions",
        {
            "type": "multi",
            "dimensions": {
                "day": {"type": "daily", "start_date": "2026-01-01"},
                "region": {"type": "static", "partition_keys": ["eu"]},
            },
        },
        dg.MultiPartitionsDefinition(
            {"day": dg.DailyPartitionsDefinition("2026-01-01"), "region": dg.StaticPartitionsDefinition(("eu",))}
        ),
    ),
    (
        "partitions",
        "{{ dg.DailyPartitionsDefinition(start_date='2026-01-01') }}",
        dg.DailyPartitionsDefinition("2026-01-01"),
    ),
    ("partition_by", "day", "day"),
    (
        "partition_by",
        [{"column": "region", "dimension": "region", "values": {"eu": 1, "none": None}}],
        (PartitionColumn(column="region", dimension="region", values={"eu": 1, "none": None}),),
    ),
    ("max_rows_per_file", 10, 10),
    ("data_storage_version", "2.1", "2.1"),
    ("data_storage_version", None, None),
    ("vector_columns", {"embedding": 768}, {"embedding": 768}),
    (
        "maintenance",
        {
            "compaction": {"min_small_fragments": 4},
            "deletion": None,
            "cleanup": {"older_than": "7d", "retain_versions": 3},
        },
        MaintenancePolicy(
            compaction=CompactionPolicy(min_small_fragments=4),
            deletion=None,
            cleanup=CleanupPolicy(older_than=timedelta(days=7), retain_versions=3),
        ),
    ),
    (
        "checks",
        {"key": ["id"], "max_age": "36h", "severities": {"verify": "off", "fragments": "error"}},
        CheckSettings(key=("id",), max_age=timedelta(hours=36), severities={"verify": "off", "fragments": "error"}),
    ),
    ("description", "All trips.", "All trips."),
    ("group", "lake", "lake"),
    ("owners", ["team:data", "ann@example.com"], ("team:data", "ann@example.com")),
    ("tags", {"tier": "gold"}, {"tier": "gold"}),
    ("kinds", ["csv"], ("csv",)),
    ("deps", ["raw/trips", ["raw", "b-2"]], ("raw/trips", ("raw", "b-2"))),
    ("automation_condition", "eager", dg.AutomationCondition.eager()),
    ("automation_condition", "on_new_data", on_new_data()),
    ("automation_condition", "{{ on_new_data() }}", on_new_data()),
    (
        "automation_condition",
        "{{ dg.AutomationCondition.on_cron('@daily') }}",
        dg.AutomationCondition.on_cron("@daily"),
    ),
    ("freshness", {"fail_window": "24h"}, dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=24))),
    (
        "freshness",
        {"type": "cron", "deadline_cron": "0 9 * * *", "lower_bound_delta": "2h"},
        dg.FreshnessPolicy.cron(deadline_cron="0 9 * * *", lower_bound_delta=timedelta(hours=2)),
    ),
    ("column_descriptions", {"id": "The number of the trip."}, {"id": "The number of the trip."}),
    ("column_lineage", {"id": [["raw/trips", "nr"]]}, {"id": (("raw/trips", "nr"),)}),
]


@pytest.mark.parametrize(("field", "written", "value"), FIELDS, ids=lambda each: each if isinstance(each, str) else "")
def test_a_yaml_field_has_the_same_value_as_in_a_python_declaration(field: str, written: Any, value: Any) -> None:
    assert getattr(declared(**{field: written}), field) == value
    assert errors_of_the_schema({**MINIMAL, field: written}) == []


@pytest.mark.parametrize("field", get_type_hints(DatasetDeclaration, localns={"dg": dg}))
def test_every_field_of_a_declaration_can_be_written_in_yaml(field: str) -> None:
    """Templates do not count, because their values are created in Python."""
    kind = yaml_type(get_type_hints(DatasetDeclaration, localns={"dg": dg})[field])
    assert kind.schema.get("type")
    assert schema()["properties"][field]["description"]


MISTAKES: list[tuple[dict[str, Any], str, str]] = [
    ({"mod": "append"}, "mod: unknown field; expected one of key, uri, ", "'mod' was unexpected"),
    ({"mode": "apend"}, "mode: expected one of append, overwrite", "'apend' is not one of ['append', 'overwrite'"),
    (
        {"source": {"format": "csv", "path": "/x"}},
        "source.path: unknown field; expected one of format, paths, ",
        "'path' was unexpected",
    ),
    ({"source": {"paths": ["/x"]}}, "source: the field 'format' is missing", "'format' is a required property"),
    ({"source": {"type": "files"}}, "source.type: expected one of file, sql, asset, function, spark", "'files' is not"),
    (
        {"source": {"type": "function", "function": "json.no"}},
        "source.function: cannot import the function 'json.no'",
        "",
    ),
    ({"source": {"type": "sql"}}, "source: the field 'sql' is missing", "'sql' is a required property"),
    ({"source": {"format": "csv", "paths": "/x"}}, "source.paths: expected a list, found '/x'", "'/x' is not of type"),
    ({"source": {"format": "csv"}}, "source: source format csv requires at least one path", ""),
    ({"max_rows_per_file": "many"}, "max_rows_per_file: expected an integer, found 'many'", "'many' is not of type"),
    ({"key": "lake/c d"}, "key: invalid asset key 'lake/c d': each part must consist of ASCII letters", ""),
    ({"mode": "upsert", "upsert_by": 3}, "upsert_by: expected text or a list, found 3", "3 is not"),
    ({"max_rows_per_file": True}, "max_rows_per_file: expected an integer, found True", "True is not of type"),
    (
        {"maintenance": {"running": "on"}},
        "maintenance.running: expected true or false or null, found 'on'",
        "'on' is not of type",
    ),
    ({"max_rows_per_file": 0}, "dataset trips: max_rows_per_file must be a positive whole number, found 0", ""),
    ({"data_storage_version": 2.1}, "data_storage_version: expected text or null, found 2.1", "2.1 is not of type"),
    ({"tags": {"tier": 1}}, "tags.tier: expected text, found 1", "1 is not of type 'string'"),
    (
        {"maintenance": {"cleanup": {"older_than": "soon"}}},
        "maintenance.cleanup.older_than: 'soon' is not a valid duration",
        "",
    ),
    (
        {"maintenance": {"compaction": {"min_small_fragments": 1}}},
        "maintenance.compaction: compaction: min_small_fragments must be at least 2",
        "",
    ),
    (
        {"column_lineage": {"id": [["raw"]]}},
        "column_lineage.id.0: expected a list of 2 items, found ['raw']",
        "['raw'] is",
    ),
    ({"freshness": {"type": "daily"}}, "freshness.type: expected one of time_window, cron", "'daily' is not one of"),
    ({"freshness": {"fail_window": "1h", "warn": "2h"}}, "freshness.warn: unknown field", "'warn' was unexpected"),
    ({"uri": "{{ env.NO_SUCH_VARIABLE }}/x"}, "uri: template", ""),
    ({"automation_condition": "{{ 1 + 1 }}"}, "automation_condition: expected one of on_new_data", ""),
    ({"sensor_interval_seconds": "often"}, "sensor_interval_seconds: expected an integer or null", "'often' is not of"),
    ({"datasets": {}}, "datasets: expected a list, found {}", "{} is not of type 'array'"),
    ({"datasets": ["trips"]}, "datasets.0: expected a mapping, found 'trips'", "'trips' is not of type 'object'"),
]


@pytest.mark.parametrize(
    ("changes", "message", "by_schema"), MISTAKES, ids=lambda each: each if isinstance(each, str) else ""
)
def test_a_mistake_in_yaml_is_reported_in_one_line_with_its_field(
    changes: dict[str, Any], message: str, by_schema: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        component({**MINIMAL, **changes})
    assert str(caught.value).startswith(("attributes: ", "attributes."))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    # The schema accepts mistakes that it cannot express.
    found = errors_of_the_schema({**MINIMAL, **changes})
    assert len(found) == bool(by_schema)
    assert by_schema in "".join(found)


def test_a_missing_field_is_reported_with_the_file_and_the_line(project: Project) -> None:
    path = project.add("trips", {"key": "trips", "mode": "append"})
    with pytest.raises(Exception, match="trips") as caught:
        project.load()
    error: BaseException | None = caught.value
    while error is not None and not isinstance(error, InvalidInputError):
        error = error.__cause__ or error.__context__
    assert str(error) == f"{path}:2: attributes: the field 'uri' is missing"
    assert errors_of_the_schema({"key": "trips"}) == ["'uri' is a required property"]


def test_the_value_of_an_environment_variable_remains_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE", "/lake")
    monkeypatch.setenv("NUMBER", "007")
    monkeypatch.setenv("ROWS", "100")
    found = declared(
        uri="{{ env.LAKE }}/{{ env('MISSING', 'trips') }}.lance",
        description="{{ env.NUMBER }}",
        max_rows_per_file="{{ env.ROWS }}",
    )
    assert (found.uri, found.description, found.max_rows_per_file) == ("/lake/trips.lance", "007", 100)


def test_a_secret_is_read_when_a_process_opens_the_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKE_SECRET", raising=False)
    options = {"aws_region": "eu-central-1", "secret": "{{ env.LAKE_SECRET }}", "key": "{{ env('LAKE_KEY') }}"}
    found = declared(storage_options=options)
    assert found.storage_options == {
        "aws_region": "eu-central-1",
        "secret": dg.EnvVar("LAKE_SECRET"),
        "key": dg.EnvVar("LAKE_KEY"),
    }
    monkeypatch.setenv("LAKE_SECRET", "x")
    monkeypatch.setenv("LAKE_KEY", "y")
    assert found.resolved_storage_options() == {"aws_region": "eu-central-1", "secret": "x", "key": "y"}


@pytest.mark.parametrize(
    ("secret", "found"),
    [
        (12345, "int; enclose the value in quotes"),
        (True, "bool; enclose the value in quotes"),
        (date(2026, 1, 2), "date; enclose the value in quotes"),
        ([12345], "list"),
    ],
)
def test_a_secret_of_the_wrong_type_is_not_shown(secret: Any, found: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        declared(storage_options={"secret": secret})
    assert str(caught.value) == f"attributes.storage_options.secret: expected text, found a value of type {found}"


def test_common_fields_apply_to_all_datasets() -> None:
    found = component(
        {
            "group": "lake",
            "source": MINIMAL["source"],
            "datasets": [{"key": "a", "uri": "/a"}, {"key": "b", "uri": "/b", "group": "other"}],
        }
    ).datasets
    assert [(each.key, each.uri, each.group) for each in found] == [(("a",), "/a", "lake"), (("b",), "/b", "other")]
    with pytest.raises(InvalidInputError, match=r"^attributes\.datasets\.0: the field 'uri' is missing$"):
        component({"datasets": [{"key": "a"}]})


def test_one_dataset_is_declared_for_each_directory_that_a_glob_matches(tmp_path: Path) -> None:
    for name in ("b", "a.2024"):
        (tmp_path / name).mkdir()
    attributes = {
        "for_each": f"{tmp_path}/*",
        "key": "lake/{{ match.stem }}",
        "uri": "/lake/{{ match.name }}.lance",
        "source": {"format": "csv", "paths": ["{{ match }}/*.csv"]},
    }
    assert [(each.key, each.uri, each.source.paths) for each in component(attributes).datasets] == [
        (("lake", "a"), "/lake/a.2024.lance", (f"{tmp_path}/a.2024/*.csv",)),
        (("lake", "b"), "/lake/b.lance", (f"{tmp_path}/b/*.csv",)),
    ]
    with pytest.raises(InvalidInputError, match=r"no file or directory matches .*no-such-file'"):
        component({**attributes, "for_each": f"{tmp_path}/no-such-file"})
    with pytest.raises(InvalidInputError, match="for_each: cannot be combined with 'datasets'"):
        component({**attributes, "datasets": []})


@pytest.mark.parametrize(
    "template", ["{{ 1 / 0 }}", "{{ 9 ** 400 / 3 }}", "{{ match.read_text() }}", "{{ match / 0 }}"]
)
def test_template_whose_evaluation_fails_is_reported_with_its_field(tmp_path: Path, template: str) -> None:
    with pytest.raises(InvalidInputError, match=r"attributes\.key: template "):
        component({**MINIMAL, "for_each": str(tmp_path), "key": template})


def test_glob_that_matches_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff")).mkdir()
    with pytest.raises(InvalidInputError, match=r"for_each: .* matches b'.*\\xff', which is not valid UTF-8"):
        component({**MINIMAL, "for_each": f"{tmp_path}/*", "key": "{{ match.name }}"})


def other(key: str, **attributes: Any) -> dict[str, Any]:
    return {**MINIMAL, "key": key, "uri": f"/lake/{key}.lance", **attributes}


def names(found: Any) -> list[str]:
    return sorted(each.name for each in found)


def test_datasets_in_several_files_share_sensors_and_keep_their_source_locations(project: Project) -> None:
    project.add("trips", MINIMAL)
    project.add("lake/two", other("lake/a"), other("lake/b", deps=["trips"]))
    project.add(
        "many",
        {**MINIMAL, "datasets": [{"key": key, "uri": f"/lake/{key}.lance"} for key in "xy"]},
    )
    defs = project.load()
    dg.Definitions.validate_loadable(defs)
    repository = defs.get_repository_def()
    assert names(repository.sensor_defs) == [
        "lance_cleanup_sensor",
        "lance_compaction_sensor",
        "lance_deletion_sensor",
        "lance_index_sensor",
        "lance_version_sensor",
    ]
    (sensor,) = (each for each in repository.sensor_defs if each.name == "lance_compaction_sensor")
    assert {job.name for job in sensor.jobs} == {
        f"{name}__compact" for name in ("trips", "lake__a", "lake__b", "x", "y")
    }
    for key, folder in (("trips", "trips"), ("lake/b", "lake/two"), ("y", "many")):
        metadata = (
            defs.resolve_assets_def(dg.AssetKey.from_user_string(key))
            .specs_by_key[dg.AssetKey.from_user_string(key)]
            .metadata
        )
        references = metadata["dagster/code_references"].code_references
        assert references[-1].file_path == str(project.defs / folder / "defs.yaml")


def test_datasets_in_yaml_merge_with_those_in_python(project: Project) -> None:
    project.add(
        "trips", {**MINIMAL, "namespace": "shop", "maintenance_status": "RUNNING", "sensor_interval_seconds": 7}
    )
    (project.defs / "own.py").write_text(
        """
import dagster as dg
from lance_pipelines import DatasetDeclaration, FileSource, SourceFormat, build_definitions

USERS = DatasetDeclaration(key="users", uri="/x", source=FileSource(format=SourceFormat.ENVIRONMENT))


@dg.definitions
def own():
    return dg.Definitions.merge(build_definitions([USERS]), dg.Definitions(resources={"spark": "mine"}))
"""
    )
    defs = project.load()
    dg.Definitions.validate_loadable(defs)
    repository = defs.get_repository_def()
    sensors = {each.name: each for each in repository.sensor_defs}
    assert {"lance_version_sensor", "shop_version_sensor"} <= set(sensors)
    assert sensors["shop_cleanup_sensor"].default_status is dg.DefaultSensorStatus.RUNNING
    assert sensors["shop_cleanup_sensor"].minimum_interval_seconds == 7


def test_spark_properties_reach_the_resource(project: Project) -> None:
    project.add("a", other("a", spark_config={"spark.master": "local[1]"}))
    project.add("b", other("b"))
    assert project.load().resources["lance_spark"].spark_config == {"spark.master": "local[1]"}


def test_files_with_different_common_settings_are_refused(project: Project) -> None:
    project.add("a", other("a", namespace="a"))
    project.add("b", other("b", namespace="b"))
    with pytest.raises(Exception, match="definitions") as caught:
        project.load()
    assert "differ between files; set them in one file only" in str(caught.value.__cause__)


def test_datasets_with_the_same_name_in_two_files_are_refused(project: Project) -> None:
    project.add("a", other("lake/a"))
    project.add("b", other("lake__a"))
    with pytest.raises(Exception, match="definitions") as caught:
        project.load()
    assert "have the same name 'lake__a'" in str(caught.value.__cause__)


def test_a_component_can_be_created_in_python() -> None:
    found = LanceDatasetComponent(datasets=[declared()], settings=ProjectSettings(namespace="mine"))
    defs = dg.build_defs_for_component(found)
    dg.Definitions.validate_loadable(defs)
    assert "mine_version_sensor" in names(defs.get_repository_def().sensor_defs)


def scaffold(path: Path, append: bool = False, **parameters: Any) -> None:
    typename = "lance_pipelines.LanceDatasetComponent"
    scaffold_object(path, typename, json.dumps(parameters), "yaml", project_root=None, append=append)


def test_a_scaffolded_file_loads_and_shows_the_remaining_fields_in_comments(project: Project) -> None:
    scaffold(project.defs / "trips")
    scaffold(
        project.defs / "trips" / "defs.yaml", append=True, key="lake/users", source_format="csv", paths=["/x y.csv"]
    )
    defs = project.load()
    dg.Definitions.validate_loadable(defs)
    keys = [["trips"], ["lake", "users"]]
    assert defs.resolve_asset_graph().get_all_asset_keys() == {
        dg.AssetKey(key) for each in keys for key in (each, ["maintenance", *each])
    } | {dg.AssetKey(["lance", "fleet"])}
    first, second = (project.defs / "trips" / "defs.yaml").read_text().split("---\n")
    assert yaml.safe_load(second)["attributes"]["source"] == {
        "format": "csv",
        "paths": ["/x y.csv"],
        "options": {"header": "true"},
    }
    for name in get_type_hints(DatasetDeclaration, localns={"dg": dg}):
        assert re.search(rf"^  (# )?{name}:", first, re.MULTILINE), name


def run(project: Project, *command: str, expected: int = 0) -> str:
    """Run a ``dg`` command and return its output."""
    kept = {name: text for name, text in os.environ.items() if name not in ("DAGSTER_HOME", "PYTHONWARNINGS")}
    done = subprocess.run(
        [str(Path(sys.executable).with_name("dg")), *command],
        cwd=project.root,
        env={**kept, "PYTHONPATH": "src", "COLUMNS": "200", "DAGSTER_DG_CLI_DISABLE_TELEMETRY": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    text = done.stdout + done.stderr
    assert done.returncode == expected, text
    # Dagster's warnings about its own packages contain file names.
    assert "lance_pipelines/" not in "".join(line for line in text.splitlines() if "Warning" in line)
    return text


@pytest.mark.slow
def test_a_dataset_scaffolded_by_dg_passes_its_check_and_is_listed(project: Project) -> None:
    run(
        project,
        *("scaffold", "defs", "lance_pipelines.LanceDatasetComponent", "trips"),
        *("--key", "lake/trips", "--source-format", "csv", "--paths", "/data/a.csv", "--paths", "/data/b.csv"),
    )
    text = (project.defs / "trips" / "defs.yaml").read_text()
    assert yaml.safe_load(text) == {
        "type": "lance_pipelines.LanceDatasetComponent",
        "attributes": {
            "key": "lake/trips",
            "uri": "warehouse/lake/trips.lance",
            "source": {"format": "csv", "paths": ["/data/a.csv", "/data/b.csv"], "options": {"header": "true"}},
            "mode": "append",
        },
    }
    assert "# storage_options:" in text
    assert "# schema: id BIGINT" in text  # without one, a CSV file has only strings
    assert ":class:" not in text
    assert "All definitions loaded successfully" in run(project, "check", "defs")
    listed = run(project, "list", "defs", "--json")
    assert '"lake/trips"' in listed
    assert "lake__trips__ingest" in listed


@pytest.mark.slow
def test_dg_reports_the_file_line_and_field_of_a_mistake(project: Project) -> None:
    path = project.add("trips", {**MINIMAL, "mode": "apend"})
    (line,) = (number for number, text in enumerate(path.read_text().splitlines(), 1) if "apend" in text)
    text = run(project, "check", "yaml", expected=1)
    assert f"{path}:{line}" in text
    assert "'apend' is not one of ['append', 'overwrite'" in text
    text = run(project, "check", "defs", "--no-check-yaml", expected=1)
    assert f"{path}:{line}: attributes.mode: expected one of append, overwrite" in text


def test_the_component_is_registered() -> None:
    from dagster.components.core.package_entry import discover_entry_point_package_objects

    found: dict[str, object] = {key.to_typename(): each for key, each in discover_entry_point_package_objects().items()}
    assert found["lance_pipelines.components.LanceDatasetComponent"] is LanceDatasetComponent


@pytest.mark.slow
def test_the_registered_package_loads_no_spark() -> None:
    """Every command of ``dg`` loads it, in every project of the environment."""
    program = "import sys, lance_pipelines.components; assert 'pyspark' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


TUPLES_AS_LISTS = str.maketrans({"(": "[", ")": "]", ",": None})
GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (GUIDES / page).read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(
    "text", [*blocks("add-to-your-dagster-project.md", "python"), *blocks("declare-datasets.md", "python")]
)
def test_a_python_example_in_the_guides_loads(text: str) -> None:
    names: dict[str, Any] = {}
    exec(compile(text, "guide", "exec"), names)
    (defs,) = (each for each in names.values() if isinstance(each, dg.Definitions | LazyDefinitions))
    dg.Definitions.validate_loadable(defs if isinstance(defs, dg.Definitions) else defs())


@pytest.mark.parametrize("text", blocks("declare-datasets.md", "yaml"))
def test_a_yaml_example_in_the_guide_loads(text: str, tmp_path: Path) -> None:
    (tmp_path / "trips").mkdir()
    document = yaml.safe_load(text.replace("/data/landing/*", f"{tmp_path}/*"))
    assert document["type"] == "lance_pipelines.LanceDatasetComponent"
    dg.Definitions.validate_loadable(dg.build_defs_for_component(component(document["attributes"])))
    assert errors_of_the_schema(document["attributes"]) == []


def test_the_python_and_yaml_declarations_in_the_guide_are_equivalent() -> None:
    names: dict[str, Any] = {}
    exec(compile(blocks("declare-datasets.md", "python")[0], "guide", "exec"), names)
    (found,) = component(yaml.safe_load(blocks("declare-datasets.md", "yaml")[0])["attributes"]).datasets
    for each in fields(DatasetDeclaration):
        mine, in_python = getattr(found, each.name), getattr(names["trips"], each.name)
        assert repr(mine).translate(TUPLES_AS_LISTS) == repr(in_python).translate(TUPLES_AS_LISTS), each.name
