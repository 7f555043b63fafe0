"""Upserts rows that are already written as fragments, for example by several processes, in one version.

::

    check     no key of the new rows contains a null or occurs twice
    match     the keys of the new rows with those of the version; after a conflict, in changed fragments only
    commit    Update: fragments without the rows that are replaced, and the new fragments

Only key columns are read. If row ids are stable, a row that replaces another takes over its id. A new fragment can list
such ids only for its first rows, so the new rows are read and written again, with these rows first, and the files of
the given fragments are not used.

Source: operation ``Update`` of pylance 14.0.2, which has no such method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_core.delete.delete import commit_plan
from lance_core.errors import NotSupportedError
from lance_core.file.read_config import ReadConfig
from lance_core.merge_insert.changes import plan_changes
from lance_core.merge_insert.key_filter import key_filter
from lance_core.merge_insert.matching import MatchFinder
from lance_core.merge_insert.merge import DEFAULT_MEMORY_BYTES, MergeRequest, merge_staged
from lance_core.merge_insert.rules import MergeRules, WhenMatched
from lance_core.merge_insert.source import SourceRows
from lance_core.scan.fragment_reader import FragmentReader
from lance_core.schema.blob_fields import has_blobs
from lance_core.schema.convert import schema_to_arrow
from lance_core.table.feature_flags import require_writable
from lance_core.transactions.operations.update import Update
from lance_core.transactions.options import CommitOptions
from lance_core.write.request import WriteRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lance_core.scan.table_view import TableView
    from lance_core.schema.field import Schema
    from lance_core.table.base_paths import FileLocator
    from lance_core.table.fragment import Fragment

__all__ = ["StagedUpsert", "Upserted", "check_new_keys"]

_BATCH_ROWS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Upserted:
    """The result of an upsert.

    Attributes:
        view: the version that the upsert created.
        rows_inserted: the number of new rows whose key was not in the table.
        rows_updated: the number of rows of the table that were replaced.
        uses_new_files: whether the version refers to the files of the given fragments; if not, their rows were written
            again, and nothing refers to these files.
    """

    view: TableView
    rows_inserted: int
    rows_updated: int
    uses_new_files: bool

    @property
    def version(self) -> int:
        """The number of the version that the upsert created."""
        return self.view.version


class StagedUpsert:
    """The attempts to upsert the rows of some fragments. Close it to remove temporary files.

    Args:
        fragments: the new fragments, in files of the table, with all of its columns.
        keys: names of the key columns; no key may contain a null or occur twice (:func:`check_new_keys`).
        memory_bytes: maximum memory for the keys, in bytes.
    """

    def __init__(
        self, fragments: Sequence[Fragment], keys: Sequence[str], memory_bytes: int = DEFAULT_MEMORY_BYTES
    ) -> None:
        """Initialize without reading anything."""
        self._fragments = tuple(fragments)
        self._rules = MergeRules(keys=tuple(keys), when_matched=WhenMatched.UPDATE, inserts=True)
        self._memory_bytes = memory_bytes
        self._read: tuple[Schema, SourceRows, MatchFinder] | None = None

    def close(self) -> None:
        """Remove temporary files."""
        if self._read is not None:
            self._read[1].close()
            self._read = None

    def commit(self, view: TableView, *, properties: Mapping[str, str], transaction_uuid: str) -> Upserted:
        """Plan the upsert on a version, and commit it.

        If the transaction with this UUID created a version after the given one, the result refers to that version.

        Args:
            view: the version to base the plan on; neither it nor an earlier version was created by the transaction.
            properties: the properties of the transaction.
            transaction_uuid: the UUID of the transaction.

        Raises:
            InvalidMergeError: several new rows have the key of the same row of the table.
            NotSupportedError: row ids are stable, and the table has blob columns.
            RetryableCommitConflictError: another writer committed first; plan again on the latest version.
            LanceError: as for :func:`~lance_core.merge_insert.merge.merge_rows`; the files of the fragments are kept.
        """
        require_writable(view.manifest.message)
        if view.manifest.has_stable_row_ids:
            return self._commit_written_again(view, properties, transaction_uuid)
        source, finder = self._matching(view)
        matches = finder.find(view, view.fragments)
        changes = plan_changes(view, view.fragments, matches, self._rules, source)
        update = Update(
            new_fragments=self._fragments,
            fields_for_preserving=tuple(view.schema.field_ids()),
            inserted_rows=key_filter(view.schema, self._rules, source, changes.inserted),
        )
        options = CommitOptions(refuses_new_rows=True)
        made = commit_plan(view, changes.deletes, update, options, properties, transaction_uuid)
        return Upserted(made, changes.num_inserted, changes.num_updated, uses_new_files=True)

    def _matching(self, view: TableView) -> tuple[SourceRows, MatchFinder]:
        """Return the source with the keys, and the object that finds their matches."""
        if self._read is None or self._read[0] != view.schema:
            self.close()
            rows = _reader(view.schema.project(self._rules.keys), self._fragments, view.locator)
            source = SourceRows(rows, self._memory_bytes // 2)
            self._read = (view.schema, source, MatchFinder(self._rules, source, self._memory_bytes))
        return self._read[1:]

    def _commit_written_again(self, view: TableView, properties: Mapping[str, str], uuid: str) -> Upserted:
        if has_blobs(view.schema):
            raise NotSupportedError(
                f"{view.uri}: the rows of fragments cannot be upserted into a dataset that has both stable row ids and "
                "blob columns; use LanceDataset.merge_insert"
            )
        request = MergeRequest(rules=self._rules, write=WriteRequest.of(mode="append"), memory_bytes=self._memory_bytes)
        with SourceRows(_reader(view.schema, self._fragments, view.locator), self._memory_bytes // 2) as source:
            merged = merge_staged(view, request, source, properties, uuid)
        return Upserted(merged.view, merged.changes.num_inserted, merged.changes.num_updated, uses_new_files=False)


def check_new_keys(
    schema: Schema,
    fragments: Sequence[Fragment],
    locator: FileLocator,
    keys: Sequence[str],
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
) -> None:
    """Check that the keys in new fragments contain no nulls and no duplicates.

    Args:
        schema: the columns, with the field ids under which the fragments store them.
        fragments: the fragments.
        locator: locates their files.
        keys: names of the key columns.
        memory_bytes: maximum memory for the keys, in bytes.

    Raises:
        InvalidMergeError: a key contains a null, or occurs twice.
    """
    rules = MergeRules(keys=tuple(keys), when_matched=WhenMatched.UPDATE, inserts=True)
    with SourceRows(_reader(schema.project(keys), fragments, locator), memory_bytes // 2) as source:
        MatchFinder(rules, source, memory_bytes).require_unique_keys(schema)


def _reader(wanted: Schema, fragments: Sequence[Fragment], locator: FileLocator) -> pa.RecordBatchReader:
    """Return a reader of some columns of new fragments."""

    def batches() -> Iterator[pa.RecordBatch]:
        for fragment in fragments:
            reader = FragmentReader(fragment, locator)
            yield from reader.runs(wanted, 0, fragment.physical_rows, ReadConfig(), _BATCH_ROWS)

    return pa.RecordBatchReader.from_batches(schema_to_arrow(wanted), batches())
