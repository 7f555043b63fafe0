"""Writes rows to new data files, each of which becomes a new fragment; removes such files after a failure.

Each fragment has one data file. The next file is started after exactly ``max_rows_per_file`` rows, or when the current
file has reached ``max_bytes_per_file`` according to the file writer's estimate. Files become visible when they are
complete. After any failure, the files written by the call are removed, because no version refers to them.
"""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Final

from lance_core.errors import InvalidInputError
from lance_core.file.blob_sidecars import Sidecars, data_file_leftover
from lance_core.file.families import open_writer
from lance_core.file.table_context import TableContext
from lance_core.io.object_keys import is_plain_path
from lance_core.io.removal import remove_leftovers
from lance_core.public.fragment_conversion import fragment_from_record
from lance_core.public.fragment_metadata import FragmentMetadata
from lance_core.schema.storable import check_storable
from lance_core.table.base_paths import DataPlace
from lance_core.table.data_file import DataFile
from lance_core.table.fragment import Fragment
from lance_core.table.paths import DATA_DIRECTORY, data_file_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from lance_core.file.external_values import ExternalValues
    from lance_core.file.write_config import WriteConfig
    from lance_core.io.object_store import ObjectStore
    from lance_core.schema.field import Schema
    from lance_core.write.progress import FragmentWriteProgress

__all__ = [
    "DataFiles",
    "NewDataFile",
    "check_data_names",
    "data_paths",
    "remove_data_files",
    "remove_placed_files",
    "write_data_files",
]

_LARGE_BYTES: Final = 64 * 1024 * 1024
"""Maximum size in bytes of a file that need not be durable before the commit."""


def write_data_files(
    batches: Iterable[pa.RecordBatch],
    places: Sequence[DataPlace],
    schema: Schema,
    config: WriteConfig,
    *,
    dictionaries: Mapping[int, pa.Array] | None = None,
    external: ExternalValues | None = None,
    progress: FragmentWriteProgress | None = None,
    durable: bool = True,
) -> list[Fragment]:
    """Write batches as new fragments of a table.

    Args:
        batches: the rows; consumed as a stream.
        places: the directories to which files are written in turn; at least one.
        schema: the columns to write, with the table's field ids.
        config: settings for the files, including the limits at which the next file is started.
        dictionaries: in format 0.1, the initial dictionary values of dictionary columns, by field id.
        external: handles blob values that are given as URIs; None to reject such values.
        progress: is notified of every fragment that is started or completed.
        durable: whether the files must be durable. If not, the commit must sync those below the table's own root
            (:func:`data_paths`).

    Returns:
        One fragment per file, each with id 0; an empty list if there are no rows.

    Raises:
        SchemaMismatchError: a batch is incompatible with the schema.
        StorageError: a storage operation failed.
    """
    files = DataFiles(places, schema, config, dictionaries, external, progress, durable=durable)
    try:
        for batch in batches:
            files.write(batch)
        return files.finish()
    except BaseException:
        files.abort()
        raise


