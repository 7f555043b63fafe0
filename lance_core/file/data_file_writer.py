"""DataFileWriter: writes a data file of any format version. WrittenFile describes the finished file.

A writer is open until it is finished or aborted, or until a write fails. Leaving its ``with`` block aborts it, which
has no effect on a finished writer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from lance_core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    import pyarrow as pa


__all__ = ["DataFileWriter", "WrittenFile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """Properties of a finished file, as recorded in a manifest.

    Attributes:
        num_rows: number of rows in the file.
        num_bytes: size of the file in bytes.
        field_ids: ids of the fields that own a column.
        column_indices: index of the column of each field in ``field_ids``.
    """

    num_rows: int
    num_bytes: int
    field_ids: tuple[int, ...]
    column_indices: tuple[int, ...]


class DataFileWriter(ABC):
    """Base class of the file writers; subclasses set ``_is_open``. Not safe for concurrent use by several threads."""

    _is_open: bool

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """Number of rows accepted so far."""

    @property
    @abstractmethod
    def num_bytes(self) -> int:
        """Estimated file size in bytes: the bytes written so far plus the in-memory size of the collected rows."""

    @property
    def dictionaries(self) -> Mapping[int, pa.Array]:
        """Dictionary values collected so far, by field id (format 0.1 only).

        The dictionaries of the table's next file start with these values.
        """
        return MappingProxyType({})

    @abstractmethod
    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Raises:
            SchemaMismatchError: the batch does not match the schema; none of its rows was added.
            StorageError: the stream failed; the file can no longer be finished.
        """

    @abstractmethod
    def add_global_buffer(self, data: bytes | pa.Buffer) -> int:
        """Store bytes in a new global buffer and return its index.

        Raises:
            NotSupportedError: the format has no global buffers.
        """

    @abstractmethod
    def add_schema_metadata(self, key: str, value: bytes) -> None:
        """Add or replace an entry in the schema metadata of the file."""

    @abstractmethod
    def finish(self, *, durable: bool = True) -> WrittenFile:
        """Complete the file and commit the stream.

        Args:
            durable: whether the file must be durable when this returns.

        Raises:
            InvalidInputError: the writer was finished or aborted, or an earlier write failed.
            StorageError: the stream failed.
        """

    @abstractmethod
    def abort(self) -> None:
        """Discard the unfinished file. Safe to call after any failure, and more than once."""

    def __enter__(self) -> Self:
        """Return self."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Abort; this has no effect once the file is finished."""
        self.abort()

    def _require_open(self) -> None:
        if not self._is_open:
            raise InvalidInputError("the file writer is closed: it was finished or aborted, or an earlier write failed")
