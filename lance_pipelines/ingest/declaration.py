"""The declaration of a dataset: its location, its source, and how it is written.

A :class:`DatasetDeclaration` is plain data. ``build_definitions`` turns each into a graph-backed asset; the Spark
layer reads its source; the commit step reads its mode. A run configuration can replace individual values for one run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from lance_core import LanceFileVersion
from lance_core.errors import InvalidInputError, UnsupportedVersionError
from lance_pipelines.maintenance.policy import MaintenancePolicy

__all__ = [
    "DECLARED_MAX_BYTES_PER_FILE",
    "DECLARED_MAX_ROWS_PER_FILE",
    "DatasetDeclaration",
    "SourceFormat",
    "SourceSpec",
    "WriteMode",
]

DECLARED_MAX_ROWS_PER_FILE: Final = 1024 * 1024
"""Default number of rows at which a writing task starts a new data file.

This and :data:`DECLARED_MAX_BYTES_PER_FILE` are the limits for a declared dataset. A write without a declaration uses
the limits in ``lance_core/file/write_config.py``: the same number of rows, but 90 GiB.
"""

DECLARED_MAX_BYTES_PER_FILE: Final = 2 * 1024**3
"""Default number of bytes at which a writing task starts a new data file.

Large enough for efficient scans, small enough to be rewritten by one task.
"""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class WriteMode(StrEnum):
    """What a run does with existing rows."""

    APPEND = "append"
    """Add the new rows; the first run creates the dataset."""

    OVERWRITE = "overwrite"
    """Replace all rows and the schema with the new ones; the first run creates the dataset."""

    CREATE = "create"
    """Create the dataset; fail if there is one."""


class SourceFormat(StrEnum):
    """The format of a source that Spark reads."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
    ORC = "orc"
    ENVIRONMENT = "environment"
    """The inventory of files installed in the running Python environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    """The source of a dataset's rows.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetDeclaration:
    """One Lance dataset of the project.

    Attributes:
        name: the asset's name; consists of letters, digits, and underscores.
        uri: the dataset's location.
        source: the source of its rows.
        mode: what a run does with existing rows.
        max_rows_per_file: number of rows at which a task starts a new fragment.
        max_bytes_per_file: approximate number of bytes at which a task starts a new fragment.
        data_storage_version: format version of the data files when a run creates the dataset or replaces its content:
            "2.2" ("stable"), "2.1", "2.0", or "0.1" ("legacy"). If None, the dataset's own version, or "2.2" for a new
            dataset. Appended rows use the dataset's version.
        vector_columns: maps each column of float lists to the length that every list must have; these columns are
            stored as fixed-size lists.
        description: description of the asset.
        maintenance: the policy that determines when fragments are merged and old versions are removed.
    """

    name: str
    uri: str
    source: SourceSpec
    mode: WriteMode = WriteMode.APPEND
    max_rows_per_file: int = DECLARED_MAX_ROWS_PER_FILE
    max_bytes_per_file: int = DECLARED_MAX_BYTES_PER_FILE
    data_storage_version: str | None = None
    vector_columns: Mapping[str, int] = field(default_factory=dict)
    description: str | None = None
    maintenance: MaintenancePolicy = field(default_factory=MaintenancePolicy)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidInputError(
                f"invalid dataset name {self.name!r}: it must start with a letter or an underscore and "
                "contain only letters, digits, and underscores"
            )
        if not self.uri:
            raise InvalidInputError(f"dataset {self.name}: the URI is empty")
        for what, number in (
            ("max_rows_per_file", self.max_rows_per_file),
            ("max_bytes_per_file", self.max_bytes_per_file),
            *((f"vector_columns[{column!r}]", length) for column, length in self.vector_columns.items()),
        ):
            if number < 1:
                raise InvalidInputError(f"dataset {self.name}: {what} must be at least 1, found {number}")
        if self.data_storage_version is not None:
            try:
                LanceFileVersion.parse(self.data_storage_version).require_writable()
            except (InvalidInputError, UnsupportedVersionError) as error:
                raise InvalidInputError(f"dataset {self.name}: {error}") from error
