"""MatchFinder: finds the rows of a version that have the keys of source rows.

Only the key columns, and the columns of the table that the condition needs, are read. Fragments are searched only once,
even if the merge is planned again on later versions: a writer that plans again after each conflict keeps pace with
others, however large the table is.

If the keys of the source do not fit in the memory limit, they are divided into blocks of rows, and the fragments are
searched once for each block.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_core.errors import InvalidMergeError
from lance_core.file.prepared_input import PreparedInput
from lance_core.file.read_config import ReadConfig
from lance_core.join.key_index import KeyIndex
from lance_core.join.keys import complete_keys
from lance_core.merge_insert.rules import SOURCE, TARGET, WhenMatched, condition_columns, plan_condition
from lance_core.scan.fragment_group import joined_readers
from lance_core.scan.output_schema import batch_without_columns
from lance_core.scan.row_reader import one_array
from lance_core.scan.scan_plan import live_to_physical
from lance_core.scan.scan_source import ScanSource
from lance_core.schema.blob_fields import stored_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from lance_core.merge_insert.rules import MergeRules
    from lance_core.merge_insert.source import RowSource
    from lance_core.predicate.predicate import Predicate
    from lance_core.scan.row_reader import RowReader
    from lance_core.scan.table_view import TableView
    from lance_core.schema.field import Schema
    from lance_core.table.fragment import Fragment

__all__ = ["FragmentMatches", "MatchFinder", "shown_keys"]

_RUN_ROWS: Final = 1 << 16
"""Maximum number of table rows that are joined at a time."""

_ROW_BYTES: Final = 40
"""Memory in bytes that a join needs for each row of the source, in addition to the keys themselves."""

_MAX_INT32: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class FragmentMatches:
    """The rows of a fragment that have the key of a source row: one entry for each pair.

    Attributes:
        source_rows: the numbers of the source rows.
        positions: the physical positions of the table rows, ascending.
        met: whether the condition is true for the pair; all true if there is no condition.
    """

    source_rows: npt.NDArray[np.signedinteger]
    positions: npt.NDArray[np.signedinteger]
    met: npt.NDArray[np.bool_] = field(repr=False)

    def by_fragment(self, reader: RowReader) -> Iterator[tuple[Fragment, FragmentMatches]]:
        """Yield the matches of each fragment, for a reader that reads several fragments together."""
        start = 0
        for fragment, positions in reader.by_fragment(self.positions):
            stop = start + len(positions)
            if start < stop:
                yield (
                    fragment,
                    FragmentMatches(_small(self.source_rows[start:stop]), _small(positions), self.met[start:stop]),
                )
            start = stop


class MatchFinder:
    """Finds matches of one source in several versions of a table.

    Args:
        rules: the rules of the merge.
        source: the rows of the source.
        memory_bytes: maximum size of the keys to hold in memory.
    """

    def __init__(self, rules: MergeRules, source: RowSource, memory_bytes: int) -> None:
        """Initialize without reading anything."""
        self._rules = rules
        self._source = source
        self._memory_bytes = memory_bytes
        self._schema: Schema | None = None
        self._found: dict[str, FragmentMatches] = {}

    def find(self, view: TableView, fragments: Sequence[Fragment]) -> list[FragmentMatches]:
        """Return the matches of each fragment.

        Raises:
            InvalidMergeError: a row matches, although the rules forbid it, or the condition is invalid.
        """
        if view.schema != self._schema:
            self._schema, self._found = view.schema, {}
        new = [fragment for fragment in fragments if fragment.content_key not in self._found]
        if new:
            self._search(view, new)
        return [self._found[fragment.content_key] for fragment in fragments]

    def require_unique_keys(self, table: Schema) -> None:
        """Check that no key of the source contains a null or occurs twice.

        Args:
            table: schema of the table, which determines the types of the keys.

        Raises:
            InvalidMergeError: a key contains a null or occurs twice; the message contains the key.
        """
        names = list(self._rules.keys)
        prepared = PreparedInput(pa.schema([self._source.schema.field(name) for name in names]), table=table)
        for index in self._blocks(table):
            for start, batch in self._source.batches(columns=names):
                columns = prepared.batch(batch).columns
                incomplete = np.flatnonzero(~complete_keys(columns))
                if len(incomplete):
                    row = start + int(incomplete[0])
                    raise InvalidMergeError(
                        f"source row {row} has a null in its key ({shown_keys(self._source, self._rules, row)}); a key "
                        "that contains a null never matches a row of the table",
                        row=row,
                    )
                for source_rows, found in index.find(columns):
                    repeated = np.flatnonzero(source_rows != start + found)
                    if len(repeated):
                        row = start + int(found[repeated[0]])
                        raise InvalidMergeError(
                            f"several source rows have the key {shown_keys(self._source, self._rules, row)}; a key "
                            "must not occur more than once",
                            row=row,
                        )

    def _search(self, view: TableView, fragments: Sequence[Fragment]) -> None:
        condition = None
        if self._rules.condition is not None:
            condition = plan_condition(stored_schema(view.schema), self._source.schema, self._rules.condition)
        pairs: dict[str, list[FragmentMatches]] = {fragment.content_key: [] for fragment in fragments}
        sides = {} if condition is None else condition_columns(condition)
        names = {*self._rules.keys, *sides.get(TARGET, ())}
        stored = stored_schema(view.schema)
        wanted = stored.project([name for name in stored.names if name in names])
        table = ScanSource(view.schema, fragments, view.locator, session=view.session)
        for index in self._blocks(view.schema):
            for reader in joined_readers(map(table.reader, fragments), wanted.fields, num_first=len(fragments)):
                for found in self._matches(reader, wanted, index, condition, sides):
                    for fragment, part in found.by_fragment(reader):
                        pairs[fragment.content_key].append(part)
            # Before the keys of the next block are sorted.
            del index
        for key in list(pairs):
            self._found[key] = _joined(pairs.pop(key))

    def _blocks(self, table: Schema) -> Iterator[KeyIndex]:
        """Yield the keys of consecutive rows of the source, as many as fit in memory together."""
        keys = list(self._rules.keys)
        prepared = PreparedInput(pa.schema([self._source.schema.field(name) for name in keys]), table=table)
        held: list[pa.RecordBatch] = []
        first_row = num_bytes = 0
        for start, batch in self._source.batches(columns=keys):
            here = prepared.batch(batch)
            size = here.nbytes + _ROW_BYTES * here.num_rows
            if held and num_bytes + size > self._memory_bytes:
                yield _key_index(held, first_row)
                held, first_row, num_bytes = [], start, 0
            held.append(here)
            num_bytes += size
        if held:
            yield _key_index(held, first_row)

    def _matches(
        self,
        reader: RowReader,
        wanted: Schema,
        index: KeyIndex,
        condition: Predicate | None,
        sides: Mapping[str, list[str]],
    ) -> Iterator[FragmentMatches]:
        deleted = reader.deleted_rows()
        row = 0
        for batch in reader.runs(wanted, 0, reader.num_live_rows, ReadConfig(), _RUN_ROWS):
            for source_rows, found in index.find([batch.column(name) for name in self._rules.keys]):
                if not len(found):
                    continue
                if self._rules.when_matched is WhenMatched.FAIL:
                    raise InvalidMergeError(
                        "a source row matches a row of the table, which when_matched 'fail' does not allow: "
                        f"{shown_keys(self._source, self._rules, source_rows[0])}",
                        row=int(source_rows[0]),
                    )
                met = np.ones(len(found), np.bool_)
                if condition is not None:
                    met = condition.matches(self._both(sides, source_rows, batch.take(pa.array(found))))
                yield FragmentMatches(source_rows, live_to_physical(deleted, row + found), met)
            row += batch.num_rows

    def _both(
        self, sides: Mapping[str, list[str]], source_rows: npt.NDArray[np.int64], target: pa.RecordBatch
    ) -> pa.RecordBatch:
        """Return the columns that the condition needs, as two structs."""
        columns = {}
        if sides.get(SOURCE):
            columns[SOURCE] = self._source.take(source_rows, sides[SOURCE]).to_struct_array()
        if sides.get(TARGET):
            columns[TARGET] = target.select(sides[TARGET]).to_struct_array()
        if not columns:
            return batch_without_columns(len(source_rows))
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def shown_keys(source: RowSource, rules: MergeRules, row: int) -> str:
    """Return the key of a source row as text, for messages."""
    values = source.take(np.array([row], np.int64), rules.keys).to_pylist()[0]
    return ", ".join(f"{name} = {value!r:.80}" for name, value in values.items())


def _key_index(batches: list[pa.RecordBatch], first_row: int) -> KeyIndex:
    """Return the index of the keys in some batches, and clear the list of batches."""
    columns = [one_array(column) for column in pa.Table.from_batches(batches).columns]
    batches.clear()
    return KeyIndex(columns, first_row)


def _small(numbers: npt.NDArray[np.signedinteger]) -> npt.NDArray[np.signedinteger]:
    """Return nonnegative numbers as 32-bit integers if all of them fit, otherwise as 64-bit integers."""
    return numbers.astype(np.int32 if numbers.max(initial=0) <= _MAX_INT32 else np.int64)


def _joined(parts: Sequence[FragmentMatches]) -> FragmentMatches:
    empty = FragmentMatches(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.bool_))
    parts = [empty, *parts]
    return FragmentMatches(
        np.concatenate([each.source_rows for each in parts]),
        np.concatenate([each.positions for each in parts]),
        np.concatenate([each.met for each in parts]),
    )
