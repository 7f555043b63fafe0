"""Converts a declared source to a Spark DataFrame. Reads only file listings and schemas."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # no types
from pyspark.errors import PySparkException

from lance_core.errors import InvalidInputError
from lance_pipelines.ingest.sources import FileSource, SourceFormat
from lance_pipelines.spark.environment_inventory import environment_inventory
from lance_pipelines.spark.failures import translate_failure, translated

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SOURCE_VIEW", "read_source"]

SOURCE_VIEW: Final = "source"
"""Name of the view that a source's query reads from."""

_view_lock: Final = threading.Lock()


def read_source(session: SparkSession, source: FileSource, *, captured_at: datetime) -> DataFrame:
    """Return the DataFrame of a source.

    Args:
        session: a running session.
        source: the format, paths, options, schema, and query.
        captured_at: the timestamp of the rows of an ``environment`` source; timezone-aware.

    Raises:
        NotFoundError: a path does not exist, a glob matches nothing, or no file contains data from which to infer a
            schema.
        InvalidInputError: a schema, option, or query is malformed, or a column or format is unknown.
        CorruptDataError: a file from which the schema is inferred cannot be read.
    """
    frame = _read(session, source, captured_at)
    return frame if source.sql is None else _query(session, frame, source.sql)


def _read(session: SparkSession, source: FileSource, captured_at: datetime) -> DataFrame:
    try:
        source_format = SourceFormat(source.format)
    except ValueError as error:
        supported = ", ".join(SourceFormat)
        raise InvalidInputError(f"unknown source format {str(source.format)!r}; supported: {supported}") from error
    if source_format is SourceFormat.ENVIRONMENT:
        return environment_inventory(session, captured_at=captured_at)
    what = f"cannot read {source_format} source {', '.join(source.paths)}"
    reader = session.read.format(source_format).options(**source.options)
    if source.schema is not None:
        with translated(f"{what}: schema {source.schema!r}"):
            reader = reader.schema(source.schema)
    with translated(what):
        frame = reader.load(list(source.paths))
        # A remote session examines the paths only when something is requested.
        frame.schema  # noqa: B018  # reading the attribute has the effect
        return frame


def _query(session: SparkSession, frame: DataFrame, query: str) -> DataFrame:
    """Return the result of the query. The view exists only until Spark has resolved the query."""
    with _view_lock:
        with translated("cannot create the view for the source's query"):
            frame.createOrReplaceTempView(SOURCE_VIEW)
        try:
            result = session.sql(query)
            result.schema  # noqa: B018  # reading the attribute has the effect
        except (PySparkException, Py4JError) as error:
            failure = translate_failure(error, "cannot run the source's query")
            raise type(failure)(f"{failure.message} (query: {query.strip()})", query=query) from error
        finally:
            with translated("cannot drop the view for the source's query"):
                session.catalog.dropTempView(SOURCE_VIEW)
    return result
