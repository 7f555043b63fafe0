"""ColumnFiles: writes the data files of new columns, one file for each fragment, and commits them.

A file contains a value for every physical row of its fragment; the values of deleted rows are arbitrary. The fragment
keeps its other files; columns that are replaced remain in them until the fragment is compacted.

If another writer commits first, the change is planned again on the latest version. Files of fragments that have not
changed are kept for the next attempt. After a failure or an interrupt, the files are removed, unless a version may
refer to them.
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_core.commit.commit import commit_change
from lance_core.commit.replanning import Replanning
from lance_core.errors import InvalidInputError, NotSupportedError
from lance_core.file.write_config import WriteConfig
from lance_core.proto import pb_table
from lance_core.scan.fragment_reader import FragmentReader
from lance_core.scan.scan_plan import live_to_physical
from lance_core.schema.extension_types import storage_array
from lance_core.table.fragment import Fragment
from lance_core.table.fragment_files import drop_dead_files, with_dead_fields
from lance_core.transactions.options import CommitOptions, CommitProgress
from lance_core.write.fragment_writer import NewDataFile, remove_placed_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from lance_core.commit.replanning import RetryPolicy
    from lance_core.scan.table_view import TableView
    from lance_core.schema.field import Schema
    from lance_core.table.base_paths import DataPlace
    from lance_core.table.data_file import DataFile
    from lance_core.transactions.operations.operation import Operation

__all__ = ["ColumnFiles", "commit_columns", "deleted_rows", "new_files", "with_deleted_rows", "with_new_rows"]


class ColumnFiles:
    """The files written by all attempts to commit one change. Each attempt reuses earlier files that are still valid.

    Args:
        durable: whether the files must be durable; if not, the commit must make them durable.
        file_token: 16 hexadecimal digits with which every file name ends, before the extension; None for no token.
    """

    def __init__(self, *, durable: bool = True, file_token: str | None = None) -> None:
        """Initialize without files."""
        self._durable = durable
        self._file_token = file_token
        self._written: dict[tuple[str, Schema], DataFile] = {}
        self._names: list[tuple[DataPlace, str]] = []

    def fragment(
        self,
        view: TableView,
        fragment: Fragment,
        columns: Schema,
        schema: Schema,
        batches: Iterable[pa.RecordBatch],
    ) -> Fragment:
        """Return a fragment with its new file, which is written if it does not exist yet.

        Args:
            view: the version.
            fragment: one of its fragments.
            columns: the columns to write, with the table's field ids.
            schema: the new schema of the table; files without any of its fields are removed from their fragments.
            batches: the values of the columns for all rows of the fragment; read only if the file does not exist yet.

        Raises:
            InvalidInputError: the number of values differs from the number of rows.
            NotSupportedError: the table has format 0.1.
            StorageError: a storage operation failed.
        """
        if view.manifest.file_version.is_legacy:
            raise NotSupportedError(
                "values of columns cannot be added or changed in a table in format 0.1; write the rows to a new table"
            )
        key = (fragment.content_key, columns)
        if key not in self._written:
            self._written[key] = self._write(batches, columns, view)
        changed = _with_file(fragment, self._written[key])
        drop_dead_files(changed.message, schema.field_ids())
        return changed

    def is_known(self, fragment: Fragment, columns: Schema) -> bool:
        """Return whether the file of a fragment exists already."""
        return (fragment.content_key, columns) in self._written

    def add(self, written: Mapping[tuple[str, Schema], DataFile]) -> None:
        """Add files that other processes have written; this object never removes them.

        Args:
            written: maps the ``content_key`` of a fragment and the columns to the file.
        """
        self._written |= written

    def written(self) -> dict[tuple[str, Schema], DataFile]:
        """Return all files, keyed by the ``content_key`` of the fragment and the columns."""
        return dict(self._written)

    def paths(self) -> tuple[str, ...]:
        """Return the paths of the files, which are below the table's own root."""
        return tuple(place.store.join(place.directory, name) for place, name in self._names)

    def remove(self, kept: Iterable[Fragment] = ()) -> None:
        """Remove the files to which none of the given fragments refers."""
        names = {path for fragment in kept for path in fragment.data_file_paths}
        remove_placed_files([(place, name) for place, name in self._names if name not in names])

    def _write(self, batches: Iterable[pa.RecordBatch], columns: Schema, view: TableView) -> DataFile:
        place = view.locator.data_place(None)
        config = WriteConfig(version=view.manifest.file_version, file_token=self._file_token)
        new = NewDataFile(place, columns, config, durable=self._durable)
        self._names.append((place, new.name))
        try:
            for batch in batches:
                new.write(batch)
            return new.finish().files[0]
        except BaseException:
            new.abort()
            raise


@contextmanager
def new_files(file_token: str | None = None) -> Iterator[ColumnFiles]:
    """Return an object that writes files, which are removed after a failure or an interrupt."""
    files = ColumnFiles(file_token=file_token)
    try:
        yield files
    except BaseException:
        files.remove()
        raise


