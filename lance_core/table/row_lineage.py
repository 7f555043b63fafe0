"""RowLineage: the ids of a fragment's rows, and the versions that created and last changed them.

The ids and each of the two kinds of versions are stored in one of three ways::

    not stored       ids are addresses; rows were created by version 1, and last changed when they were created
    inline           in the manifest, as a sequence
    hidden column    in a data file of the fragment, as a column of 64-bit numbers, one for each physical row

=======================  ================  ==================================  ==========
what                     hidden field id   hidden column                       protobuf field
=======================  ================  ==================================  ==========
row ids                  -3                ``_rowid``                          12
created at version       -4                ``_row_created_at_version``         14
last updated at version  -5                ``_row_last_updated_at_version``    13
=======================  ================  ==================================  ==========

Hidden columns are in data files, which this package cannot read; the caller passes a function that reads a column.

**Source:** ``lance.table.DataFragment``; tables with ``lance.row_lineage.spill`` of pylance 14.0.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from lance_core.errors import NotSupportedError
from lance_core.proto import pb_table
from lance_core.table.row_id_sequence import RowIdSequence
from lance_core.table.version_runs import VersionRuns

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "CREATED_AT_ID",
    "FIRST_VERSION",
    "ROW_ID_ID",
    "UPDATED_AT_ID",
    "ColumnKey",
    "FetchedColumns",
    "HiddenColumns",
    "HiddenColumnsNeeded",
    "RowLineage",
    "column_key",
    "hidden_fields",
    "no_hidden_columns",
]

ROW_ID_ID: Final = -3
CREATED_AT_ID: Final = -4
UPDATED_AT_ID: Final = -5
FIRST_VERSION: Final = 1
"""The creation version of rows for which no creation version was recorded."""

_ARMS: Final = {
    ROW_ID_ID: ("row_id_sequence", "inline_row_ids"),
    CREATED_AT_ID: ("created_at_version_sequence", "inline_created_at_versions"),
    UPDATED_AT_ID: ("last_updated_at_version_sequence", "inline_last_updated_at_versions"),
}
_ADDRESS_SHIFT: Final = np.uint64(32)

_Numbers: TypeAlias = "npt.NDArray[np.uint64]"
_Positions: TypeAlias = "npt.NDArray[np.int64]"

HiddenColumns: TypeAlias = Callable[[pb_table.DataFragment, int], "npt.NDArray[np.uint64]"]
"""A function that takes a fragment and a field id and returns the values of a hidden column, one per physical row."""


def no_hidden_columns(fragment: pb_table.DataFragment, field_id: int) -> _Numbers:
    """Raise an error: the default for code that cannot read hidden columns.

    Raises:
        NotSupportedError: always.
    """
    raise NotSupportedError(
        f"the row lineage of fragment {fragment.id} is in a hidden column (field {field_id}), which this "
        "operation cannot read"
    )


class HiddenColumnsNeeded(Exception):  # noqa: N818  # a question, not an error
    """Raised when a required hidden column has not been fetched.

    Attributes:
        fragment: the fragment that contains the column.
        field_id: the field id of the column.
    """

    def __init__(self, fragment: pb_table.DataFragment, field_id: int) -> None:
        """Store the fragment and the field id."""
        super().__init__(f"field {field_id} of fragment {fragment.id}")
        self.fragment = fragment
        self.field_id = field_id


ColumnKey: TypeAlias = "tuple[int | None, str, int]"
"""The key of a hidden column: base id and path of the data file that contains the column, and the field id."""


class FetchedColumns:
    """A :data:`HiddenColumns` function for columns that were read earlier; it reads no files.

    Args:
        columns: the values of the columns, keyed by :func:`column_key`.
    """

    def __init__(self, columns: Mapping[ColumnKey, _Numbers]) -> None:
        """Initialize without copying the columns."""
        self._columns = columns

    def __call__(self, fragment: pb_table.DataFragment, field_id: int) -> _Numbers:
        """Return the column.

        Raises:
            HiddenColumnsNeeded: the column was not fetched.
        """
        found = self._columns.get(column_key(fragment, field_id))
        if found is None:
            raise HiddenColumnsNeeded(fragment, field_id)
        # Copied because callers may modify the result, as with a column that was just read.
        return found.copy()


def column_key(fragment: pb_table.DataFragment, field_id: int) -> ColumnKey:
    """Return the key of a hidden column. It identifies the file, not the fragment, whose id may change."""
    for file in fragment.files:
        if field_id in file.fields:
            return file.base_id if file.HasField("base_id") else None, file.path, field_id
    return None, "", field_id


def hidden_fields(fragment: pb_table.DataFragment) -> list[int]:
    """Return the ids of the fields that are stored in hidden columns."""
    lineage = RowLineage(fragment)
    return [field_id for field_id in _ARMS if lineage.is_hidden(field_id)]


class RowLineage:
    """Ids and versions of the rows of a fragment, parsed on first use.

    Args:
        fragment: a fragment of a manifest or a transaction.
        hidden: function that reads hidden columns.
    """

    def __init__(self, fragment: pb_table.DataFragment, hidden: HiddenColumns = no_hidden_columns) -> None:
        """Initialize without parsing anything."""
        self._fragment = fragment
        self._hidden = hidden
        self._what = f"row lineage of fragment {fragment.id}"
        self._ids: RowIdSequence | None = None
        self._versions: dict[int, VersionRuns | _HiddenVersions] = {}

    @property
    def has_row_ids(self) -> bool:
        """Whether the rows have stable ids; otherwise, their addresses are used as ids."""
        return self._fragment.WhichOneof("row_id_sequence") is not None

    def is_hidden(self, field_id: int) -> bool:
        """Return whether the row ids or row versions that this field id denotes are stored in a hidden column."""
        if field_id not in _ARMS:
            return False
        oneof, inline = _ARMS[field_id]
        return self._fragment.WhichOneof(oneof) not in (None, inline)

    def given_row_ids(self) -> RowIdSequence:
        """Return the recorded row ids, even if their number differs from the number of rows; empty if there are none.

        Raises:
            CorruptDataError: the ids are damaged.
        """
        if self._ids is None:
            if self.is_hidden(ROW_ID_ID):
                self._ids = RowIdSequence.of(self._hidden(self._fragment, ROW_ID_ID), self._what)
            else:
                self._ids = RowIdSequence.parse(self._fragment.inline_row_ids, self._what)
        return self._ids

    def row_ids(self) -> RowIdSequence:
        """Return the stable ids of all rows.

        Raises:
            CorruptDataError: the ids are damaged, or their number differs from the number of rows.
        """
        return self.given_row_ids().require(self._fragment.physical_rows, self._what)

    def ids_at(self, positions: _Positions) -> _Numbers:
        """Return the stable ids of some rows, or their addresses if they have no stable ids."""
        return self.row_ids().at(positions) if self.has_row_ids else self.addresses_at(positions)

    def addresses_at(self, positions: _Positions) -> _Numbers:
        """Return the addresses of some rows."""
        return (np.uint64(self._fragment.id) << _ADDRESS_SHIFT) | positions.astype(np.uint64)

    def created_at(self, positions: _Positions) -> _Numbers:
        """Return the version that created each of the given rows."""
        return self._runs(CREATED_AT_ID).at(positions)

    def updated_at(self, positions: _Positions) -> _Numbers:
        """Return the version that last changed each of the given rows."""
        recorded = self._fragment.WhichOneof("last_updated_at_version_sequence") is not None
        return self._runs(UPDATED_AT_ID if recorded else CREATED_AT_ID).at(positions)

    def check(self) -> None:
        """Check all inline sequences by parsing them.

        Raises:
            CorruptDataError: a sequence is damaged.
        """
        if self.has_row_ids and not self.is_hidden(ROW_ID_ID):
            self.row_ids()
        for field_id in (CREATED_AT_ID, UPDATED_AT_ID):
            if not self.is_hidden(field_id):
                self._runs(field_id)

    def _runs(self, field_id: int) -> VersionRuns | _HiddenVersions:
        found = self._versions.get(field_id)
        if found is None:
            found = self._versions[field_id] = self._parse_runs(field_id)
        return found

    def _parse_runs(self, field_id: int) -> VersionRuns | _HiddenVersions:
        oneof, inline = _ARMS[field_id]
        num_rows = self._fragment.physical_rows
        if self._fragment.WhichOneof(oneof) is None:
            return VersionRuns.constant(FIRST_VERSION, num_rows)
        if self.is_hidden(field_id):
            return _HiddenVersions(self._hidden(self._fragment, field_id))
        return VersionRuns.parse(getattr(self._fragment, inline), num_rows, self._what)


class _HiddenVersions:
    """Versions that were read from a hidden column."""

    def __init__(self, versions: _Numbers) -> None:
        self._versions = versions

    def at(self, positions: _Positions) -> _Numbers:
        return self._versions[positions]
