"""Converts a declared source to a Spark DataFrame. Reads only file listings, manifests, and schemas."""

from __future__ import annotations

import threading
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # no types
from pyspark.errors import PySparkException

from lance_pipelines.ingest.sources import (
    AssetSource,
    FileSource,
    SourceFormat,
    SparkSource,
    SqlSource,
    StreamFormat,
    resolved_options,
)
from lance_pipelines.spark.data_source.registration import register
from lance_pipelines.spark.environment_inventory import environment_inventory
from lance_pipelines.spark.failures import translate_failure, translated
from lance_pipelines.spark.reader import read_version
from lance_pipelines.spark.session import is_connect_session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from lance_pipelines.ingest.sources import Source, SourceContext, StreamSource

__all__ = ["SOURCE_VIEW", "open_stream", "query_rows", "read_source"]

SOURCE_VIEW: Final = "source"
"""Name of the view that a source's query reads from."""

_view_lock: Final = threading.Lock()


def read_source(session: SparkSession, source: Source, context: SourceContext) -> DataFrame:
    """Return the DataFrame of a source.

    Args:
        session: a running session.
        source: a source that needs Spark.
        context: information about the run that the source may use.

    Raises:
        NotFoundError: a path does not exist, a glob matches nothing, or no file contains data from which to infer a
            schema.
        InvalidInputError: a schema, option, or query is malformed, or a column or format is unknown.
        CorruptDataError: a file from which the schema is inferred cannot be read.
    """
    return _READERS[type(source)](session, source, context)


def _read_files(session: SparkSession, source: FileSource, context: SourceContext) -> DataFrame:
    frame = _read(session, source, context.captured_at)
    return frame if source.sql is None else query_rows(session, frame, source.sql)


def _read_sql(session: SparkSession, source: SqlSource, context: SourceContext) -> DataFrame:
    with translated(f"cannot run the query {source.sql.strip()}"):
        if not source.jdbc:
            return session.sql(source.sql)
        options = resolved_options(source.jdbc, "the JDBC source")
        return session.read.format("jdbc").options(**options).option("query", source.sql).load()


def _read_asset(session: SparkSession, source: AssetSource, context: SourceContext) -> DataFrame:
    return read_version(session, context.open_asset(source), columns=source.columns, filter=source.filter)


def _call(session: SparkSession, source: SparkSource, context: SourceContext) -> DataFrame:
    with translated("the source function failed"):
        frame: DataFrame = source.function(session, context)
        frame.schema  # noqa: B018  # a remote session examines the plan only when something is requested
        return frame


_READERS: Final[Mapping[type, Callable[[SparkSession, Any, SourceContext], DataFrame]]] = MappingProxyType(
    {FileSource: _read_files, SqlSource: _read_sql, AssetSource: _read_asset, SparkSource: _call}
)


def _read(session: SparkSession, source: FileSource, captured_at: datetime) -> DataFrame:
    if source.format is SourceFormat.ENVIRONMENT:
        return environment_inventory(session, captured_at=captured_at)
    what = f"cannot read {source.format} source {', '.join(source.paths)}"
    reader = session.read.format(source.format).options(**source.options)
    if source.schema is not None:
        with translated(f"{what}: schema {source.schema!r}"):
            reader = reader.schema(source.schema)
    with translated(what):
        frame = reader.load(list(source.paths))
        # A remote session examines the paths only when something is requested.
        frame.schema  # noqa: B018  # reading the attribute has the effect
        return frame


def open_stream(session: SparkSession, source: StreamSource) -> DataFrame:
    """Return the streaming DataFrame of a source, without its query.

    Args:
        session: a running session.
        source: the stream.

    Raises:
        NotFoundError: the path does not exist.
        InvalidInputError: the schema or an option is malformed, or the session has no reader of the format.
    """
    if source.format is StreamFormat.LANCE:
        register(session)
    what = f"cannot read the {source.kind}" + ("" if source.path is None else f" {source.path}")
    options = resolved_options(source.options, f"the {source.kind}")
    with translated(what):
        reader = session.readStream.format(source.format).options(**options)
        if source.schema is not None:
            reader = reader.schema(source.schema)
        return reader.load(source.path)


def query_rows(session: SparkSession, frame: DataFrame, query: str) -> DataFrame:
    """Return the result of a query on the rows of a DataFrame, which the query reads from the view ``source``.

    The view exists only until Spark has resolved the query. A Spark Connect session resolves the query again whenever
    it is executed. In such a session, the view exists as long as the session, which no other run shares.
    """
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
            if not is_connect_session(session):
                with translated("cannot drop the view for the source's query"):
                    session.catalog.dropTempView(SOURCE_VIEW)
    return result
