"""IngestConfig: the run configuration of an ingest, and how it changes the declaration for that run.

The fields are directly under the asset's name in the launchpad::

    ops:
      trips:
        config:
          source: {format: csv, paths: [/data/trips/*.csv], options: {header: "true"}}
          uri: /data/lake/trips.lance
          mode: overwrite
"""

import dataclasses
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

import dagster as dg
from pydantic import Field

from lance_core.errors import InvalidInputError
from lance_pipelines.ingest.declaration import DatasetDeclaration, SchemaMode, WriteMode
from lance_pipelines.ingest.sources import FileSource, Source, SourceFormat, SqlSource, StreamSource
from lance_pipelines.settings import absolute_uri

__all__ = ["IngestConfig", "SourceConfig", "TargetConfig", "apply_config", "config_class", "declared_config"]

# Dagster shows an enum's member names in the launchpad, so the members are named like the values. The type checker
# supports only enums with explicit members, which would repeat those of the declaration.
FormatChoice = Enum("FormatChoice", {kind.value: kind.value for kind in SourceFormat}, type=str)  # type: ignore[misc]  # see above
ModeChoice = Enum("ModeChoice", {mode.value: mode.value for mode in WriteMode}, type=str)  # type: ignore[misc]  # see above
SchemaChoice = Enum("SchemaChoice", {mode.value: mode.value for mode in SchemaMode}, type=str)  # type: ignore[misc]  # see above


class SourceConfig(dg.Config):
    """The source of the rows. Omitted fields keep the declared values, unless the format changes."""

    format: FormatChoice | None = Field(
        default=None,
        description="Format of the source. If it differs from the declared format, the declared paths, options, "
        "schema, and sql are discarded.",
    )
    paths: list[str] | None = Field(default=None, description="Files, directories, or globs to read.")
    options: dict[str, str] | None = Field(
        default=None, description='Reader options under the names that Spark uses, for example {header: "true"}.'
    )
    schema_ddl: str | None = Field(
        default=None,
        alias="schema",
        description="Columns as Spark DDL (id BIGINT, name STRING); by default, the reader infers them. Without "
        "the option inferSchema, all columns of CSV files are strings.",
    )
    sql: str | None = Field(
        default=None, description="SQL query on the view named source; by default, all rows are read."
    )


class SqlConfig(dg.Config):
    """The query of a SQL source."""

    sql: str | None = Field(default=None, description="The query; by default, the declared one.")


class TargetConfig(dg.Config):
    """How to ingest in this run, from the declared source. Omitted fields keep the declared values."""

    uri: str | None = Field(
        default=None,
        description="Location of the Lance dataset; a relative path is resolved against the working directory.",
    )
    mode: ModeChoice | None = Field(
        default=None,
        description="'append' adds the rows; 'overwrite' replaces all rows and the schema; 'overwrite_partition' "
        "replaces the rows of the run's partitions; 'upsert' replaces the rows whose keys are in the new rows, and "
        "adds the other new rows; 'create' fails if the dataset exists. In every mode, the first run creates the "
        "dataset.",
    )
    schema_mode: SchemaChoice | None = Field(
        default=None,
        description="What to do if the columns of the source differ from those of the dataset: 'error' fails the run; "
        "'add' adds new columns and, except in mode 'upsert', fills missing ones with nulls; 'overwrite' replaces the "
        "columns together with all rows.",
    )
    upsert_by: list[str] | None = Field(
        default=None,
        description="The key columns of mode 'upsert'; by default, the primary key that the dataset declares.",
    )
    max_rows_per_file: int | None = Field(
        default=None, description="Number of rows at which a task starts its next data file."
    )
    max_bytes_per_file: int | None = Field(
        default=None, description="Approximate number of bytes at which a task starts its next data file."
    )
    data_storage_version: str | None = Field(
        default=None,
        description="Format version of the data files when this run creates or overwrites the dataset: 2.2 (stable), "
        "2.1, 2.0, or 0.1 (legacy). Appended rows use the dataset's format version.",
    )
    vector_columns: dict[str, int] | None = Field(
        default=None,
        description="Maps the name of each vector column to the length of its lists. These columns are stored as "
        "fixed-size lists.",
    )


class IngestConfig(TargetConfig):
    """What to ingest in this run, for a source of files. Omitted fields keep the declared values."""

    source: SourceConfig | None = Field(default=None, description="The source of the rows.")


