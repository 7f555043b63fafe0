"""FileMetadata: information about an open data file of any version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from lance_core.io.byte_range import ByteRange
    from lance_core.schema.field import Schema
    from lance_core.versions import LanceFileVersion

__all__ = ["FileMetadata"]


class FileMetadata(Protocol):
    """Information about an open file that is available in all format families."""

    @property
    def path(self) -> str:
        """The file's path in its store."""

    @property
    def num_bytes(self) -> int:
        """Size of the file in bytes."""

    @property
    def metadata_start(self) -> int:
        """Position after the last page of the file; the metadata is between it and the end of the file."""

    @property
    def memory(self) -> int:
        """Approximate memory in bytes of the metadata that has been parsed so far."""

    @property
    def version(self) -> LanceFileVersion:
        """Format version of the file."""

    @property
    def schema(self) -> Schema:
        """The fields stored in the file, with their table-wide ids, and the schema metadata."""

    @property
    def num_rows(self) -> int:
        """Number of rows in the file."""

    def check_columns(self, columns: Mapping[int, int]) -> None:
        """Check that the file has the columns that the manifest lists for it.

        Args:
            columns: maps each field id to its column index.

        Raises:
            CorruptDataError: a column is missing.
        """

    def read(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Return the bytes of some ranges of the file."""
