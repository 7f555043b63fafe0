"""NewDataFile: one data file being written, which becomes one new fragment."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lance_core.errors import InvalidInputError
from lance_core.file.blob_options import BlobOptions
from lance_core.file.blob_sidecars import Sidecars, remove_sidecars
from lance_core.file.writer import DEFAULT_MAX_ROWS_PER_GROUP, FileWriter
from lance_core.io.removal import remove_all
from lance_core.schema.storable import check_storable
from lance_core.table.base_paths import DataPlace
from lance_core.table.data_file import DataFile
from lance_core.table.fragment import Fragment
from lance_core.table.paths import DATA_DIRECTORY, data_file_name, is_plain_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

    from lance_core.file.v0_1.writer import LegacyFileWriter
    from lance_core.io.object_store import ObjectStore, WriteStream
    from lance_core.schema.field import Schema
    from lance_core.versions import LanceFileVersion
    from lance_core.write.external_blobs import ExternalReferences

__all__ = ["BlobSettings", "NewDataFile", "check_data_names", "remove_data_files", "remove_placed_files"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobSettings:
    """How values of blob columns are written.

    Attributes:
        external: what becomes of URIs; None = they are refused.
        pack_bytes: a sidecar that several values share does not grow beyond; None for the default.
    """

    external: ExternalReferences | None = None
    pack_bytes: int | None = None


class NewDataFile:
    """A file below ``data/`` that no version refers to yet. It becomes visible when it is complete.

    Args:
        store: the store of the table.
        root: the table's path in it.
        schema: the columns, with the table's field ids.
        file_version: format of the file.
        column_cache_bytes: what a column collects before it writes a page.
        max_page_bytes: upper bound of a page.
        max_rows_per_group: rows of a batch in format 0.1.
        dictionaries: field id -> values that dictionary columns start with, in format 0.1.
        file_token: 16 hex digits that end the file's stem.
        blobs: what becomes of blob values that are given by their URI, and how large shared sidecars get.
        place: the directory that the file lies in; None for ``data/`` of the table.

    Attributes:
        name: below ``data/``.
    """

    def __init__(
        self,
        store: ObjectStore,
        root: str,
        schema: Schema,
        file_version: LanceFileVersion,
        *,
        column_cache_bytes: int,
        max_page_bytes: int,
        max_rows_per_group: int = DEFAULT_MAX_ROWS_PER_GROUP,
        dictionaries: Mapping[int, pa.Array] | None = None,
        file_token: str | None = None,
        blobs: BlobSettings | None = None,
        place: DataPlace | None = None,
    ) -> None:
        """Create the file."""
        check_storable(schema, file_version)
        self.name = data_file_name(file_token)
        self._file_version = file_version
        place = DataPlace(store, store.join(root, DATA_DIRECTORY)) if place is None else place
        store = place.store
        self._base_id = place.base_id
        path = store.join(place.directory, self.name)
        self._sidecars = Sidecars(store, path)
        settings = blobs or BlobSettings()
        self._stream = store.create(path)
        self._writer: FileWriter | LegacyFileWriter
        try:
            if file_version.is_legacy:
                self._writer = _legacy_writer(self._stream, schema, max_rows_per_group, dictionaries)
            else:
                self._writer = FileWriter(
                    self._stream,
                    schema,
                    version=file_version,
                    max_page_bytes=max_page_bytes,
                    data_cache_bytes=column_cache_bytes,
                    blobs=BlobOptions(
                        sidecars=self._sidecars, external=settings.external, pack_bytes=settings.pack_bytes
                    ),
                    is_of_table=True,
                )
        except BaseException:
            self._stream.abort()
            raise

    @property
    def dictionaries(self) -> Mapping[int, pa.Array]:
        """Field id -> values that the dictionary columns have by now, in format 0.1: what the next file starts with."""
        return {} if isinstance(self._writer, FileWriter) else self._writer.dictionaries

    @property
    def num_rows(self) -> int:
        """Rows taken so far."""
        return self._writer.num_rows

    @property
    def num_bytes(self) -> int:
        """Bytes written and bytes (in memory) still collected: an estimate of the file's size."""
        return self._writer.num_bytes

    @property
    def num_bytes_written(self) -> int:
        """Bytes written; the finished file is larger."""
        return self._stream.position

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows; raises what :meth:`FileWriter.write_batch` raises."""
        self._writer.write_batch(batch)

    def finish(self) -> Fragment:
        """Complete the file; returns the fragment, with id 0."""
        written = self._writer.finish()
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
        """Abort: remove all files. Safe after any failure and when repeated."""
        try:
            self._writer.abort()
        finally:
            self._sidecars.abort()


def _legacy_writer(
    stream: WriteStream, schema: Schema, max_rows_per_group: int, dictionaries: Mapping[int, pa.Array] | None
) -> LegacyFileWriter:
    from lance_core.file.v0_1.writer import LegacyFileWriter

    return LegacyFileWriter(
        stream, schema, max_rows_per_group=max_rows_per_group, dictionaries=dictionaries, dictionaries_grow=True
    )


def remove_data_files(store: ObjectStore, root: str, names: Iterable[str]) -> None:
    """Remove finished files that no version refers to. What cannot be removed is left to a cleanup.

    Raises:
        InvalidInputError: a name leads out of ``data/``; nothing is removed.
    """
    remove_placed_files((DataPlace(store, store.join(root, DATA_DIRECTORY)), name) for name in names)


def remove_placed_files(files: Iterable[tuple[DataPlace, str]]) -> None:
    """Remove finished files wherever they lie; as :func:`remove_data_files`."""
    listed = list(files)
    check_data_names(name for _, name in listed)
    paths = [(place.store, place.store.join(place.directory, name)) for place, name in listed]
    remove_all(
        partial(remove, store, path)
        for store, path in paths
        for remove in (lambda store, path: store.delete(path), remove_sidecars)
    )


def check_data_names(names: Iterable[str]) -> None:
    """Check that names are those of files below ``data/``.

    Raises:
        InvalidInputError: one leads elsewhere.
    """
    for name in names:
        if not is_plain_path(name):
            raise InvalidInputError(
                f"data file {name!r:.200}: expected a relative path of a file below {DATA_DIRECTORY}/", path=name
            )