class SqlIngestConfig(TargetConfig):
    """What to ingest in this run, for a SQL source. Omitted fields keep the declared values."""

    source: SqlConfig | None = Field(default=None, description="The source of the rows.")


_CONFIGS: Final[Mapping[type, type[TargetConfig]]] = MappingProxyType(
    {FileSource: IngestConfig, SqlSource: SqlIngestConfig}
)
"""The configuration class for each kind of source whose settings a run can replace."""


def config_class(declaration: DatasetDeclaration) -> type[TargetConfig]:
    """Return the configuration of a dataset's ingest, which depends on the kind of its source."""
    return _CONFIGS.get(type(declaration.source), TargetConfig)


def declared_config(declaration: DatasetDeclaration) -> dict[str, Any]:
    """Return a declaration as the values of the configuration, which the launchpad shows."""
    return _given(
        source=_shown(declaration.source),
        uri=declaration.uri,
        mode=str(declaration.mode),
        schema_mode=None if declaration.schema_mode is None else str(declaration.schema_mode),
        upsert_by=list(declaration.upsert_by) or None,
        max_rows_per_file=declaration.max_rows_per_file,
        max_bytes_per_file=declaration.max_bytes_per_file,
        data_storage_version=declaration.data_storage_version,
        vector_columns=dict(declaration.vector_columns) or None,
    )


def apply_config(declaration: DatasetDeclaration, config: TargetConfig) -> DatasetDeclaration:
    """Return the declaration with the changes of this run.

    Raises:
        InvalidInputError: the combination is invalid; the message contains the dataset and the field.
    """
    uri = _location(declaration.uri if config.uri is None else config.uri)
    try:
        if isinstance(declaration.source, StreamSource) and declaration.source.checkpoint is not None:
            _check_same_dataset(declaration, uri)
        return dataclasses.replace(
            declaration,
            source=_source(declaration.source, getattr(config, "source", None)),
            **_given(
                uri=uri,
                mode=WriteMode(config.mode.value) if config.mode else None,
                schema_mode=SchemaMode(config.schema_mode.value) if config.schema_mode else None,
                upsert_by=config.upsert_by,
                max_rows_per_file=config.max_rows_per_file,
                max_bytes_per_file=config.max_bytes_per_file,
                data_storage_version=config.data_storage_version,
                vector_columns=config.vector_columns,
            ),
        )
    except InvalidInputError as error:
        raise InvalidInputError(f"run configuration of {declaration.name}: {error}") from error


def _check_same_dataset(declaration: DatasetDeclaration, uri: str) -> None:
    """Refuse another location for a stream whose checkpoint does not depend on the location."""
    if uri != _location(declaration.uri):
        raise InvalidInputError(
            f"uri must not be {uri}: the checkpoint {declaration.checkpoint} records what {declaration.uri} has "
            "ingested, so rows of this run would be missing there",
            uri=uri,
        )


def _shown(source: Source | None) -> dict[str, Any] | None:
    if isinstance(source, FileSource):
        return _given(
            format=str(source.format),
            paths=list(source.paths) or None,
            options=dict(source.options) or None,
            schema=source.schema,
            sql=source.sql,
        )
    return {"sql": source.sql} if isinstance(source, SqlSource) else None


def _source(declared: Source | None, config: SourceConfig | SqlConfig | None) -> Source | None:
    if isinstance(declared, FileSource) and isinstance(config, SourceConfig):
        return _file_source(declared, config)
    if isinstance(declared, SqlSource) and isinstance(config, SqlConfig):
        return dataclasses.replace(declared, **_given(sql=config.sql))
    return declared


def _file_source(declared: FileSource, config: SourceConfig) -> FileSource:
    chosen = SourceFormat(config.format.value) if config.format else declared.format
    changes = _given(
        paths=None if config.paths is None else tuple(config.paths),
        options=config.options,
        schema=config.schema_ddl,
        sql=config.sql,
    )
    if chosen is declared.format:
        return dataclasses.replace(declared, **changes)
    return FileSource(format=chosen, **changes)


def _location(uri: str) -> str:
    # An empty value, for example of an unset variable, must not become the working directory.
    return absolute_uri(uri) if uri.strip() else ""


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
