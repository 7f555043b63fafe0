"""The run configuration of an ingest, which replaces values of the declaration."""

from __future__ import annotations

import os

import dagster as dg
import pytest
from dagster._core.system_config.objects import ResolvedRunConfig

from lance_core.errors import InvalidInputError
from lance_pipelines.build import build_definitions
from lance_pipelines.ingest.declaration import DatasetDeclaration, SchemaMode, WriteMode
from lance_pipelines.ingest.sources import FileSource, SourceFormat, StreamSource
from lance_pipelines.ops.ingest_config import IngestConfig, TargetConfig, apply_config

TRIPS = DatasetDeclaration(
    key="trips",
    uri="/lake/trips.lance",
    source=FileSource(format=SourceFormat.CSV, paths=("/in/*.csv",), options={"header": "true"}, sql="FROM source"),
)


def applied(**config) -> DatasetDeclaration:
    return apply_config(TRIPS, IngestConfig(**config))


def test_an_empty_run_configuration_keeps_the_declaration() -> None:
    assert applied() == TRIPS


def test_values_in_the_run_configuration_replace_declared_values() -> None:
    changed = applied(
        uri="/other.lance",
        mode="overwrite",
        max_rows_per_file=7,
        max_bytes_per_file=9,
        data_storage_version="2.0",
        vector_columns={"v": 3},
    )
    assert changed.data_storage_version == "2.0"
    assert (changed.uri, changed.mode) == ("/other.lance", WriteMode.OVERWRITE)
    assert (changed.max_rows_per_file, changed.max_bytes_per_file, changed.vector_columns) == (7, 9, {"v": 3})
    assert (changed.name, changed.source) == (TRIPS.name, TRIPS.source)


def test_the_schema_mode_of_a_run_replaces_the_declared_one() -> None:
    assert applied(schema_mode="add").schema_mode is SchemaMode.ADD
    assert applied(mode="overwrite", schema_mode="error").effective_schema_mode is SchemaMode.ERROR
    with pytest.raises(InvalidInputError, match=r"run configuration of trips: .*schema_mode overwrite requires mode"):
        applied(schema_mode="overwrite")


def test_another_dataset_is_refused_for_a_stream_with_a_declared_checkpoint() -> None:
    def changed(checkpoint: str | None, uri: str) -> str | None:
        source = StreamSource(format="lance", path="/in", checkpoint=checkpoint)
        declared = DatasetDeclaration(key="events", uri="/lake/events.lance", source=source)
        return apply_config(declared, TargetConfig(uri=uri)).checkpoint

    with pytest.raises(InvalidInputError, match=r"uri must not be /other\.lance: the checkpoint /points records what"):
        changed("/points", "/other.lance")
    assert changed("/points", "/lake/events.lance") == "/points"
    assert changed(None, "/other.lance") == "/other.lance.checkpoint"


def test_a_relative_uri_is_resolved_against_the_working_directory() -> None:
    assert applied(uri="out.lance").uri == os.path.join(os.getcwd(), "out.lance")
    assert applied(uri="memory://lake/out.lance").uri == "memory://lake/out.lance"


def test_an_empty_uri_is_refused_and_does_not_select_the_declared_dataset() -> None:
    with pytest.raises(InvalidInputError, match="trips: dataset trips: the URI is empty"):
        applied(uri=" ")


def test_a_file_uri_with_a_single_slash_as_in_spark_is_kept() -> None:
    assert applied(uri="file:/lake/out.lance").uri == "file:/lake/out.lance"


def test_a_source_of_the_same_format_changes_only_the_given_values() -> None:
    assert applied(source={"paths": ["/new.csv"]}).source == FileSource(
        format=SourceFormat.CSV, paths=("/new.csv",), options={"header": "true"}, sql="FROM source"
    )


def test_source_of_a_different_format_keeps_no_declared_value() -> None:
    source = applied(source={"format": "parquet", "paths": ["/in"]}).source
    assert source == FileSource(format=SourceFormat.PARQUET, paths=("/in",))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"source": {"format": "parquet"}},
            "run configuration of trips: source format parquet requires at least one path",
        ),
        ({"source": {"format": "environment", "paths": ["/x"]}}, "takes no paths"),
        ({"max_rows_per_file": 0}, "max_rows_per_file must be a positive whole number, found 0"),
        ({"vector_columns": {"v": 0}}, r"vector_columns\['v'\] must be a positive whole number"),
        ({"data_storage_version": "2"}, "trips: dataset trips: unknown data storage version '2'"),
        ({"data_storage_version": "2.3"}, r"trips: writing data files in format 2\.3 is not supported"),
    ],
)
def test_an_invalid_run_configuration_raises_an_error_that_names_the_value(config, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        applied(**config)


def resolve(config: dict[str, object]) -> dict[str, object]:
    """Return the configuration that the write op receives for a run configuration of the job."""
    job = build_definitions([TRIPS]).resolve_job_def("trips__ingest")
    resolved = ResolvedRunConfig.build(job, {"ops": {"trips": {"config": config}}})
    return resolved.ops["trips.write_fragments"].config


def test_the_run_configuration_of_an_ingest_has_all_fields_at_the_top_level() -> None:
    source = {"format": "json", "paths": ["/a", "/b"], "options": {"mode": "FAILFAST"}, "schema": "id BIGINT"}
    given = {"source": source, "uri": "/x.lance", "mode": "create", "max_rows_per_file": 5, "vector_columns": {"v": 8}}
    assert resolve(given) == {
        **given,
        "source": {**source, "sql": None},
        "schema_mode": None,
        "max_bytes_per_file": None,
        "data_storage_version": None,
        "upsert_by": None,
    }


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"surprise": 1}, 'unexpected config entry "surprise"'),
        ({"source": {"format": "xlsx"}}, "not in enum type FormatChoice got xlsx"),
        ({"mode": "replace"}, "not in enum type ModeChoice got replace"),
        ({"max_rows_per_file": "many"}, 'Value "many"'),
        ({"source": {"paths": "/a"}}, "must be list"),
    ],
)
def test_an_invalid_configuration_is_refused_before_the_run(config, message) -> None:
    with pytest.raises(dg.DagsterInvalidConfigError, match=message):
        resolve(config)


def test_every_field_is_described_for_the_launchpad() -> None:
    for name, field in IngestConfig.model_fields.items():
        assert field.description, name
