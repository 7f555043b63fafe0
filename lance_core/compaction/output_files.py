"""OutputFiles: writes the new files of one task, with row counts chosen by :mod:`~lance_core.compaction.grouping`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lance_core.compaction.grouping import next_file_rows
from lance_core.errors import CorruptDataError
from lance_core.file.write_config import DEFAULT_DATA_CACHE_BYTES, WriteConfig
from lance_core.wording import counted
from lance_core.write.fragment_writer import NewDataFile, remove_placed_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from lance_core.compaction.options import CompactionSettings
    from lance_core.file.external_values import ExternalValues
    from lance_core.schema.field import Schema
    from lance_core.table.base_paths import DataPlace
    from lance_core.table.fragment import Fragment
    from lance_core.versions import LanceFileVersion

__all__ = ["OutputFiles"]

_MAX_CACHE_BYTES: Final = 128 * 1024 * 1024
"""Maximum number of bytes to buffer for all columns of a file together."""

_PAGES_PER_TARGET: Final = 8
"""Minimum number of pages per column in files with a byte limit; rows in memory do not count toward that limit."""


class OutputFiles:
    """Writes the rows of a task to new fragments.

    Args:
        place: the directory for the new files.
        schema: the columns, with the table's field ids.
        file_version: format version of the files.
        settings: the compaction settings, which contain the targets and limits.
        num_rows: number of rows that the task writes.
        dictionaries: maps the field ids of dictionary columns to the table's dictionary values; only for format 0.1.
        file_token: 16 hexadecimal digits with which every file name ends, before the extension.
        external: an object that handles references to blob values outside the table.
    """

    def __init__(
        self,
        place: DataPlace,
        schema: Schema,
        file_version: LanceFileVersion,
        settings: CompactionSettings,
        num_rows: int,
        dictionaries: Mapping[int, pa.Array],
        file_token: str | None,
        external: ExternalValues | None = None,
    ) -> None:
        """Initialize without writing anything."""
        self._place = place
        self._schema = schema
        self._config = WriteConfig(
            version=file_version,
            data_cache_bytes=_cache_bytes(len(schema.leaves()), settings) * len(schema.fields),
            max_rows_per_group=settings.max_rows_per_group,
            file_token=file_token,
        )
        self._settings = settings
        self._rows_left = num_rows
        self._dictionaries = dictionaries
        self._external = external
        self._finished: list[Fragment] = []
        self._names: list[str] = []
        self._current: NewDataFile | None = None
        self._room = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch of rows.

        Raises:
            CorruptDataError: there are more rows than the manifest records.
            StorageError: a storage operation failed.
        """
        if batch.num_rows > self._rows_left:
            raise CorruptDataError(
                f"the fragments have {counted(batch.num_rows - self._rows_left, 'more row')} than the manifest records"
            )
        while batch.num_rows:
            file = self._open()
            part = batch.slice(0, min(batch.num_rows, self._room))
            file.write(part)
            self._room -= part.num_rows
            self._rows_left -= part.num_rows
            batch = batch.slice(part.num_rows)
            if self._room == 0 or self._is_full(file):
                self._close()

    def finish(self) -> list[Fragment]:
        """Complete the last file, and return one fragment per file, each with id 0.

        Raises:
            CorruptDataError: there are fewer rows than the manifest records.
            StorageError: a storage operation failed.
        """
        if self._rows_left:
            raise CorruptDataError(
                f"the fragments have {counted(self._rows_left, 'row')} fewer than the manifest records"
            )
        self._close()
        return self._finished

    def abort(self) -> None:
        """Remove every file that was written."""
        try:
            if self._current is not None:
                self._current.abort()
                self._current = None
        finally:
            remove_placed_files([(self._place, name) for name in self._names])

    def _is_full(self, file: NewDataFile) -> bool:
        # Only written bytes count: a file that turns out smaller than estimated would be merged again.
        target = self._settings.byte_target
        return target is not None and file.num_bytes_written >= target

    def _open(self) -> NewDataFile:
        if self._current is None:
            self._room = next_file_rows(self._rows_left, self._settings.target_rows_per_fragment)
            self._current = NewDataFile(
                self._place, self._schema, self._config, dictionaries=self._dictionaries, external=self._external
            )
            self._names.append(self._current.name)
        return self._current

    def _close(self) -> None:
        if self._current is not None:
            self._finished.append(self._current.finish())
            self._current = None


def _cache_bytes(num_leaves: int, settings: CompactionSettings) -> int:
    """Return the number of bytes that one column buffers before it writes a page."""
    total = _MAX_CACHE_BYTES
    if settings.byte_target is not None:
        total = min(total, settings.byte_target // _PAGES_PER_TARGET)
    return min(DEFAULT_DATA_CACHE_BYTES, total // max(num_leaves, 1))
