"""RowChanges: rows to delete, and the fragments with the rows that replace them, in one version.

::

    write     NewRows writes the moved rows to new fragments; no version refers to them yet
    result    RowChanges has the positions of the old rows, and the fragments; it can be sent to another process
    commit    Update: removed fragments, fragments with new deletion files, new fragments

If row ids are stable, the moved rows keep their ids: a new fragment lists them. Otherwise, their new addresses are
their ids. Concurrent deletes of other rows of the same fragments are merged; after any other conflict, the change is
planned again.

Source: operation ``Update`` of pylance 14.0.2.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from lance_core.delete.delete import commit_plan
from lance_core.delete.plan import DeletePlan, plan_fragment
from lance_core.errors import InvalidInputError
from lance_core.file.external_values import ExternalValues
from lance_core.scan.fragment_reader import FragmentReader
from lance_core.table.base_paths import reference_directories
from lance_core.table.fragment import Fragment
from lance_core.table.row_id_segments import serialize_row_ids
from lance_core.transactions.operations.update import Update
from lance_core.transactions.options import CommitOptions
from lance_core.write.fragment_writer import DataFiles, remove_placed_files
from lance_core.write.target import known_dictionaries

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt
    import pyarrow as pa
    from pyroaring import BitMap

    from lance_core.file.write_config import WriteConfig
    from lance_core.scan.table_view import TableView

__all__ = ["NewRows", "RowChanges", "RowPositions", "commit_row_changes", "removed_unless_committed"]

_ADDRESS_SHIFT: Final = np.uint64(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChanges:
    """The rows that a task found, and the fragments that it wrote. Until the commit, no version refers to them.

    Attributes:
        read_version: the version that was searched.
        found: the physical positions of the rows to delete, by fragment id.
        new_fragments: the fragments with the moved rows, with id 0.
        num_moved: the number of rows in the new fragments.
        field_ids: the ids of the fields whose values differ in the moved rows.
    """

    read_version: int
    found: Mapping[int, BitMap] = field(default_factory=dict)
    new_fragments: tuple[Fragment, ...] = ()
    num_moved: int = 0
    field_ids: tuple[int, ...] = ()

    @classmethod
    def merged(cls, parts: Sequence[RowChanges]) -> RowChanges:
        """Combine the changes of several tasks, which have changed different rows of one version.

        Raises:
            InvalidInputError: there are no parts, they are based on different versions, or two contain the same row.
        """
        versions = {part.read_version for part in parts}
        if len(versions) != 1:
            raise InvalidInputError(
                f"row changes must be based on one version, found {sorted(versions) or 'no changes'}",
                argument="results",
            )
        found: dict[int, BitMap] = {}
        for part in parts:
            for fragment_id, rows in part.found.items():
                before = found.get(fragment_id)
                if before is not None and before.intersect(rows):
                    raise InvalidInputError(
                        f"two results contain changes to the same rows of fragment {fragment_id}", argument="results"
                    )
                found[fragment_id] = rows if before is None else before | rows
        return cls(
            read_version=versions.pop(),
            found=found,
            new_fragments=tuple(fragment for part in parts for fragment in part.new_fragments),
            num_moved=sum(part.num_moved for part in parts),
            field_ids=tuple(dict.fromkeys(field_id for part in parts for field_id in part.field_ids)),
        )


class RowPositions:
    """Collects rows, given by their addresses, as physical positions by fragment."""

    def __init__(self) -> None:
        """Initialize without rows."""
        self.found: dict[int, BitMap] = {}

    def add(self, addresses: npt.NDArray[np.uint64]) -> None:
        """Add rows; this is fastest if the rows of each fragment are consecutive."""
        # Imported only when needed: readers do not use it.
        from pyroaring import BitMap

        fragment_ids = addresses >> _ADDRESS_SHIFT
        stops = [*(np.flatnonzero(np.diff(fragment_ids)) + 1).tolist(), len(addresses)]
        start = 0
        for stop in stops:
            if start < stop:
                rows = self.found.setdefault(int(fragment_ids[start]), BitMap())
                rows.update(addresses[start:stop].astype(np.uint32))
            start = stop


class NewRows:
    """Writes the rows that a change moves to new fragments of a table.

    Args:
        view: the version that the change is based on.
        config: settings for the data files.
    """

    def __init__(self, view: TableView, config: WriteConfig) -> None:
        """Initialize without writing anything."""
        manifest = view.manifest
        self._files = DataFiles(
            [view.locator.data_place(None)],
            view.schema,
            config,
            known_dictionaries(manifest),
            ExternalValues(
                reference_directories(manifest.base_paths), allow_outside=True, storage_options=view.storage_options
            ),
        )
        self._keeps_ids = manifest.has_stable_row_ids
        self._ids: list[npt.NDArray[np.uint64]] = []
        self._encoded: list[bytes] = []
        self.num_moved = 0

    def move(self, rows: pa.RecordBatch, row_ids: npt.NDArray[np.uint64]) -> None:
        """Write rows that replace existing rows of the table.

        Args:
            rows: all columns, with blob values in place of descriptors.
            row_ids: the stable ids of the rows; ignored if row ids are not stable.

        Raises:
            SchemaMismatchError: a value does not fit its column.
            StorageError: a storage operation failed.
        """
        self.num_moved += rows.num_rows
        self._files.write(rows)
        if self._keeps_ids:
            self._ids.append(row_ids)
            self._encode_ids()

    def finish(self) -> tuple[Fragment, ...]:
        """Complete the last file, and return the fragments, each with the row ids of its moved rows.

        Raises:
            StorageError: a storage operation failed.
        """
        fragments = self._files.finish()
        if not self._keeps_ids:
            return tuple(fragments)
        self._encode_ids()
        return tuple(map(Fragment.with_row_ids, fragments, self._encoded))

    def abort(self) -> None:
        """Remove every file that was written."""
        self._files.abort()

    def _encode_ids(self) -> None:
        """Encode the row ids of the completed fragments, because unencoded ids of many rows take up much memory."""
        for fragment in self._files.finished[len(self._encoded) :]:
            ids = np.concatenate(self._ids)
            first, rest = ids[: fragment.physical_rows], ids[fragment.physical_rows :]
            self._encoded.append(serialize_row_ids([first]))
            self._ids = [rest] if len(rest) else []


def commit_row_changes(
    view: TableView,
    changes: RowChanges,
    options: CommitOptions,
    *,
    properties: Mapping[str, str] | None = None,
    transaction_uuid: str | None = None,
) -> TableView:
    """Commit changes, and return a view of the new version. The files of the new fragments are never removed.

    Args:
        view: the version that the changes are based on.
        changes: the changes; there may be none.
        options: the options of the commit; those that follow from the changes are added.
        properties: properties of the transaction.
        transaction_uuid: UUID of the transaction; a new one if None.

    Raises:
        InvalidInputError: the changes are based on another version.
        RetryableCommitConflictError: another writer has changed the same rows; plan the change again.
        LanceError: as for :func:`~lance_core.commit.commit.commit`.
    """
    if changes.read_version != view.version:
        raise InvalidInputError(
            f"the changes are based on version {changes.read_version}, but the dataset is open at version "
            f"{view.version}",
            expected=changes.read_version,
            found=view.version,
        )
    operation = Update(new_fragments=changes.new_fragments, fields_for_preserving=changes.field_ids)
    return commit_plan(view, _plan(view, changes), operation, options, properties, transaction_uuid)


@contextmanager
def removed_unless_committed(view: TableView, changes: RowChanges) -> Iterator[CommitOptions]:
    """Remove the files of new fragments after an error, unless a version may refer to them.

    Args:
        view: the version that the changes are based on.
        changes: the changes.

    Yields:
        The options for the commit.
    """
    options = CommitOptions(checks_files=False, is_first_try=True)
    try:
        yield options
    except BaseException:
        if not options.progress.needs_files:
            _remove_new_files(view, changes)
        raise


def _remove_new_files(view: TableView, changes: RowChanges) -> None:
    """Remove the files of the new fragments, to which no version refers."""
    place = view.locator.data_place(None)
    remove_placed_files([(place, path) for fragment in changes.new_fragments for path in fragment.data_file_paths])


def _plan(view: TableView, changes: RowChanges) -> DeletePlan:
    """Return the deletion of the rows that were found."""
    by_id = {fragment.id: fragment for fragment in view.fragments}
    deletes = []
    for fragment_id, rows in sorted(changes.found.items()):
        fragment = by_id.get(fragment_id)
        if fragment is None or (rows and rows.max() >= fragment.physical_rows):
            raise InvalidInputError(f"the changes refer to rows of fragment {fragment_id} that do not exist")
        reader = FragmentReader(fragment, view.locator, session=view.session)
        positions = np.frombuffer(rows.to_array(), np.uint32).astype(np.int64)
        deletes.append(plan_fragment(fragment, reader.num_live_rows, reader.deleted_rows(), positions))
    return DeletePlan.of(view.version, "", deletes)
