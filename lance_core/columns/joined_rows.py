"""JoinedRows: the right side of a join, which is kept in memory; JoinedColumns: the values of columns that a join adds.

If several rows have the same key, the last one is found. Null is treated like any other key.

Source: ``HashJoiner`` of pylance 14.0.2, which rejects data without rows, and finds an arbitrary one of several rows
    with the same key.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_core.errors import InvalidInputError, NotSupportedError, SchemaMismatchError
from lance_core.join.key_index import KeyIndex
from lance_core.scan.scanner import LanceScanner
from lance_core.schema.extension_types import storage_array, storage_type
from lance_core.write.data_input import to_reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from lance_core.scan.table_view import TableView
    from lance_core.table.fragment import Fragment
    from lance_core.write.data_input import ReaderLike

__all__ = ["NO_ROW", "JoinedColumns", "JoinedRows", "key_type"]

NO_ROW: Final = -1
"""What a lookup returns for a key that no row has."""

_PART_BYTES: Final = 512 * 1024 * 1024
"""Maximum size in bytes of the batches that are joined into one, so that the offsets of strings do not overflow."""


class JoinedRows:
    """Rows that are looked up by key. They are read when the first key is looked up.

    Args:
        data: the rows, including their keys.
        key: name of the column with the keys.
        schema: the schema to which the rows are converted; None for their own.

    Attributes:
        schema: the columns besides the key.

    Raises:
        InvalidTypeError: the type of the data is not supported.
        SchemaMismatchError: the data has no such column.
        InvalidInputError: the data has no column besides the key.
        NotSupportedError: keys cannot have the type of the column.
    """

    def __init__(self, data: ReaderLike, key: str, schema: pa.Schema | None = None) -> None:
        """Check the columns."""
        self._reader = to_reader(data, schema)
        given: pa.Schema = self._reader.schema
        if given.names.count(key) > 1:
            raise SchemaMismatchError(f"the data has more than one column {key!r} to join on", column=key)
        if key not in given.names:
            raise SchemaMismatchError(
                f"the data has no column {key!r} to join on; its columns are {given.names}", column=key
            )
        self._at: int = given.get_field_index(key)
        self._key_type = given.field(self._at).type
        self.schema: pa.Schema = given.remove(self._at)
        if not self.schema.names:
            raise InvalidInputError(f"the data has no column besides {key!r}; expected at least one column to add")
        _comparable_type(self._key_type)

    def check_keys(self, column: str, dtype: pa.DataType) -> None:
        """Check that keys of a type can be looked up.

        Args:
            column: the column of the table that contains the keys, for the message.
            dtype: its type.

        Raises:
            SchemaMismatchError: the types of the keys differ.
            NotSupportedError: keys cannot have this type.
        """
        if _comparable_type(dtype) != _comparable_type(self._key_type):
            raise SchemaMismatchError(
                f"column {column!r} cannot be joined, because the types differ: {dtype} in the table, "
                f"{self._key_type} in the data",
                column=column,
                expected=dtype,
                found=self._key_type,
            )

    def find(self, keys: pa.Array) -> npt.NDArray[np.int64]:
        """Return the number of the row with each key, shape (len(keys),); ``NO_ROW`` where there is none."""
        return self._loaded[0].find(keys)

    def take(self, rows: npt.NDArray[np.int64]) -> pa.RecordBatch:
        """Return rows by number, without their keys; nulls for ``NO_ROW``."""
        _, parts, starts = self._loaded
        parts_of_rows = np.where(rows == NO_ROW, 0, np.searchsorted(starts, rows, side="right") - 1)
        order = np.argsort(parts_of_rows, kind="stable")
        cuts = np.searchsorted(parts_of_rows[order], np.arange(len(parts) + 1)).tolist()
        taken = []
        for number, part in enumerate(parts):
            here = rows[order[cuts[number] : cuts[number + 1]]]
            taken.append(part.take(pa.array(here - starts[number], mask=here == NO_ROW)))
        if len(taken) == 1:
            return taken[0]
        places = np.empty(len(rows), np.int64)
        places[order] = np.arange(len(rows))
        return _joined(taken).take(pa.array(places))

    @cached_property
    def _loaded(self) -> tuple[_LastRows, Sequence[pa.RecordBatch], npt.NDArray[np.int64]]:
        """The index of the keys; the rows, in parts; the number of the first row of each part."""
        keys = [pa.array([], self._key_type)]
        parts: list[pa.RecordBatch] = []
        waiting = [pa.RecordBatch.from_pylist([], self.schema)]
        num_bytes = 0
        try:
            for batch in self._reader:
                keys.append(batch.column(self._at))
                rest = batch.select([index for index in range(batch.num_columns) if index != self._at])
                if num_bytes and num_bytes + rest.nbytes > _PART_BYTES:
                    parts.append(_joined(waiting))
                    waiting, num_bytes = [], 0
                waiting.append(rest)
                num_bytes += rest.nbytes
        except (pa.ArrowException, OSError) as error:
            raise InvalidInputError(f"the data to join could not be read: {error}") from error
        parts.append(_joined(waiting))
        return _LastRows(keys), parts, np.cumsum([0, *(part.num_rows for part in parts[:-1])])


class JoinedColumns:
    """The values of columns that a left join adds: nulls for rows whose keys do not occur in the data.

    Args:
        rows: the right side of the join.
        left_on: the column of the table to join on, which may be ``_rowid``, ``_rowaddr``, or a member of a struct.
    """

    can_repeat = True

    def __init__(self, rows: JoinedRows, left_on: str) -> None:
        """Initialize without reading anything."""
        self._rows = rows
        self._left_on = left_on

    def schema(self, view: TableView) -> pa.Schema:
        """Return the new columns.

        Raises:
            SchemaMismatchError: the table has no such key column, or already has one of the columns.
        """
        repeated = next((name for name in self._rows.schema.names if name in view.schema.names), None)
        if repeated is not None:
            raise SchemaMismatchError(f"column {repeated!r} is in both the table and the data to join", column=repeated)
        self._rows.check_keys(self._left_on, key_type(view, self._left_on))
        return self._rows.schema

    def batches(self, view: TableView, fragment: Fragment) -> Iterator[pa.RecordBatch]:
        """Return the values for the rows of a fragment that are not deleted."""
        for keys in LanceScanner(view.source_of(fragment), columns=[self._left_on]).to_batches():
            yield self._rows.take(self._rows.find(keys.column(0)))

    def finish(self) -> None:
        """Do nothing: rows of the data without a counterpart in the table are not used."""


def key_type(view: TableView, column: str) -> pa.DataType:
    """Return the type of the keys in a column of a table.

    Raises:
        SchemaMismatchError: the table has no such column.
    """
    try:
        return LanceScanner(view.source(), columns=[column]).projected_schema.field(0).type
    except InvalidInputError as error:
        raise SchemaMismatchError(f"the table has no column {column!r} to join on: {error}", column=column) from error


class _LastRows:
    """The last row with each key.

    Args:
        keys: the keys, in at least one part; all parts have the same type. Rows are numbered from 0.
    """

    def __init__(self, keys: Sequence[pa.Array]) -> None:
        self._dtype = _comparable_type(keys[0].type)
        values = pa.concat_arrays([_comparable(part, self._dtype) for part in keys])
        nulls = np.flatnonzero(_nulls(values))
        self._null_row = int(nulls[-1]) if len(nulls) else NO_ROW
        self._index = KeyIndex([values], only_last=True)

    def find(self, keys: pa.Array) -> npt.NDArray[np.int64]:
        values = _comparable(keys, self._dtype)
        found = np.full(len(values), NO_ROW, np.int64)
        for rows, places in self._index.find([values]):
            # If a place is repeated, the last assignment remains, which is that of the last row.
            found[places] = rows
        found[_nulls(values)] = self._null_row
        return found


def _comparable_type(dtype: pa.DataType) -> pa.DataType:
    """Return the type to which keys are converted before they are compared, regardless of how they are stored.

    Raises:
        NotSupportedError: keys cannot have this type.
    """
    dtype = storage_type(dtype)
    if pa.types.is_dictionary(dtype):
        return _comparable_type(dtype.value_type)
    if pa.types.is_string(dtype):
        return pa.large_string()
    if pa.types.is_binary(dtype):
        return pa.large_binary()
    if pa.types.is_nested(dtype) or pa.types.is_null(dtype):
        raise NotSupportedError(f"rows cannot be joined on values of type {dtype}")
    return dtype


def _comparable(keys: pa.Array, dtype: pa.DataType) -> pa.Array:
    keys = storage_array(keys)
    if pa.types.is_dictionary(keys.type):
        keys = keys.dictionary_decode()
    return keys.cast(dtype)


def _nulls(values: pa.Array) -> npt.NDArray[np.bool_]:
    return values.is_null().to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]  # pyarrow has no types


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of several batches as one batch."""
    table = pa.Table.from_batches(batches).combine_chunks()
    return pa.RecordBatch.from_arrays(
        [column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in table.columns],
        schema=table.schema,
    )
