"""ArrowDataset: the interface through which other libraries read a dataset as a ``pyarrow.dataset.Dataset``.

DuckDB, Polars, and others pass the columns that they need, and their conditions as Arrow expressions, to ``scanner``,
``to_table``, or ``head``. Libraries that know only Arrow's C stream interface read all rows and columns.

Arrow's own code for datasets cannot read the rows, because it needs a dataset implemented in C++. Therefore, every
inherited method is overridden, and Arrow sees an empty dataset in memory. Without the empty dataset, functions such as
``pyarrow.dataset.Scanner.from_dataset`` would crash the process, as they do with pylance; with it, they first ask the
dataset for its scan options, which raises an error.

Source: ``pyarrow.dataset.Dataset`` of pyarrow 26; ``LanceDataset`` of pylance 14.0.2, which is a Dataset too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.dataset import InMemoryDataset

from lance_core.errors import InvalidTypeError, NotSupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyarrow.dataset import Dataset

    from lance_core.scan.scanner import LanceScanner

__all__ = ["ArrowDataset", "FilteredDataset"]


_NO_COLUMNS: Final = pa.schema([])


class ArrowDataset(InMemoryDataset):  # type: ignore[misc]  # pyarrow has no types
    """A dataset that this library scans. Subclasses implement ``scanner`` and ``schema``."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Create the underlying Arrow dataset, which is empty."""
        dataset: Self = super().__new__(cls)
        InMemoryDataset.__init__(dataset, [], _NO_COLUMNS)
        return dataset

    def scanner(self, *args: Any, **kwargs: Any) -> LanceScanner:
        """Plan a scan."""
        raise NotImplementedError

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return all rows as a stream of Arrow's C interface."""
        return self.scanner().__arrow_c_stream__(requested_schema)

    def filter(self, expression: pc.Expression) -> FilteredDataset:
        """Return a view of the rows for which an Arrow expression is true; nothing is read.

        The condition of each scan of the view is combined with the expression. In pylance, the method fails.

        Raises:
            InvalidTypeError: ``expression`` is not an Arrow expression.
        """
        return FilteredDataset(self, expression)

    def sort_by(self, sorting: str | list[tuple[str, str]], **kwargs: Any) -> InMemoryDataset:
        """Read all rows into memory and sort them. In pylance, the method terminates the process.

        Args:
            sorting: name of a column, or a list of tuples (column, "ascending" or "descending").
            **kwargs: see ``pyarrow.Table.sort_by``.
        """
        return InMemoryDataset(self.scanner().to_table().sort_by(sorting, **kwargs))

    def join(
        self,
        right_dataset: Any,
        keys: Any,
        right_keys: Any = None,
        join_type: str = "left outer",
        left_suffix: str | None = None,
        right_suffix: str | None = None,
        coalesce_keys: bool = True,
        use_threads: bool = True,
    ) -> NoReturn:
        """Raise an error, as in pylance.

        Raises:
            NotSupportedError: always; join the results of :meth:`to_table` instead.
        """
        raise NotSupportedError("datasets cannot be joined; use dataset.to_table().join(...)")

    def join_asof(
        self,
        right_dataset: Dataset,
        on: str,
        by: str | list[str],
        tolerance: int,
        right_on: str | list[str] | None = None,
        right_by: str | list[str] | None = None,
    ) -> InMemoryDataset:
        """Read two datasets into memory and join each row with the nearest one; see ``pyarrow.Table.join_asof``.

        Args:
            right_dataset: the dataset to join with.
            on: column that is compared approximately; both datasets must be sorted by it.
            by: columns whose values must be equal.
            tolerance: maximum difference between the two values of ``on``; if positive, rows of ``right_dataset`` with
                equal or larger values match; if negative, those with equal or smaller values.
            right_on: the column of ``right_dataset`` that corresponds to ``on``, if its name differs.
            right_by: the columns of ``right_dataset`` that correspond to ``by``, if their names differ.
        """
        left, right = self.scanner().to_table(), right_dataset.to_table()
        return InMemoryDataset(left.join_asof(right, on, by, tolerance, right_on=right_on, right_by=right_by))

    @property
    def partition_expression(self) -> NoReturn:
        """Not supported, as in pylance; accessing it raises a NotSupportedError."""
        raise NotSupportedError("a dataset has no partition expression")

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Raise an error, as in pylance.

        Raises:
            NotSupportedError: always; use :meth:`LanceDataset.update_schema_metadata` or
                :meth:`LanceDataset.update_field_metadata` to change metadata.
        """
        raise NotSupportedError(
            "the schema of a dataset cannot be replaced; to change its metadata, use update_schema_metadata or "
            "update_field_metadata"
        )

    @property
    def _scan_options(self) -> dict[str, object]:
        return {}

    def _scanner_options(self, options: dict[str, object]) -> NoReturn:
        raise NotSupportedError("Arrow cannot scan a Lance dataset by itself; use the dataset's scanner()")

    def _get_fragments(self, filter: object) -> NoReturn:
        raise NotSupportedError(
            "Arrow cannot list the fragments of a Lance dataset by itself; use the dataset's get_fragments()"
        )


class FilteredDataset(ArrowDataset):
    """A view of the rows of a dataset for which an Arrow expression is true.

    Args:
        source: the dataset.
        condition: the expression.

    Raises:
        InvalidTypeError: ``condition`` is not an Arrow expression.
    """

    def __init__(self, source: ArrowDataset, condition: pc.Expression) -> None:
        """Initialize without reading anything."""
        self._source = source
        self._condition = _checked(condition)

    def __repr__(self) -> str:
        """Return the dataset and the expression as text."""
        return f"{self._source!r}.filter({self._condition})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the dataset and the expression."""
        return FilteredDataset, (self._source, self._condition)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the dataset."""
        return self._source.schema

    def scanner(self, columns: list[str] | None = None, filter: pc.Expression | None = None, **kwargs: Any) -> Any:
        """Plan a scan of the rows that also match ``filter``; for the arguments, see :meth:`LanceDataset.scanner`.

        Raises:
            InvalidTypeError: ``filter`` is not an Arrow expression.
        """
        condition = self._condition if filter is None else self._condition & _checked(filter)
        return self._source.scanner(columns=columns, filter=condition, **kwargs)

    def to_table(self, **kwargs: Any) -> pa.Table:
        """Read the rows into memory; see :meth:`scanner`."""
        return self.scanner(**kwargs).to_table()

    def to_batches(self, **kwargs: Any) -> Iterator[pa.RecordBatch]:
        """Stream the rows; see :meth:`scanner`."""
        batches: Iterator[pa.RecordBatch] = self.scanner(**kwargs).to_batches()
        return batches

    def head(self, num_rows: int, **kwargs: Any) -> pa.Table:
        """Return the first rows; see :meth:`scanner`."""
        return self.to_table(**{**kwargs, "limit": num_rows})

    def take(self, indices: object, **kwargs: Any) -> pa.Table:
        """Return rows by their positions in the view, all of whose rows are read; see :meth:`scanner`."""
        return self.to_table(**kwargs).take(indices)

    def count_rows(self, filter: pc.Expression | None = None, **kwargs: Any) -> int:
        """Return the number of rows. Only the columns of the conditions are read."""
        counted: int = self.scanner(columns=[], filter=filter, **kwargs).count_rows()
        return counted

    def get_fragments(self, filter: object = None) -> NoReturn:
        """Raise an error: the rows of a fragment would not be filtered.

        Raises:
            NotSupportedError: always.
        """
        raise NotSupportedError("a filtered view has no fragments; use the dataset's get_fragments() instead")


def _checked(condition: object) -> pc.Expression:
    if not isinstance(condition, pc.Expression):
        raise InvalidTypeError(
            f"the filter of a Dataset must be a pyarrow.compute.Expression, found {type(condition).__name__}"
        )
    return condition
