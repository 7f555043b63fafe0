"""The sources of a dataset's rows: plain data that says where a run finds the rows, or a function that returns them.

==================  ====================================================  =========================================
Source              Rows                                                  A run's configuration can replace
==================  ====================================================  =========================================
``FileSource``      of files that Spark reads                             format, paths, options, schema, query
``SqlSource``       of a Spark SQL query, or of a database by JDBC        the query
``AssetSource``     of the dataset of another asset                       nothing
``FunctionSource``  that a Python function returns as Arrow data          nothing
``SparkSource``     of a DataFrame that a Python function returns         nothing
``StreamSource``    that have arrived in a stream since the last run      nothing
==================  ====================================================  =========================================

``spark/sources.py`` turns sources into DataFrames, except those that need no Spark. ``spark/stream_ingest.py``
ingests streams.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, TypeVar

import pyarrow as pa

import lance_core
from lance_core.errors import InvalidInputError

if TYPE_CHECKING:
    from datetime import datetime

    import dagster as dg

    from lance_pipelines.ingest.partition_rows import Partition

__all__ = [
    "AssetSource",
    "FileSource",
    "FunctionSource",
    "OpenAsset",
    "Options",
    "Source",
    "SourceContext",
    "SourceFormat",
    "SparkSource",
    "SqlSource",
    "StreamFormat",
    "StreamSource",
    "check_literals",
    "check_not_text",
    "member_of",
    "open_latest",
    "resolved_options",
]

_Choice = TypeVar("_Choice", bound=StrEnum)

OpenAsset: TypeAlias = "Callable[[AssetSource], lance_core.LanceDataset]"
"""Opens the dataset of an asset at the version that a run is to read."""

Options: TypeAlias = "Mapping[str, str | dg.EnvVar]"
"""Options by name; secrets are given as environment variables, which are read when the options are used."""


class SourceFormat(StrEnum):
    """The format of a source that Spark reads."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
    ORC = "orc"
    ENVIRONMENT = "environment"
    """The inventory of files installed in the running Python environment."""


class StreamFormat(StrEnum):
    """The format of a stream."""

    PARQUET = "parquet"
    """Parquet files that arrive in a directory."""

    CSV = "csv"
    """CSV files that arrive in a directory."""

    JSON = "json"
    """JSON files that arrive in a directory."""

    ORC = "orc"
    """ORC files that arrive in a directory."""

    LANCE = "lance"
    """The rows that each version appends to another Lance table."""

    KAFKA = "kafka"
    """The records of Kafka topics. The session needs Spark's package ``spark-sql-kafka``."""


_OF_FILES: Final = frozenset({StreamFormat.PARQUET, StreamFormat.CSV, StreamFormat.JSON, StreamFormat.ORC})


