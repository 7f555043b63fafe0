"""DatasetDelta: what changed between two versions.

==========================  ========================================================================================
result                      how it is determined
==========================  ========================================================================================
rows that were inserted     rows created after the begin version, up to and including the end version
rows that were updated      rows created up to and including the begin version, and last changed after it, up to
                            and including the end version
rows that were deleted      row ids that exist in the begin version, but not in the end version
transactions                transactions of the versions after the begin version, up to and including the end version
==========================  ========================================================================================

Inserted and updated rows are read from the version of the handle. A row that was changed again after the end version is
therefore returned with its later values, or is missing. Without stable row ids, every row counts as created and last
changed by version 1.

**Source:** ``lance.dataset.DatasetDelta`` of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.public.arguments import whole_number
from lance_core.scan.hidden_columns import hidden_columns_of
from lance_core.scan.row_columns import ROW_ID_NAME
from lance_core.scan.scanner import LanceScanner
from lance_core.table.deletion_vector import read_deletion_offsets
from lance_core.table.row_ids import live_rows
from lance_core.table.row_lineage import RowLineage
from lance_core.transactions.public_transaction import read_public_transaction

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from lance_core.scan.table_view import TableView
    from lance_core.table.fragment import Fragment
    from lance_core.transactions.public_transaction import Transaction

__all__ = ["DatasetDelta"]

_CREATED: Final = "_row_created_at_version"
_UPDATED: Final = "_row_last_updated_at_version"
_IDS: Final = pa.schema([pa.field(ROW_ID_NAME, pa.uint64())])
_BATCH_ROWS: Final = 8192


class DatasetDelta:
    """The differences between two versions; created by :meth:`LanceDataset.delta`.

    Args:
        view: the version that the handle has checked out.
        begin_version: the version to start from; the changes that it made are not part of the difference.
        end_version: the last version; the changes that it made are part of the difference.
    """

    def __init__(self, view: TableView, begin_version: int, end_version: int) -> None:
        """Initialize without reading anything."""
        self._view = view
        self._begin = begin_version
        self._end = end_version

    @classmethod
    def between(
        cls,
        view: TableView,
        compared_against: int | None,
        begin_version: int | None,
        end_version: int | None,
    ) -> DatasetDelta:
        """Return the differences for the arguments of :meth:`LanceDataset.delta`.

        Raises:
            InvalidInputError: the arguments do not specify two versions, or a version is negative.
            InvalidTypeError: a version is not a whole number.
        """
        if compared_against is not None:
            begin_version, end_version = compared_against, view.version
        elif begin_version is None and end_version is None:
            raise InvalidInputError("delta: specify either compared_against, or both begin_version and end_version")
        if begin_version is None or end_version is None:
            raise InvalidInputError("delta: both begin_version and end_version must be specified")
        numbers = [
            whole_number(name, value)
            for name, value in (("begin_version", begin_version), ("end_version", end_version))
        ]
        if min(numbers) < 0:
            raise InvalidInputError(f"delta: versions must not be negative, found {min(numbers)}")
        return cls(view, *numbers)

    def list_transactions(self) -> list[Transaction]:
        """Return the transactions of the versions after ``begin_version`` up to ``end_version``, oldest first.

        Raises:
            VersionNotFoundError: one of the versions does not exist, or has been cleaned up.
        """
        found = (read_public_transaction(self._view.log, version) for version in range(self._begin + 1, self._end + 1))
        return [transaction for transaction in found if transaction is not None]

    def get_inserted_rows(self) -> pa.RecordBatchReader:
        """Return the rows that were inserted, with their ids and version columns, as a stream."""
        return self._rows(f"{_CREATED} > {self._begin} AND {_CREATED} <= {self._end}")

    def get_updated_rows(self) -> pa.RecordBatchReader:
        """Return the existing rows that were updated, with their ids and version columns, as a stream."""
        return self._rows(f"{_CREATED} <= {self._begin} AND {_UPDATED} > {self._begin} AND {_UPDATED} <= {self._end}")

    def get_deleted_row_ids(self) -> pa.RecordBatchReader:
        """Return the ids of deleted rows in ascending order, as a stream with the single column ``_rowid``.

        Raises:
            InvalidInputError: ``begin_version`` is newer than ``end_version``, or the table has no stable row ids.
            VersionNotFoundError: one of the versions does not exist.
            CorruptDataError: row ids or a deletion file are damaged.
        """
        if self._begin > self._end:
            raise InvalidInputError(
                f"delta: begin version {self._begin} must not be newer than end version {self._end}"
            )
        ids = self._deleted_ids()
        return pa.RecordBatchReader.from_batches(_IDS, _id_batches(ids))

    def _rows(self, condition: str) -> pa.RecordBatchReader:
        columns = [*self._view.schema.names, ROW_ID_NAME, _CREATED, _UPDATED]
        return LanceScanner(self._view.source(), columns=columns, filter=condition).to_reader()

    def _deleted_ids(self) -> npt.NDArray[np.uint64]:
        """Compare the live row ids of both versions; skip fragments whose rows are the same in both."""
        if self._begin == 0:
            return np.empty(0, np.uint64)
        before, after = self._at(self._begin), self._at(self._end)
        same = {fragment.id: _rows_key(fragment) for fragment in after.manifest.fragments}
        changed = [fragment for fragment in before.manifest.fragments if same.get(fragment.id) != _rows_key(fragment)]
        known = {fragment.id: _rows_key(fragment) for fragment in before.manifest.fragments}
        new = [fragment for fragment in after.manifest.fragments if known.get(fragment.id) != _rows_key(fragment)]
        return np.setdiff1d(_live_ids(before, changed), _live_ids(after, new))

    def _at(self, version: int) -> TableView:
        view = self._view if version == self._view.version else self._view.at(version)
        if not view.manifest.has_stable_row_ids:
            raise InvalidInputError(
                f"delta: finding deleted rows requires stable row ids, which version {version} does not have",
                version=version,
            )
        return view


def _rows_key(fragment: Fragment) -> tuple[bytes, bytes, tuple[str, ...]]:
    """Return a key; two fragments with the same id and equal keys have the same rows and row ids."""
    message = fragment.message
    return (
        message.deletion_file.SerializeToString(deterministic=True),
        message.inline_row_ids,
        tuple(file.path for file in message.files),
    )


def _live_ids(view: TableView, fragments: Sequence[Fragment]) -> npt.NDArray[np.uint64]:
    """Return the ids of all rows that are not deleted, in no particular order."""
    hidden = hidden_columns_of(view.locator, view.session)
    parts = [
        RowLineage(fragment.message, hidden)
        .row_ids()
        .at(live_rows(fragment, read_deletion_offsets(fragment, view.locator)))
        for fragment in fragments
    ]
    return np.concatenate([np.empty(0, np.uint64), *parts])


def _id_batches(ids: npt.NDArray[np.uint64]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(ids), _BATCH_ROWS):
        yield pa.record_batch([pa.array(ids[start : start + _BATCH_ROWS], pa.uint64())], schema=_IDS)
