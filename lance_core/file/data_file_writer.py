"""DataFileWriter: what can be done with a data file that is being written, whatever its format.

A writer is open until it is finished or aborted, or until a write failed. Leaving its ``with`` block aborts, which does
nothing after it is finished.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from lance_core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    import pyarrow as pa

    from lance_core.file.written_file import WrittenFile

__all__ = ["DataFileWriter"]


class DataFileWriter(ABC):
    """Base of the file writers; they set ``_is_open``. Not safe for use by several threads at once."""

    _is_open: bool

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """Rows taken so far."""

    @property
    @abstractmethod
    def num_bytes(self) -> int:
        """Bytes written so far and bytes (in memory) still collected: an estimate of the file's size."""

    @property
    def dictionaries(self) -> Mapping[int, pa.Array]:
        """Field id -> values of the dictionary columns so far, in 0.1: what the next file of the table starts with."""
        return MappingProxyType({})

    @abstractmethod
    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Raises:
            SchemaMismatchError: the batch does not fit the schema; nothing of it was taken.
            StorageError: the stream failed; the file cannot be finished any more.
        """

    @abstractmethod
    def add_global_buffer(self, data: bytes | pa.Buffer) -> int:
        """Store bytes beside the columns; returns the buffer's index.

        Raises:
            NotSupportedError: the format has no global buffers.
        """

    @abstractmethod
    def add_schema_metadata(self, key: str, value: bytes) -> None:
        """Add or replace an entry of the schema metadata in the file."""

    @abstractmethod
    def finish(self) -> WrittenFile:
        """Complete the file, and commit the stream.

        Raises:
            InvalidInputError: the writer is finished, aborted, or failed before.
            StorageError: the stream failed.
        """

    @abstractmethod
    def abort(self) -> None:
        """Give up: remove what was written. Safe after any failure, and twice."""

    def __enter__(self) -> Self:
        """Return self."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Abort, which does nothing once the file is finished."""
        self.abort()

    def _require_open(self) -> None:
        if not self._is_open:
            raise InvalidInputError("the file writer is finished, aborted, or failed before")