def open_latest(source: AssetSource) -> lance_core.LanceDataset:
    """Return a handle to the latest version of the dataset of an asset, or to the version with the declared tag."""
    return lance_core.dataset(source.uri, version=source.tag, storage_options=source.resolved_storage_options())


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceContext:
    """Information about the run that reads a source.

    Attributes:
        captured_at: the time of the read; timezone-aware.
        run_id: id of the run; empty outside a run.
        partitions: the partitions of the run; empty if it is not for partitions.
        open_asset: opens the dataset of an :class:`AssetSource`, at the version that the run is to read; by default, at
            the latest version.
    """

    captured_at: datetime
    run_id: str = ""
    partitions: Sequence[Partition] = ()
    open_asset: OpenAsset = open_latest

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The keys of the run's partitions; for partitions with several dimensions, use ``partitions``.

        Raises:
            InvalidInputError: the partitions have several dimensions.
        """
        if any(None not in partition for partition in self.partitions):
            raise InvalidInputError(
                "the partitions have several dimensions; their keys are in SourceContext.partitions"
            )
        return tuple(partition[None].key for partition in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    """Files that Spark reads.

    Attributes:
        format: the format, which selects the reader.
        paths: files, directories, or globs that the reader opens; empty for ``environment``.
        options: reader options under the names that Spark uses (``header``, ``sep`` …).
        schema: the schema as Spark DDL (``"id BIGINT, name STRING"``); if None, the reader infers it. All columns of
            CSV files are then strings, unless ``options`` contain ``{"inferSchema": "true"}``.
        sql: a SQL query that reads from the view ``source``; if None, all rows and columns are read.
    """

    needs_spark: ClassVar[bool] = True

    format: SourceFormat
    paths: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    sql: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "format", member_of(SourceFormat, "source format", self.format))
        check_not_text("a file source", ("paths", self.paths))
        object.__setattr__(self, "paths", tuple(map(os.fspath, self.paths)))
        needs_paths = self.format is not SourceFormat.ENVIRONMENT
        if needs_paths and not self.paths:
            raise InvalidInputError(f"source format {self.format} requires at least one path")
        if not needs_paths and self.paths:
            raise InvalidInputError(f"source format {self.format} takes no paths, found {list(self.paths)}")
        fields = [("paths", path) for path in self.paths] + [("options", value) for value in self.options.values()]
        check_literals("a file source", *fields, ("schema", self.schema), ("sql", self.sql))

    @property
    def kind(self) -> str:
        """The kind of source, as one word for events and logs."""
        return str(self.format)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlSource:
    """A query that Spark evaluates over its catalog, or that a database evaluates.

    Attributes:
        sql: the query.
        jdbc: options of Spark's JDBC reader (``url``, ``user``, ``password``, ``driver`` …), with which a database
            executes the query; empty for a query over tables of Spark's catalog.
    """

    needs_spark: ClassVar[bool] = True
    kind: ClassVar[str] = "sql"

    sql: str
    jdbc: Options = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self.sql.strip():
            raise InvalidInputError("the query of a SQL source is empty")
        check_literals("a SQL source", ("sql", self.sql))
        if self.jdbc and "url" not in self.jdbc:
            raise InvalidInputError(
                f"the JDBC options of a SQL source must include 'url', found only {', '.join(sorted(self.jdbc))}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetSource:
    """The dataset of another asset, on which the declared dataset then depends.

    A run reads the version that Dagster recorded as its input, even if it is executed again.

    Attributes:
        key: the asset's key.
        uri: location of its dataset.
        storage_options: credentials and settings of that dataset's store.
        columns: names of the columns to read; None means all.
        filter: a SQL condition that selects the rows; None means all.
        tag: if given, a run reads the version to which this tag refers.
    """

    needs_spark: ClassVar[bool] = True
    kind: ClassVar[str] = "asset"

    key: str | Sequence[str]
    uri: str
    storage_options: Options = field(default_factory=dict, repr=False)
    columns: Sequence[str] | None = None
    filter: str | None = None
    tag: str | None = None

    def __post_init__(self) -> None:
        check_literals("an asset source", ("uri", self.uri), ("filter", self.filter), ("tag", self.tag))

    def resolved_storage_options(self) -> dict[str, str] | None:
        """Return the storage options with the values of environment variables; None if there are no options.

        Raises:
            InvalidInputError: an environment variable is not set.
        """
        return resolved_options(self.storage_options, f"the storage options of {self.uri}") or None


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSource:
    """A function that returns the rows. They are written by the process of the step, without Spark.

    Attributes:
        function: called with the :class:`SourceContext` of a run; returns a table, a reader, or batches of one schema.
            If the function returns a reader or a generator, only a few batches are in memory at a time.
    """

    needs_spark: ClassVar[bool] = False
    kind: ClassVar[str] = "function"

    function: Callable[[SourceContext], pa.Table | pa.RecordBatchReader | Iterable[pa.RecordBatch]]

    def read(self, context: SourceContext) -> pa.RecordBatchReader:
        """Call the function and return its rows as a stream.

        Raises:
            InvalidInputError: the function returns something else.
        """
        rows = self.function(context)
        if isinstance(rows, pa.RecordBatchReader):
            return rows
        if isinstance(rows, pa.Table):
            return rows.to_reader()
        batches = iter(rows) if isinstance(rows, Iterable) else iter(())
        none = object()
        first = next(batches, none)
        if not isinstance(first, pa.RecordBatch):
            found = type(rows).__name__
            if isinstance(rows, Iterable):
                found += " without items" if first is none else f" whose first item is of type {type(first).__name__}"
            raise InvalidInputError(
                "the source function must return a pyarrow.Table, a RecordBatchReader, or at least one "
                f"RecordBatch, found {found}"
            )
        return pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSource:
    """A function that returns a DataFrame, for example from several tables.

    Attributes:
        function: called with the run's session and its :class:`SourceContext`; returns the DataFrame.
    """

    needs_spark: ClassVar[bool] = True
    kind: ClassVar[str] = "spark"

    function: Callable[[Any, SourceContext], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSource:
    """A stream. A run ingests what has arrived since the last run, exactly once, and then ends.

    Attributes:
        format: the format, which selects the reader.
        path: for files, the directory in which they arrive, or a glob of directories; for ``lance``, the location of
            the table; for ``kafka``, None.
        options: options of the reader under the names that Spark uses (``maxFilesPerTrigger``,
            ``kafka.bootstrap.servers``, ``subscribe``, ``startingVersion`` …).
        schema: the schema of the files as Spark DDL (``"id BIGINT, name STRING"``); required for files, because a
            stream has the same schema in every run.
        sql: a SQL query that reads from the view ``source``; it is executed for each micro-batch. If None, all rows and
            columns are ingested.
        checkpoint: the directory in which Spark records how far the stream was read. If None, the location of the
            dataset with the suffix ``.checkpoint``; required if the dataset is in an object store.
    """

    needs_spark: ClassVar[bool] = True

    format: StreamFormat
    path: str | None = None
    options: Options = field(default_factory=dict, repr=False)
    schema: str | None = None
    sql: str | None = None
    checkpoint: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "format", member_of(StreamFormat, "stream format", self.format))
        for name in ("path", "checkpoint"):
            value = getattr(self, name)
            if isinstance(value, os.PathLike):
                object.__setattr__(self, name, os.fspath(value))
        what = f"a stream of format {self.format}"
        given = [(name, getattr(self, name)) for name in ("path", "schema", "sql", "checkpoint")]
        check_literals(what, *given)
        empty = [name for name, value in given if value is not None and not str(value).strip()]
        if empty:
            raise InvalidInputError(f"{empty[0]} of {what} is empty")
        if self.format is StreamFormat.KAFKA:
            if self.path is not None:
                raise InvalidInputError(f"{what} takes no path, found {self.path!r}; name its topics in the options")
        elif self.path is None:
            raise InvalidInputError(f"{what} requires a path")
        if self.format in _OF_FILES and self.schema is None:
            raise InvalidInputError(f"{what} requires a schema, as Spark DDL: 'id BIGINT, name STRING'")
        if self.format not in _OF_FILES and self.schema is not None:
            raise InvalidInputError(f"{what} takes no schema: the stream determines it")

    @property
    def kind(self) -> str:
        """The kind of source, for events and logs."""
        return f"{self.format} stream"


Source: TypeAlias = FileSource | SqlSource | AssetSource | FunctionSource | SparkSource | StreamSource


def check_literals(what: str, *fields: tuple[str, str | None]) -> None:
    """Check that fields whose values are used and shown literally do not contain environment variables.

    ``dagster.EnvVar`` is a string, the name of the variable, which would otherwise be used instead of its value.

    Args:
        what: what the fields belong to, for messages.
        fields: names and values.

    Raises:
        InvalidInputError: a value is an environment variable.
    """
    for name, value in fields:
        variable = _variable(value)
        if variable is not None:
            raise InvalidInputError(
                f"{name} of {what} cannot be EnvVar({variable!r}), which is read only in storage options and JDBC "
                f"options; use EnvVar({variable!r}).get_value()"
            )


def check_not_text(what: str, *fields: tuple[str, object]) -> None:
    """Check that list fields are not given as a single string, which Python would take for a list of characters.

    Args:
        what: what the fields belong to, for messages.
        fields: names and values.

    Raises:
        InvalidInputError: a value is a string.
    """
    for name, value in fields:
        if isinstance(value, str):
            raise InvalidInputError(f"{name} of {what} must be a list, found {value!r}; write [{value!r}]")


def member_of(choices: type[_Choice], what: str, value: str) -> _Choice:
    """Return the member of an enum with this value.

    Raises:
        InvalidInputError: no member has this value; the message lists all values.
    """
    try:
        return choices(value)
    except ValueError as error:
        raise InvalidInputError(f"unknown {what} {value!r}; expected one of {', '.join(choices)}") from error


def resolved_options(options: Options, what: str) -> dict[str, str]:
    """Return options with the values of environment variables.

    Args:
        options: the options.
        what: the source or object that the options belong to, for messages.

    Raises:
        InvalidInputError: an environment variable is not set.
    """
    return {name: _resolved(value, f"{name!r} of {what}") for name, value in options.items()}


def _resolved(value: str | dg.EnvVar, what: str) -> str:
    variable = _variable(value)
    if variable is None:
        return value
    if variable not in os.environ:
        raise InvalidInputError(f"environment variable {variable} for option {what} is not set")
    return os.environ[variable]


def _variable(value: str | dg.EnvVar | None) -> str | None:
    """Return the name of an environment variable; None for a plain value."""
    name: str | None = getattr(value, "env_var_name", None)
    return name
