"""The sources of a dataset's rows: plain data that says where a run finds them.

The Spark layer (``spark/sources.py``) turns a source into a DataFrame.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lance_core.errors import InvalidInputError

__all__ = ["FileSource", "SourceFormat"]


class SourceFormat(StrEnum):
    """The format of a source that Spark reads."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
    ORC = "orc"
    ENVIRONMENT = "environment"
    """The inventory of files installed in the running Python environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    """Files that Spark reads.

    Attributes:
        format: the format, which selects the reader.
        paths: files, directories or globs that the reader opens; empty for ``environment``.
        options: reader options under the names that Spark uses (``header``, ``sep`` …).
        schema: the schema as Spark DDL (``"id BIGINT, name STRING"``); if None, the reader infers it.
        sql: a SQL query that reads from the view ``source``; if None, all rows and columns are read.
    """

    format: SourceFormat
    paths: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    sql: str | None = None

    def __post_init__(self) -> None:
        needs_paths = self.format is not SourceFormat.ENVIRONMENT
        if needs_paths and not self.paths:
            raise InvalidInputError(f"a source of format {self.format} needs at least one path")
        if not needs_paths and self.paths:
            raise InvalidInputError(f"an {self.format} source takes no paths, found {list(self.paths)}")
