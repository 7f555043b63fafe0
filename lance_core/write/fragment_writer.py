"""Writes rows to data files, each of which becomes a new fragment.

Each fragment has one data file. The next file is started after exactly ``max_rows_per_file`` rows, or when the current
file has reached ``max_bytes_per_file`` according to the file writer's estimate. Files become visible when they are
complete. After any failure, the files written by the call are removed, because no version refers to them.
"""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

from lance_core.write.new_data_file import NewDataFile, remove_placed_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from lance_core.file.write_config import WriteConfig
    from lance_core.schema.field import Schema
    from lance_core.table.base_paths import DataPlace
    from lance_core.table.fragment import Fragment
    from lance_core.write.external_blobs import ExternalReferences

__all__ = ["write_data_files"]


def write_data_files(
    batches: Iterable[pa.RecordBatch],
    places: Sequence[DataPlace],
    schema: Schema,
    config: WriteConfig,
    *,
    dictionaries: Mapping[int, pa.Array] | None = None,
    external: ExternalReferences | None = None,
) -> list[Fragment]:
    """Write batches as new fragments of a table.

    Args:
        batches: the rows; consumed as a stream.
        places: the directories to which files are written in turn; at least one.
        schema: the columns to write, with the table's field ids.
        config: settings for the files, including the limits at which the next file is started.
        dictionaries: in format 0.1, the initial dictionary values of dictionary columns, by field id.
        external: handles blob values that are given as URIs; None to reject such values.

    Returns:
        One fragment per file, each with id 0; an empty list if there are no rows.

    Raises:
        SchemaMismatchError: a batch is incompatible with the schema.
        StorageError: a storage operation failed.
    """
    files = _Files(places, schema, config, dictionaries, external)
    try:
        for batch in batches:
            files.write(batch)
        return files.finish()
    except BaseException:
        files.abort()
        raise


class _Files:
    """The files of one call: the finished files, and the file being written."""

    def __init__(
        self,
        places: Sequence[DataPlace],
        schema: Schema,
        config: WriteConfig,
        dictionaries: Mapping[int, pa.Array] | None,
        external: ExternalReferences | None,
    ) -> None:
        self._places = cycle(places)
        self._schema = schema
        self._config = config
        self._dictionaries = dictionaries
        self._external = external
        self._finished: list[Fragment] = []
        self._names: list[tuple[DataPlace, str]] = []
        self._current: NewDataFile | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        while batch.num_rows:
            file = self._open()
            num_rows = self._rows_that_fit(batch, file)
            file.write(batch.slice(0, num_rows))
            batch = batch.slice(num_rows)
            if file.num_rows >= self._config.max_rows_per_file or file.num_bytes >= self._config.max_bytes_per_file:
                self._close()

    def finish(self) -> list[Fragment]:
        self._close()
        return self._finished

    def abort(self) -> None:
        try:
            if self._current is not None:
                self._current.abort()
                self._current = None
        finally:
            remove_placed_files(self._names)

    def _rows_that_fit(self, batch: pa.RecordBatch, file: NewDataFile) -> int:
        num_rows: int = min(batch.num_rows, self._config.max_rows_per_file - file.num_rows)
        left_bytes = self._config.max_bytes_per_file - file.num_bytes
        batch_bytes = batch.nbytes
        if batch_bytes > left_bytes:
            num_rows = min(num_rows, max(1, batch.num_rows * left_bytes // int(batch_bytes)))
        return num_rows

    def _open(self) -> NewDataFile:
        if self._current is None:
            place = next(self._places)
            self._current = NewDataFile(
                place, self._schema, self._config, dictionaries=self._dictionaries, external=self._external
            )
            self._names.append((place, self._current.name))
        return self._current

    def _close(self) -> None:
        if self._current is not None:
            self._finished.append(self._current.finish())
            self._dictionaries = self._current.dictionaries
            self._current = None
