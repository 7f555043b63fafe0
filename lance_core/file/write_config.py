"""WriteConfig: the settings for writing data files, passed as one object from a write operation to the page writers.

The defaults, and the rule for how much data a column collects, are defined only in this module. A write operation
creates one object from its arguments and passes it on as a whole.

Source: defaults of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lance_core.errors import InvalidInputError
from lance_core.versions import DEFAULT_VERSION, LanceFileVersion

if TYPE_CHECKING:
    from lance_core.schema.field import Schema

__all__ = [
    "DEFAULT_DATA_CACHE_BYTES",
    "DEFAULT_MAX_BYTES_PER_FILE",
    "DEFAULT_MAX_PAGE_BYTES",
    "DEFAULT_MAX_ROWS_PER_FILE",
    "DEFAULT_MAX_ROWS_PER_GROUP",
    "WriteConfig",
]

DEFAULT_MAX_ROWS_PER_FILE: Final = 1024 * 1024
DEFAULT_MAX_BYTES_PER_FILE: Final = 90 * 1024 * 1024 * 1024
"""Default size in bytes at which a data file is complete and the next one is started. Datasets declared
with ``lance_pipelines`` have a lower default; see ``lance_pipelines/ingest/declaration.py``."""

DEFAULT_MAX_ROWS_PER_GROUP: Final = 1024

DEFAULT_DATA_CACHE_BYTES: Final = 8 * 1024 * 1024
"""Default number of bytes to collect per column before a page is written; less with more than 24 leaf columns."""

_MAX_COLLECTED_BYTES: Final = 192 * 1024 * 1024
"""Default limit for the bytes that all columns together collect before pages are written; with many columns, pages are
smaller."""

DEFAULT_MAX_PAGE_BYTES: Final = 32 * 1024 * 1024
"""Arrays with more bytes than this are split into several pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteConfig:
    """The settings for writing data files.

    Attributes:
        version: format version of the files.
        max_rows_per_file: maximum number of rows per file, which is never exceeded.
        max_bytes_per_file: size in bytes at which a file is complete; no rows are added to a file that has reached this
            size.
        data_cache_bytes: number of bytes that all top-level columns together collect before pages are written; None for
            8 MiB per column, or less with more than 24 leaf columns.
        max_page_bytes: maximum in-memory size of a page's values in bytes, unless a single row is larger.
        max_rows_per_group: number of rows per batch in files in format 0.1.
        file_token: 16 hexadecimal digits with which the stem of every file name ends; None for random names.
        ingests_external_blobs: whether blob values given as URIs are copied into the table instead of referenced.
        allows_outside_blobs: whether references to blob values may point outside the table's base paths.
        blob_pack_bytes: maximum size in bytes of a sidecar shared by several blob values; None for the default.

    Raises:
        InvalidInputError: a size or number of rows is too small.
    """

    version: LanceFileVersion = DEFAULT_VERSION
    max_rows_per_file: int = DEFAULT_MAX_ROWS_PER_FILE
    max_bytes_per_file: int = DEFAULT_MAX_BYTES_PER_FILE
    data_cache_bytes: int | None = None
    max_page_bytes: int = DEFAULT_MAX_PAGE_BYTES
    max_rows_per_group: int = DEFAULT_MAX_ROWS_PER_GROUP
    file_token: str | None = None
    ingests_external_blobs: bool = False
    allows_outside_blobs: bool = False
    blob_pack_bytes: int | None = None

    def __post_init__(self) -> None:
        """Check the sizes and numbers of rows."""
        if self.max_page_bytes < 1 or (self.data_cache_bytes or 0) < 0:
            sizes = f"max_page_bytes={self.max_page_bytes}, data_cache_bytes={self.data_cache_bytes}"
            raise InvalidInputError(f"max_page_bytes must be at least 1 and data_cache_bytes at least 0, found {sizes}")
        for name in ("max_rows_per_file", "max_bytes_per_file", "max_rows_per_group"):
            value: int = getattr(self, name)
            if value < 1:
                raise InvalidInputError(f"{name} must be at least 1, found {value}")

    def column_cache_bytes(self, schema: Schema) -> int:
        """Return the number of bytes that a top-level column collects before it writes a page."""
        num_columns = len(schema.fields)
        total = DEFAULT_DATA_CACHE_BYTES * num_columns if self.data_cache_bytes is None else self.data_cache_bytes
        # A cache larger than a file would make every file a single page per column.
        share = min(total, self.max_bytes_per_file) // max(num_columns, 1)
        if share == DEFAULT_DATA_CACHE_BYTES:
            share = min(share, _MAX_COLLECTED_BYTES // max(1, len(schema.leaves())))
        return share