class DataFiles:
    """The new fragments of one change: the finished files, and the file being written.

    Args:
        places: the directories to which files are written in turn; at least one.
        schema: the columns to write, with the table's field ids.
        config: settings for the files, including the limits at which the next file is started.
        dictionaries: in format 0.1, the initial dictionary values of dictionary columns, by field id.
        external: handles blob values that are given as URIs; None to reject such values.
        progress: is notified of every fragment that is started or completed.
        durable: whether the files must be durable; see :func:`write_data_files`.

    Attributes:
        finished: the fragments of the finished files, each with id 0.
    """

    def __init__(
        self,
        places: Sequence[DataPlace],
        schema: Schema,
        config: WriteConfig,
        dictionaries: Mapping[int, pa.Array] | None = None,
        external: ExternalValues | None = None,
        progress: FragmentWriteProgress | None = None,
        *,
        durable: bool = True,
    ) -> None:
        """Initialize without writing anything."""
        self._durable = durable
        self._places = cycle(places)
        self._schema = schema
        self._config = config
        self._dictionaries = dictionaries
        self._external = external
        self._progress = progress
        self.finished: list[Fragment] = []
        self._names: list[tuple[DataPlace, str]] = []
        self._current: NewDataFile | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows.

        Raises:
            SchemaMismatchError: the batch is incompatible with the schema.
            StorageError: a storage operation failed.
        """
        while batch.num_rows:
            file = self._open()
            num_rows = self._rows_that_fit(batch, file)
            file.write(batch.slice(0, num_rows))
            batch = batch.slice(num_rows)
            if file.num_rows >= self._config.max_rows_per_file or file.num_bytes >= self._config.max_bytes_per_file:
                self._close()

    def finish(self) -> list[Fragment]:
        """Complete the last file, and return all fragments; none if there were no rows."""
        self._close()
        return self.finished

    def abort(self) -> None:
        """Remove every file that was written."""
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
            if self._progress is not None:
                self._progress.begin(FragmentMetadata(id=0, files=[], physical_rows=None))  # type: ignore[arg-type]  # as in pylance
            place = next(self._places)
            self._current = NewDataFile(
                place,
                self._schema,
                self._config,
                dictionaries=self._dictionaries,
                external=self._external,
                durable=self._durable,
            )
            self._names.append((place, self._current.name))
        return self._current

    def _close(self) -> None:
        if self._current is not None:
            fragment = self._current.finish()
            self.finished.append(fragment)
            self._dictionaries = self._current.dictionaries
            self._current = None
            if self._progress is not None:
                self._progress.complete(fragment_from_record(fragment))


class NewDataFile:
    """A new data file below ``data/``, to which no version refers. It becomes visible when it is complete.

    Args:
        place: the directory of the file.
        schema: the columns, with the table's field ids.
        config: settings for the file.
        dictionaries: in format 0.1, the initial dictionary values of dictionary columns, by field id.
        external: handles blob values that are given as URIs; None to reject such values.
        durable: whether the finished file must be durable. If not, the commit must sync it if it is below the table's
            own root.

    Attributes:
        name: the name of the file in its directory.
    """

    def __init__(
        self,
        place: DataPlace,
        schema: Schema,
        config: WriteConfig,
        *,
        dictionaries: Mapping[int, pa.Array] | None = None,
        external: ExternalValues | None = None,
        durable: bool = True,
    ) -> None:
        """Create the file."""
        # Other files may belong to a store that the commit does not use.
        self._durable = durable or place.base_id is not None
        check_storable(schema, config.version)
        self.name = data_file_name(config.file_token)
        self._file_version = config.version
        self._base_id = place.base_id
        path = place.store.join(place.directory, self.name)
        self._sidecars = Sidecars(place.store, path)
        self._stream = place.store.create(path)
        table = TableContext(sidecars=self._sidecars, external=external, dictionaries=dictionaries)
        self._writer = open_writer(self._stream, schema, config, table)

    @property
    def dictionaries(self) -> Mapping[int, pa.Array]:
        """In format 0.1, the current dictionary values by field id; the next file starts with these values."""
        return self._writer.dictionaries

    @property
    def num_rows(self) -> int:
        """Number of rows added so far."""
        return self._writer.num_rows

    @property
    def num_bytes(self) -> int:
        """An estimate of the file's size: the number of bytes written, plus the number of bytes buffered in memory."""
        return self._writer.num_bytes

    @property
    def num_bytes_written(self) -> int:
        """Number of bytes written so far; the finished file is larger."""
        return self._stream.position

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows; the errors are those of :meth:`~lance_core.file.data_file_writer.DataFileWriter.write_batch`."""
        self._writer.write_batch(batch)

    def finish(self) -> Fragment:
        """Complete the file and return its fragment, which has id 0."""
        # A large file is synced before the commit, which other writers could overtake in the meantime.
        written = self._writer.finish(durable=self._durable or self.num_bytes > _LARGE_BYTES)
        file = DataFile(
            path=self.name,
            field_ids=written.field_ids,
            column_indices=written.column_indices,
            file_version=self._file_version,
            num_bytes=written.num_bytes,
            base_id=self._base_id,
        )
        return Fragment.of([file], physical_rows=written.num_rows)

    def abort(self) -> None:
        """Remove the file and its sidecars. Safe after any failure, and may be called repeatedly."""
        try:
            self._writer.abort()
        finally:
            self._sidecars.abort()


def data_paths(store: ObjectStore, root: str, fragments: Iterable[Fragment]) -> list[str]:
    """Return the paths of the fragments' data files, except for files in other bases."""
    files = [file for fragment in fragments for file in fragment.files]
    return [store.join(root, DATA_DIRECTORY, file.path) for file in files if file.base_id is None]


def remove_data_files(store: ObjectStore, root: str, names: Iterable[str]) -> None:
    """Remove finished files to which no version refers. Files that cannot be removed are left for a later cleanup.

    Raises:
        InvalidInputError: a path is not below ``data/``; nothing is removed.
    """
    remove_placed_files((DataPlace(store, store.join(root, DATA_DIRECTORY)), name) for name in names)


def remove_placed_files(files: Iterable[tuple[DataPlace, str]]) -> None:
    """Remove finished files, each given as its directory and name, as :func:`remove_data_files` does."""
    listed = list(files)
    check_data_names(name for _, name in listed)
    remove_leftovers(
        [data_file_leftover(place.store, place.store.join(place.directory, name)) for place, name in listed]
    )


def check_data_names(names: Iterable[str]) -> None:
    """Check that names are relative paths of files below ``data/``.

    Raises:
        InvalidInputError: a path is not below ``data/``.
    """
    for name in names:
        if not is_plain_path(name):
            raise InvalidInputError(
                f"data file {name!r:.200}: expected a relative path of a file below {DATA_DIRECTORY}/", path=name
            )
