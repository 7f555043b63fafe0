"""Decides whether a scan with a filter fetches all columns of a fragment at once, and fetches them.

Usually the columns of the filter are read first, and the other columns of the matching rows afterward. In an object
store, the scan then waits for responses twice, and sends at least two requests for each file. If the other columns are
small, the second request costs more than fetching their bytes along with the first: all columns are fetched together,
usually in one request, because the pages of small files are adjacent. Only what is fetched changes: the filter is still
evaluated first, and the other columns are decoded only for the matching rows.

The bytes are fetched in portions of several fragments each; two portions are in memory at a time.

Source: specific to this library.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from lance_core.scan.fragment_group import FragmentGroup
from lance_core.scan.fragment_reader import FragmentReader
from lance_core.scan.read_plan import ReadPlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lance_core.file.read_config import ReadConfig
    from lance_core.scan.row_reader import OpenColumns, RowReader
    from lance_core.schema.field import Field, Schema

__all__ = ["with_columns_fetched"]

_PORTIONS: Final = 2
"""Number of portions (groups of fragments) that are fetched or read at the same time."""


def with_columns_fetched(
    readers: Iterable[RowReader], filtered: Schema, fetched: Schema, table: Schema, config: ReadConfig
) -> Iterator[RowReader]:
    """Replace readers whose columns should be fetched at once with readers that have begun to fetch them.

    Args:
        readers: readers of fragments, or of several fragments together.
        filtered: the columns of the filter, all rows of which are read.
        fetched: the other columns, which are read for the matching rows.
        table: the whole schema.
        config: read settings, including the maximum number of bytes to read ahead.

    Yields:
        Readers of the same rows, in the same order.
    """
    plans = ReadPlan.of(filtered), ReadPlan.of(fetched, table)
    for reader in readers:
        portions = _portions(reader, *plans, config)
        if not portions:
            yield reader
            continue
        begun: deque[FragmentGroup] = deque()
        try:
            for portion in portions:
                portion.fetch(plans, config)
                begun.append(portion)
                if len(begun) == _PORTIONS:
                    yield begun.popleft()
            while begun:
                yield begun.popleft()
        finally:
            for portion in begun:
                portion.stop_fetching()


def _portions(reader: RowReader, filtered: ReadPlan, fetched: ReadPlan, config: ReadConfig) -> list[FragmentGroup]:
    """Divide fragments into portions whose columns are fetched at once; return none if this would not save time."""
    readers = _remote_readers(reader, (*filtered.wanted.fields, *fetched.wanted.fields))
    if not readers:
        return []
    group = reader if isinstance(reader, FragmentGroup) else FragmentGroup(readers, is_lasting=True)
    of_filter, others = group.open_columns(filtered), group.open_columns(fetched)
    if not of_filter or not others:
        # Files contain the columns of one side at most: there is no second round of requests.
        return []
    num_other_bytes, most_bytes = _stored_bytes(others), config.remote_ahead_bytes // _PORTIONS
    num_bytes = _stored_bytes(of_filter) + num_other_bytes
    if num_other_bytes > others[0][0].read_costs.early_bytes(len(readers)) or num_bytes > most_bytes * len(readers):
        return []
    most_rows = group.physical_rows * most_bytes // max(1, num_bytes)
    if group.physical_rows <= most_rows:
        return [group]
    return [FragmentGroup(part, is_lasting=True) for part in _divided(readers, most_rows)]


def _remote_readers(reader: RowReader, fields: Sequence[Field]) -> Sequence[FragmentReader]:
    """Return the readers of fragments in an object store; none if a field is a blob or a fragment is read alone."""
    readers = reader.readers if isinstance(reader, FragmentGroup) else [reader]
    # The fragments of a group are alike.
    first = readers[0]
    if not isinstance(first, FragmentReader) or not first.is_remote or first.group_key(fields) is None:
        return []
    if any(leaf.is_blob for top in fields for leaf in top.leaves()):
        return []
    return [each for each in readers if isinstance(each, FragmentReader)]


def _stored_bytes(opened: Sequence[OpenColumns]) -> int:
    return sum([file.stored_bytes(here.fields, columns) for file, here, columns in opened])


def _divided(readers: Sequence[FragmentReader], most_rows: int) -> Iterator[list[FragmentReader]]:
    """Divide readers, in order, into portions of at most ``most_rows`` rows, but of at least one reader."""
    portion: list[FragmentReader] = []
    num_rows = 0
    for reader in readers:
        if portion and num_rows + reader.physical_rows > most_rows:
            yield portion
            portion, num_rows = [], 0
        portion.append(reader)
        num_rows += reader.physical_rows
    yield portion
