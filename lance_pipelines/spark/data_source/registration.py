"""Makes the data source ``lance`` available in a session, with one call."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from lance_pipelines.spark.data_source.source import LanceDataSource
from lance_pipelines.spark.tasks import default_parallelism

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

__all__ = ["register"]

_REDACTED: Final = "spark.sql.redaction.options.regex"
_STORAGE_OPTIONS: Final = r"^storage\."
_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        # Off by default, and required by a reader that accepts filters.
        "spark.sql.python.filterPushdown.enabled": "true",
        # Vectors reach the workers as lists, and texts as strings with 32-bit offsets.
        "spark.sql.execution.arrow.useLargeVarTypes": "false",
    }
)


def register(session: SparkSession, *, storage_options: Mapping[str, str] | None = None) -> None:
    """Register the data source ``lance`` in a session, which may be a Spark Connect session.

    The call also sets the session's settings that the data source needs, and hides the values of its storage options in
    the plans and logs of Spark. Every process of the cluster must be able to import this package. Registering the data
    source again replaces the storage options.

    Args:
        session: a Spark session.
        storage_options: credentials and settings of the store, for all tables. They reach the workers inside the
            serialized data source, and never appear in a plan or a SQL text. Options of a table replace them.
    """
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    redacted = session.conf.get(_REDACTED, "") or ""
    if _STORAGE_OPTIONS not in redacted:
        session.conf.set(_REDACTED, f"{redacted}|{_STORAGE_OPTIONS}" if redacted else _STORAGE_OPTIONS)
    own = {"session_storage_options": dict(storage_options or {}), "parallelism": default_parallelism(session)}
    session.dataSource.register(type(LanceDataSource.__name__, (LanceDataSource,), own))
