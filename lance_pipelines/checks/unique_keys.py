"""Finds rows with equal keys, in bounded memory.

1. The key columns are read once. Every row without nulls in its key becomes a 64-bit hash. If the hashes do not fit
   into memory, they are distributed over temporary files by their highest bits: equal hashes are in the same file.
2. Each file is sorted; hashes that occur more than once are candidates.
3. If there are candidates, the key columns are read again, and the keys of the candidates are counted exactly, so that
   different keys with equal hashes are not reported.

Memory is bounded by ``max_bytes`` and by the number of candidates that are counted exactly; the temporary files take 8
bytes per row.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.errors import InvalidInputError, NotFoundError
from lance_pipelines.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    import lance_core
    from lance_pipelines.progress import Report

__all__ = ["Duplicates", "RepeatedKey", "find_duplicates", "require_key_columns"]

DEFAULT_MAX_BYTES: Final = 256 * 1024**2
MAX_CANDIDATES: Final = 100_000
"""Maximum number of repeated hashes for which the keys are counted exactly."""

_ADDRESS: Final = "_rowaddr"
_COUNT: Final = "count"
_FIRST: Final = "first"
_LAST: Final = "last"
_HASH_BYTES: Final = 8
_SORT_FACTOR: Final = 3
"""Memory to sort a file of hashes, as a multiple of its size: the file, a sorted copy, and masks."""
_BUFFERED_ROWS: Final = 1 << 20
_MAX_BITS: Final = 12
_EXAMPLES: Final = 5

_Hashes: TypeAlias = "npt.NDArray[np.uint64]"


@dataclass(frozen=True, slots=True)
class RepeatedKey:
    """A key that several rows have.

    Attributes:
        values: the values of the key columns, by name.
        num_rows: number of rows with this key.
        addresses: the addresses of the first and the last of these rows: fragment id and offset.
    """

    values: dict[str, Any]
    num_rows: int
    addresses: tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicates:
    """The result of a search.

    Attributes:
        rows_examined: number of rows without nulls in the key.
        surplus_rows: number of rows beyond the first one of each key.
        examples: a few repeated keys, those with the most rows first.
        is_exact: whether every candidate was counted exactly; False only if there were more than ``max_candidates`` of
            them.
    """

    rows_examined: int
    surplus_rows: int
    examples: tuple[RepeatedKey, ...]
    is_exact: bool = True


def require_key_columns(dataset: lance_core.LanceDataset, columns: Sequence[str]) -> None:
    """Check that the columns exist and can be compared.

    Raises:
        NotFoundError: the dataset has no such column.
        InvalidInputError: values of the column's type cannot be part of a key.
    """
    for column in columns:
        index = dataset.schema.get_field_index(column)
        if index < 0:
            raise NotFoundError(
                f"key column {column!r} does not exist; the columns are: {', '.join(dataset.schema.names)}"
            )
        data_type = dataset.schema.field(index).type
        if pa.types.is_nested(data_type) or isinstance(data_type, pa.BaseExtensionType):
            raise InvalidInputError(
                f"column {column!r} has type {data_type}; nested and extension types cannot be part of a key"
            )


def find_duplicates(
    dataset: lance_core.LanceDataset,
    columns: Sequence[str],
    report: Report = lambda progress: None,
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
    max_candidates: int = MAX_CANDIDATES,
) -> Duplicates:
    """Find rows of a version that have the same values in all key columns; rows with a null in one of them are ignored.

    Args:
        dataset: an open handle.
        columns: the names of the key columns.
        report: receives the progress.
        max_bytes: approximate limit of the memory for hashes.
        max_candidates: maximum number of repeated hashes whose keys are counted exactly.

    Raises:
        NotFoundError: the dataset has no such column.
        InvalidInputError: values of a column's type cannot be part of a key.
        LanceError: a file cannot be read.
    """
    require_key_columns(dataset, columns)
    total = dataset.count_rows()
    with tempfile.TemporaryDirectory(prefix="lance-unique-") as directory:
        pile = _HashPile(Path(directory), _bits(total, max_bytes))
        rows_read = 0
        for num_rows, hashes, _ in _hashed(dataset, columns):
            pile.add(hashes)
            rows_read += num_rows
            report(Progress(stage="hashing keys", rows=rows_read, total_rows=total))
        candidates, surplus = _repeated(pile, report)
    if not len(candidates):
        return Duplicates(rows_examined=pile.num_hashes, surplus_rows=0, examples=())
    is_exact = len(candidates) <= max_candidates
    counted = _count_exactly(dataset, columns, candidates[:max_candidates], total, report)
    repeated = counted.filter(pc.greater(counted[_COUNT], 1)).sort_by([(_COUNT, "descending")])
    if is_exact:
        surplus = int(pc.sum(repeated[_COUNT]).as_py() or 0) - repeated.num_rows
    return Duplicates(
        rows_examined=pile.num_hashes,
        surplus_rows=surplus,
        examples=tuple(_example(row, columns) for row in repeated.slice(0, _EXAMPLES).to_pylist()),
        is_exact=is_exact,
    )


def _bits(num_rows: int, max_bytes: int) -> int:
    """Return the number of hash bits that select a file; 0 if all hashes fit in memory."""
    needed = num_rows * _HASH_BYTES * _SORT_FACTOR
    return min(max(0, -(-needed // max_bytes) - 1).bit_length(), _MAX_BITS)


class _HashPile:
    """The hashes of all rows without nulls in the key, in memory or in files."""

    def __init__(self, directory: Path, bits: int) -> None:
        self._directory = directory
        self._bits = bits
        self._buffer: list[_Hashes] = []
        self._buffered = 0
        self.num_hashes = 0

    @property
    def num_parts(self) -> int:
        return 1 << self._bits

    def add(self, hashes: _Hashes) -> None:
        self._buffer.append(hashes)
        self._buffered += len(hashes)
        self.num_hashes += len(hashes)
        if self._bits and self._buffered >= _BUFFERED_ROWS:
            self._spill()

    def parts(self) -> Iterator[_Hashes]:
        """Yield the hashes in parts; equal hashes are in the same part."""
        if not self._bits:
            yield np.concatenate([np.empty(0, np.uint64), *self._buffer])
            return
        self._spill()
        for part in range(self.num_parts):
            path = self._path(part)
            if path.exists():
                yield np.fromfile(path, np.uint64)
                path.unlink()

    def _spill(self) -> None:
        hashes = np.sort(np.concatenate([np.empty(0, np.uint64), *self._buffer]))
        bounds = np.searchsorted(hashes >> np.uint64(64 - self._bits), np.arange(self.num_parts + 1, dtype=np.uint64))
        for part in np.flatnonzero(np.diff(bounds)).tolist():
            with self._path(part).open("ab") as file:
                hashes[bounds[part] : bounds[part + 1]].tofile(file)
        self._buffer, self._buffered = [], 0

    def _path(self, part: int) -> Path:
        return self._directory / f"{part}.u64"


def _repeated(pile: _HashPile, report: Report) -> tuple[_Hashes, int]:
    """Return the hashes that occur more than once, in ascending order, and the number of surplus occurrences."""
    found: list[_Hashes] = []
    surplus = 0
    for number, part in enumerate(pile.parts(), 1):
        part.sort()
        repeats = part[1:][part[1:] == part[:-1]]
        surplus += len(repeats)
        found.append(np.unique(repeats))
        report(Progress(stage="sorting keys", tasks=number, total_tasks=pile.num_parts, unit="parts"))
    return np.concatenate([np.empty(0, np.uint64), *found]), surplus


def _count_exactly(
    dataset: lance_core.LanceDataset, columns: Sequence[str], candidates: _Hashes, total: int, report: Report
) -> pa.Table:
    """Return the keys with candidate hashes: the columns, the number of rows, and the first and last row address.

    The key columns are named by their numbers, so that they cannot clash with other names.
    """
    counted: pa.Table | None = None
    pending: list[pa.Table] = []
    rows_read = rows_pending = 0
    for num_rows, hashes, batch in _hashed(dataset, columns):
        places = np.minimum(np.searchsorted(candidates, hashes), len(candidates) - 1)
        matching = pa.Table.from_batches([batch]).filter(pa.array(candidates[places] == hashes))
        pending.append(
            pa.table(
                {
                    **{str(number): matching[name] for number, name in enumerate(columns)},
                    _COUNT: pa.array(np.ones(matching.num_rows, np.int64)),
                    _FIRST: matching[_ADDRESS],
                    _LAST: matching[_ADDRESS],
                }
            )
        )
        rows_read += num_rows
        rows_pending += matching.num_rows
        if rows_pending >= _BUFFERED_ROWS:
            counted = _grouped([*([] if counted is None else [counted]), *pending], len(columns))
            pending, rows_pending = [], 0
        report(Progress(stage="comparing repeated keys", rows=rows_read, total_rows=total))
    return _grouped([*([] if counted is None else [counted]), *pending], len(columns))


def _grouped(tables: Sequence[pa.Table], num_columns: int) -> pa.Table:
    keys = [str(number) for number in range(num_columns)]
    grouped = pa.concat_tables(tables).group_by(keys).aggregate([(_COUNT, "sum"), (_FIRST, "min"), (_LAST, "max")])
    return grouped.rename_columns([*keys, _COUNT, _FIRST, _LAST])


def _example(row: dict[str, Any], columns: Sequence[str]) -> RepeatedKey:
    values = {name: row[str(number)] for number, name in enumerate(columns)}
    return RepeatedKey(values, row[_COUNT], (_place(row[_FIRST]), _place(row[_LAST])))


def _place(address: int) -> tuple[int, int]:
    return address >> 32, address & 0xFFFFFFFF


def _hashed(dataset: lance_core.LanceDataset, columns: Sequence[str]) -> Iterator[tuple[int, _Hashes, pa.RecordBatch]]:
    """Yield for each batch the number of rows read, and the hashes and values of the rows without nulls in the key."""
    scanner = dataset.scanner(columns=list(columns), with_row_address=True)
    for batch in scanner.to_batches():
        valid = batch.drop_null() if any(batch.column(name).null_count for name in columns) else batch
        for name in columns:
            valid = valid.set_column(valid.schema.get_field_index(name), name, _comparable(valid.column(name)))
        yield batch.num_rows, _hash([valid.column(name) for name in columns]), valid


def _comparable(array: pa.Array) -> pa.Array:
    """Return the values in a form in which equal values have equal bytes; NaN and zero have several representations."""
    if not pa.types.is_floating(array.type):
        return array
    values = array.to_numpy(zero_copy_only=False) + array.type.to_pandas_dtype()(0)
    return pa.array(np.where(np.isnan(values), np.nan, values), array.type, from_pandas=False)


def _hash(arrays: Sequence[pa.Array]) -> _Hashes:
    """Return one hash per row, from arrays without nulls."""
    # Not at the top: the import takes half a second, which would delay loading the definitions of every project.
    import pandas as pd  # type: ignore[import-untyped]  # no types

    combined = np.zeros(len(arrays[0]), np.uint64)
    for array in arrays:
        values = pd.util.hash_array(_plain(array), categorize=False)
        # The finalizer of splitmix64: neither the order of the columns nor equal columns cancel each other out.
        combined = (combined ^ values) + np.uint64(0x9E3779B97F4A7C15)
        combined = (combined ^ (combined >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        combined = (combined ^ (combined >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        combined ^= combined >> np.uint64(31)
    return combined


def _plain(array: pa.Array) -> npt.NDArray[Any]:
    """Return the values in a form that pandas hashes: numbers, or an object array of text or bytes."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_temporal(array.type):
        array = array.cast(pa.int64() if array.type.bit_width == 64 else pa.int32())
    elif pa.types.is_decimal(array.type):
        array = array.cast(pa.string())
    elif pa.types.is_float16(array.type):
        array = array.cast(pa.float32())
    values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values
