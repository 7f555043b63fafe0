"""System columns: columns that every table provides, although they are not part of its schema.

=================================  ==================================================================================
column                             value
=================================  ==================================================================================
``_rowid``                         the stable id of the row, or its address if the table has no stable row ids
``_rowaddr``                       the address of the row: ``fragment id << 32 | physical position``
``_rowoffset``                     the position of the row among all rows of the version that are not deleted
``_row_created_at_version``        the version that created the row; 1 if it is not recorded
``_row_last_updated_at_version``   the version that last changed the row, or the one that created it if not recorded
=================================  ==================================================================================

System columns are requested by name, like all other columns, and returned in the requested order. Neither this library
nor pylance creates a table that has columns with these names; if a table has such columns anyway, the table's columns
are used. Some system columns may be stored as hidden columns in data files; these are read from the files by their
field ids. The others have reserved ids that no stored field has.

**Source:** system columns of pylance 14.0.2: all are of type uint64 and nullable, except that ``_rowoffset`` is not
nullable in a take.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_core.schema.field import Field, Schema
from lance_core.table.row_lineage import CREATED_AT_ID, ROW_ID_ID, UPDATED_AT_ID, RowLineage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy.typing as npt

__all__ = [
    "ROW_ADDRESS_ID",
    "ROW_ADDRESS_NAME",
    "ROW_COLUMN_IDS",
    "ROW_ID_NAME",
    "RowColumns",
    "columns_with_row_names",
    "split_row_columns",
    "wants_offsets",
    "with_row_columns",
]

ROW_ID_NAME: Final = "_rowid"
ROW_ADDRESS_NAME: Final = "_rowaddr"

ROW_ADDRESS_ID: Final = -101
_OFFSET_ID: Final = -102

_FIELDS: Final = tuple(
    Field(id=field_id, name=name, logical_type="uint64")
    for name, field_id in (
        (ROW_ID_NAME, ROW_ID_ID),
        (ROW_ADDRESS_NAME, ROW_ADDRESS_ID),
        ("_row_created_at_version", CREATED_AT_ID),
        ("_row_last_updated_at_version", UPDATED_AT_ID),
    )
)
_OFFSET_FIELD: Final = Field(id=_OFFSET_ID, name="_rowoffset", logical_type="uint64")

_READERS: Final[Mapping[int, Callable[[RowLineage, npt.NDArray[np.int64]], npt.NDArray[np.uint64]]]] = MappingProxyType(
    {
        ROW_ID_ID: RowLineage.ids_at,
        ROW_ADDRESS_ID: RowLineage.addresses_at,
        CREATED_AT_ID: RowLineage.created_at,
        UPDATED_AT_ID: RowLineage.updated_at,
    }
)

ROW_COLUMN_IDS: Final = frozenset({*(field.id for field in _FIELDS), _OFFSET_ID})


def with_row_columns(schema: Schema, *, offsets: bool = True, nullable_offsets: bool = True) -> Schema:
    """Return a schema with the system columns appended.

    Args:
        schema: schema of the table.
        offsets: whether to include ``_rowoffset``, which predicates cannot use.
        nullable_offsets: whether ``_rowoffset`` is nullable, as it is in scans but not in takes.
    """
    known = {top.name for top in schema.fields}
    fields = (*_FIELDS, replace(_OFFSET_FIELD, nullable=nullable_offsets)) if offsets else _FIELDS
    added = (field for field in fields if field.name not in known)
    return Schema(fields=(*schema.fields, *added), metadata=schema.metadata)


def columns_with_row_names(
    schema: Schema, columns: Sequence[str] | dict[str, str] | None, *, with_id: bool, with_address: bool
) -> Sequence[str] | dict[str, str] | None:
    """Return the columns to read, with ``_rowid`` and ``_rowaddr`` appended if requested.

    Args:
        schema: schema of the table.
        columns: the ``columns`` argument of the caller.
        with_id: whether to append ``_rowid``.
        with_address: whether to append ``_rowaddr``.
    """
    last = [ROW_ID_NAME] * with_id + [ROW_ADDRESS_NAME] * with_address
    if isinstance(columns, dict):
        return {**columns, **{name: name for name in last if name not in columns}}
    if not last or isinstance(columns, (str, bytes)):
        return columns
    return [*(name for name in (schema.names if columns is None else columns) if name not in last), *last]


def split_row_columns(wanted: Schema) -> tuple[Schema, tuple[Field, ...]]:
    """Split a projection into the columns of the table and the system columns."""
    row = tuple(top for top in wanted.fields if top.id in ROW_COLUMN_IDS)
    if not row:
        return wanted, ()
    stored = tuple(top for top in wanted.fields if top.id not in ROW_COLUMN_IDS)
    return Schema(fields=stored, metadata=wanted.metadata), row


def wants_offsets(fields: Iterable[Field]) -> bool:
    """Return whether the fields include ``_rowoffset``."""
    return any(field.id == _OFFSET_ID for field in fields)


class RowColumns:
    """Computes the system columns for rows of one fragment.

    Args:
        lineage: row lineage of the fragment.
        first_row: number of rows that are not deleted in the preceding fragments.
        deleted: returns the sorted deleted positions of the fragment.
    """

    def __init__(self, lineage: RowLineage, first_row: int, deleted: Callable[[], npt.NDArray[np.uint32]]) -> None:
        """Initialize without computing anything."""
        self._lineage = lineage
        self._first_row = first_row
        self._deleted = deleted

    def column(self, field: Field, positions: npt.NDArray[np.int64]) -> pa.Array:
        """Return the values of one system column.

        Args:
            field: the field of the column.
            positions: physical positions of the rows.
        """
        numbers = (
            self._offsets_at(positions) if field.id == _OFFSET_ID else _READERS[field.id](self._lineage, positions)
        )
        return pa.array(numbers, pa.uint64())

    def _offsets_at(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        return (positions - np.searchsorted(self._deleted(), positions) + self._first_row).astype(np.uint64)