def commit_columns(
    view: TableView,
    change: str,
    plan: Callable[[TableView, ColumnFiles], Operation],
    policy: RetryPolicy,
    properties: Mapping[str, str] | None = None,
) -> TableView:
    """Plan, write, and commit a change of columns; after a conflict with another writer, plan it again.

    Args:
        view: the version on which the first attempt is based.
        change: what is committed, for messages ("change of columns").
        plan: plans the operation on a version, and writes its files with the given object.
        policy: the limits on retries after a conflict.
        properties: properties of the transaction.

    Raises:
        TooMuchWriteContentionError: every attempt conflicted with another writer.
        CommitOutcomeUnknownError: it could not be determined whether the version was created.
        StorageError: a storage operation failed.
    """
    view.log.require_commits()
    attempts = Replanning(view, change, policy)
    files = ColumnFiles(durable=False)
    attempted: list[tuple[CommitProgress, Sequence[Fragment]]] = []
    try:
        while True:
            with attempts as latest:
                operation = plan(latest, files)
                progress = CommitProgress()
                attempted.append((progress, operation.added_files(latest.manifest)))
                options = CommitOptions(
                    unsynced_files=files.paths(), checks_files=False, is_first_try=True, progress=progress
                )
                return commit_change(latest, operation, options, properties=properties)
    finally:
        needed = [added for progress, added in attempted if progress.needs_files]
        files.remove(kept=chain.from_iterable(needed))


def _with_file(fragment: Fragment, file: DataFile) -> Fragment:
    message = pb_table.DataFragment()
    message.CopyFrom(fragment.message)
    del message.files[:]
    message.files.extend(with_dead_fields(old, file.field_ids) for old in fragment.message.files)
    message.files.append(file.to_proto())
    return Fragment(message)


def deleted_rows(view: TableView, fragment: Fragment) -> npt.NDArray[np.uint32]:
    """Return the sorted positions of the deleted rows of a fragment, shape (num_deleted,)."""
    if not fragment.has_deletion_file:
        return np.zeros(0, np.uint32)
    return FragmentReader(fragment, view.locator, session=view.session).deleted_rows()


def with_deleted_rows(
    view: TableView, fragment: Fragment, batches: Iterable[pa.RecordBatch], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield values for all rows of a fragment; a deleted row gets the value of the live row before it.

    Args:
        view: the version.
        fragment: one of its fragments.
        batches: the values for the rows that are not deleted.
        schema: the columns.

    Raises:
        InvalidInputError: the number of values differs from the number of rows.
    """
    deleted = deleted_rows(view, fragment)
    num_expected = fragment.physical_rows - len(deleted)
    num_live = position = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        num_live += batch.num_rows
        if num_live > num_expected:
            break
        # The first batch begins with the first row, and the last one ends with the last row, even if it is deleted.
        stop = fragment.physical_rows
        if num_live < num_expected:
            stop = int(live_to_physical(deleted, np.array([num_live], np.int64))[0])
        low, high = np.searchsorted(deleted, [position, stop])
        if low == high:
            yield batch
        else:
            is_live = np.ones(stop - position, np.int64)
            is_live[deleted[low:high] - position] = 0
            yield batch.take(pa.array(np.maximum(np.cumsum(is_live) - 1, 0)))
        position = stop
    if num_live != num_expected:
        raise InvalidInputError(
            f"fragment {fragment.id}: the number of values must equal the number of rows; expected {num_expected}, "
            f"found {'more' if num_live > num_expected else num_live}",
            expected=num_expected,
            found=num_live,
        )
    if not num_expected:
        yield pa.record_batch([pa.nulls(fragment.physical_rows, field.type) for field in schema], schema=schema)


def with_new_rows(batch: pa.RecordBatch, positions: npt.NDArray[np.int64], new: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch in which new rows replace those at the given positions.

    Args:
        batch: rows of a fragment.
        positions: the positions in the batch, one for each new row.
        new: the new values of the same columns; they are cast, and members of structs may be in another order.
    """
    picks = np.arange(batch.num_rows)
    picks[positions] = batch.num_rows + np.arange(new.num_rows)
    taken = pa.array(picks)
    arrays = [
        pa.concat_arrays([before, _in_type(values, before.type)]).take(taken)
        for before, values in zip(map(storage_array, batch.columns), map(storage_array, new.columns), strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _in_type(array: pa.Array, dtype: pa.DataType) -> pa.Array:
    """Return an array with the members of structs in the order that a type defines."""
    if pa.types.is_struct(dtype) and pa.types.is_struct(array.type):
        members = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
        arrays = [_in_type(members[field.name], field.type) for field in dtype]
        return pa.StructArray.from_arrays(arrays, fields=list(dtype), mask=array.is_null())
    return array if array.type == dtype else array.cast(dtype)
