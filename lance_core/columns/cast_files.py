"""CastFiles: writes the data files of columns that get another type, one file for each fragment.

A file contains a value for every physical row of its fragment, including deleted rows, whose values are arbitrary. The
fragment keeps its other files; the old columns remain in them until the fragment is compacted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_core.columns.casts import cast_rows
from lance_core.errors import NotSupportedError
from lance_core.file.read_config import ReadConfig
from lance_core.file.write_config import WriteConfig
from lance_core.proto import pb_table
from lance_core.scan.fragment_reader import FragmentReader
from lance_core.scan.undeleted_rows import UndeletedReader
from lance_core.schema.convert import schema_to_arrow
from lance_core.table.fragment import Fragment
from lance_core.table.fragment_files import drop_dead_files, with_dead_fields
from lance_core.write.fragment_writer import NewDataFile, remove_placed_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from lance_core.scan.table_view import TableView
    from lance_core.schema.field import Schema
    from lance_core.table.base_paths import DataPlace
    from lance_core.table.data_file import DataFile

__all__ = ["CastFiles"]


class CastFiles:
    """The files that the attempts of one change have written. An attempt uses those of earlier ones that still fit."""

    def __init__(self) -> None:
        """Initialize without files."""
        self._written: dict[tuple[str, Schema], tuple[DataPlace, DataFile]] = {}

    def fragments(self, view: TableView, before: Schema, after: Schema, schema: Schema) -> tuple[Fragment, ...]:
        """Return every fragment of a version with its new file, which is written if it does not exist yet.

        Args:
            view: the version.
            before: the columns to write, with their current types.
            after: the same columns with their new types, and new ids of the fields that are cast.
            schema: the new schema of the table; files without any of its fields are removed from their fragments.

        Raises:
            SchemaMismatchError: a value does not fit into its new type.
            NotSupportedError: the table has format 0.1.
            StorageError: a storage operation failed.
        """
        if view.manifest.file_version.is_legacy:
            raise NotSupportedError(
                "the types of columns cannot be changed in a table in format 0.1; write the rows to a new table"
            )
        live_ids = schema.field_ids()
        fragments = [self._with_file(view, fragment, before, after) for fragment in view.counted_manifest.fragments]
        for fragment in fragments:
            drop_dead_files(fragment.message, live_ids)
        return tuple(fragments)

    def remove(self, kept: tuple[Fragment, ...] = ()) -> None:
        """Remove the files to which none of the given fragments refers."""
        names = {path for fragment in kept for path in fragment.data_file_paths}
        remove_placed_files((place, file.path) for place, file in self._written.values() if file.path not in names)

    def _with_file(self, view: TableView, fragment: Fragment, before: Schema, after: Schema) -> Fragment:
        key = (fragment.content_key, after)
        if key not in self._written:
            place = view.locator.data_place(None)
            self._written[key] = place, _write(view, fragment, before, after, place)
        _, file = self._written[key]
        message = pb_table.DataFragment()
        message.CopyFrom(fragment.message)
        del message.files[:]
        message.files.extend(with_dead_fields(old, file.field_ids) for old in fragment.message.files)
        message.files.append(file.to_proto())
        return Fragment(message)


def _write(view: TableView, fragment: Fragment, before: Schema, after: Schema, place: DataPlace) -> DataFile:
    new = NewDataFile(place, after, WriteConfig(version=view.manifest.file_version))
    try:
        for batch in _batches(view, fragment, before, after):
            new.write(batch)
        return new.finish().files[0]
    except BaseException:
        new.abort()
        raise


def _batches(view: TableView, fragment: Fragment, before: Schema, after: Schema) -> Iterator[pa.RecordBatch]:
    live = None
    if fragment.has_deletion_file:
        live = np.ones(fragment.physical_rows, bool)
        live[FragmentReader(fragment, view.locator).deleted_rows()] = False
    target = schema_to_arrow(after)
    reader = UndeletedReader(fragment, view.locator, session=view.session)
    position = 0
    for batch in reader.batches(before, 0, fragment.physical_rows, ReadConfig()):
        rows = slice(position, position + batch.num_rows)
        yield cast_rows(batch, target, None if live is None else live[rows])
        position += batch.num_rows
