"""SparkResource: the Spark session of a run, started on first use and stopped when the run ends.

With ``remote``, the session is on a Spark Connect server, which continues to run.

dagster-pyspark's own resource starts a session as soon as it is set up and never stops it. This one starts no session
until it is used, because a step that only commits needs no JVM, and stops the JVM with the run. With the in-process
executor, all steps of a run share the session; with the multiprocess executor, every step that uses Spark has its own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import dagster as dg
from dagster_pyspark import PySparkResource
from dagster_spark.utils import flatten_dict
from pydantic import Field, PrivateAttr
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lance_pipelines.spark.session import start_session, stop_session

__all__ = ["SPARK_RESOURCE", "SparkResource"]

SPARK_RESOURCE: Final = "lance_spark"
"""The resource key, which the steps request by the name of a parameter."""


class SparkResource(PySparkResource):
    """A Spark session with the project's defaults, overridden by the given settings."""

    spark_config: dict[str, Any] = Field(
        default={},
        description="Spark properties that override the project's defaults, dotted or nested: "
        '{"spark.master": "local[4]"}.',
    )
    remote: str | None = Field(
        default=None,
        description="URL of a Spark Connect server, for example sc://127.0.0.1:15002, which the command "
        "`lance-pipelines spark-connect` starts. All runs that use this URL share the server; settings such as memory "
        "are those with which the server was started.",
    )
    _is_owner: bool = PrivateAttr(default=False)

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator["SparkResource"]:
        """Yield the resource; afterward, stop the session if it was started through the resource."""
        try:
            yield self
        finally:
            self._stop()

    @property
    def spark_session(self) -> SparkSession:
        """The session; the first access starts it.

        Raises:
            NotFoundError: no Java was found to run Spark.
            StorageError: Spark did not start.
        """
        if self._spark_session is None:
            # An existing session (of a notebook or a test suite) is used, and must not be stopped here.
            self._is_owner = not _is_running()
            settings = flatten_dict(self.spark_config)  # type: ignore[no-untyped-call]  # dagster-spark has no types
            remote = {} if self.remote is None else {"spark.remote": self.remote}
            self._spark_session = start_session({name: _text(value) for name, value in settings} | remote)
        return self._spark_session

    def _stop(self) -> None:
        session, self._spark_session = self._spark_session, None
        if session is not None and self._is_owner:
            stop_session(session)


def _is_running() -> bool:
    # Which session is active depends on the thread; the context of a classic session does not.
    return SparkContext._active_spark_context is not None or SparkSession.getActiveSession() is not None


def _text(value: object) -> str:
    # Spark writes booleans in lowercase.
    return str(value).lower() if isinstance(value, bool) else str(value)
