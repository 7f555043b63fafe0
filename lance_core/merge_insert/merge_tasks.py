"""MergePlanner: a merge whose work is divided into tasks for other processes, and committed as one version.

::

    stage     the rows of the source, as fragments to which no version refers, by any number of processes
    search    tasks find the rows of the table that have the keys of the source; after a conflict, in changed fragments
              only
    write     tasks write the new rows again, if the staged fragments do not contain exactly the new rows
    commit    Update: removed fragments, fragments with new deletion files, new fragments

Tasks and their results can be pickled. The results contain numbers of rows, never values. A task reads the keys of all
rows of the source; if there are many, in blocks that fit in its memory.

A staged fragment becomes part of the version unchanged if it has all columns, and each of its rows is inserted, or
replaces one row of a table without stable row ids. Otherwise, the rows to add are copied.

The rules, matches, conflicts, and written rows are the same as for :mod:`~lance_core.merge_insert.merge`, with two
exceptions: two rows of the source must never have the same key, even if no row of the table has it; and columns are
never updated in place.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lance_core.commit.task_division import divided
from lance_core.delete.delete import commit_plan, write_deletions
from lance_core.delete.plan import DeletePlan, FragmentDelete, planned_predicate
from lance_core.errors import InvalidInputError, InvalidMergeError, NotSupportedError
from lance_core.file.prepared_input import PreparedInput
from lance_core.join.keys import complete_keys, equal_keys, hash_keys
from lance_core.merge_insert.changed_columns import updates_in_place
from lance_core.merge_insert.changes import Changes, plan_changes
from lance_core.merge_insert.key_filter import key_filter
from lance_core.merge_insert.matching import MatchFinder, shown_keys
from lance_core.merge_insert.merge import DEFAULT_MEMORY_BYTES, MergeRequest, check_merge
from lance_core.merge_insert.new_rows import with_moved_row_ids, write_new_rows
from lance_core.merge_insert.rules import MergeRules, WriteMode, primary_key
from lance_core.merge_insert.staged_source import StagedRows, StagedSource
from lance_core.public.fragment_conversion import fragment_from_record, fragment_records
from lance_core.table.feature_flags import require_writable
from lance_core.transactions.operations.update import Update
from lance_core.transactions.options import CommitOptions, CommitProgress
from lance_core.write.request import WriteRequest
from lance_core.write.target import WriteTarget

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt
    from pyroaring import BitMap

    from lance_core.proto import pb_transaction
    from lance_core.public.fragment_metadata import FragmentMetadata
    from lance_core.scan.table_view import Handle, TableView
    from lance_core.table.fragment import Fragment

__all__ = ["CommittedMerge", "MergePlanner", "MergeSearch", "MergeWrite", "SearchedFragment", "WrittenRows"]

_MAX_ROWS: Final = 1 << 32
"""A merge must have fewer source rows than this, so that row numbers fit in 32 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedFragment:
    """What a merge does to one fragment, and the source rows that match its rows.

    Attributes:
        content_key: identifies the rows of the fragment.
        delete: the rows to delete, including rows that are replaced by an update; None if no row is to be deleted.
        changed: the fragment with the deletion file that the task has written; None if it has written none.
        matched: the numbers of the source rows that match a row; empty if the merge inserts no rows.
        updated: the numbers of the source rows that replace rows.
        num_updated: the number of rows that are replaced.
        rows: for each replaced row, the number of the source row; None unless locations are needed.
        positions: for each replaced row, its physical position in the fragment.
    """

    content_key: str
    delete: FragmentDelete | None
    changed: Fragment | None
    matched: BitMap
    updated: BitMap
    num_updated: int
    rows: npt.NDArray[np.uint32] | None = None
    positions: npt.NDArray[np.uint32] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSearch:
    """One task of a merge: fragments that are searched for the keys of the source.

    Attributes:
        read_version: the version on which the plan is based.
        fragment_ids: the fragments.
        rules: the rules of the merge.
        source: the rows of the source.
        share: (i, n): the task also checks that the keys in the i-th of n parts are unique; None if it does not.
        with_places: whether to return the location of each updated row.
        memory_bytes: maximum size of the keys to hold in memory.
    """

    read_version: int
    fragment_ids: tuple[int, ...]
    rules: MergeRules
    source: StagedSource
    share: tuple[int, int] | None = None
    with_places: bool = False
    memory_bytes: int = DEFAULT_MEMORY_BYTES

    def execute(self, dataset: Handle) -> list[SearchedFragment]:
        """Search the fragments, and write the deletion files. No version is created.

        Args:
            dataset: a handle to any version of the dataset; the task always reads ``read_version``.

        Raises:
            InvalidMergeError: a row matches although it must not, or several rows of the source have the same key.
            VersionNotFoundError: ``read_version`` has been removed.
            StorageError: a storage operation failed.
        """
        view = _at(dataset, self.read_version)
        wanted = set(self.fragment_ids)
        fragments = [fragment for fragment in view.fragments if fragment.id in wanted]
        source = self.source.rows(view)
        if self.share is not None:
            _check_unique(view, source, self.rules, *self.share)
        finder = MatchFinder(self.rules, source, self.memory_bytes)
        matches = finder.find(view, fragments)
        changes = plan_changes(view, fragments, matches, self.rules, source)
        deletes = {delete.fragment.id: delete for delete in changes.deletes.deletes}
        changed = {fragment.id: fragment for fragment in write_deletions(view.log, changes.deletes)}
        # The changes are in the order of the fragments.
        stops = np.searchsorted(changes.owners, np.arange(len(fragments) + 1))
        found = []
        for index, (fragment, match) in enumerate(zip(fragments, matches, strict=True)):
            here = slice(stops[index], stops[index + 1])
            rows = changes.updated[here].astype(np.uint32)
            found.append(
                SearchedFragment(
                    content_key=fragment.content_key,
                    delete=deletes.get(fragment.id),
                    changed=changed.get(fragment.id),
                    matched=_bitmap(match.source_rows if self.rules.inserts else ()),
                    updated=_bitmap(rows),
                    num_updated=len(rows),
                    rows=rows if self.with_places else None,
                    positions=changes.positions[here].astype(np.uint32) if self.with_places else None,
                )
            )
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRows:
    """What a :class:`MergeWrite` has written.

    Attributes:
        index: the number of the staged fragment.
        fragments: the new fragments; None if the staged fragment is used as it is.
        keys: the bitmap of the filter of the inserted keys; None if the merge has no filter.
    """

    index: int
    fragments: tuple[Fragment, ...] | None
    keys: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeWrite:
    """One task of a merge: a staged fragment whose rows are rewritten, or whose keys are recorded.

    Attributes:
        read_version: the version on which the plan is based.
        index: the number of the staged fragment.
        source: the staged fragment.
        rules: the rules of the merge.
        updated: for each updated row, the number of the source row in the fragment.
        owners: for each updated row, the id of the fragment with the row to replace; empty if locations are not needed.
        positions: for each updated row, the physical position of the row to replace; empty if locations are not needed.
        inserted: the numbers of the source rows to insert.
        writes_rows: whether the rows are written again.
        records_keys: whether the keys of inserted rows are recorded.
        request: the settings of the write.
    """

    read_version: int
    index: int
    source: StagedSource
    rules: MergeRules
    updated: npt.NDArray[np.int64]
    owners: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]
    inserted: BitMap
    writes_rows: bool
    records_keys: bool
    request: WriteRequest

    @property
    def fingerprint(self) -> object:
        """A key derived from everything that determines the result, except for the contents of the fragments."""
        arrays = (self.updated.tobytes(), self.owners.tobytes(), self.positions.tobytes(), self.inserted.serialize())
        return (self.index, self.writes_rows, self.records_keys, *arrays)

    def execute(self, dataset: Handle, *, file_token: str | None = None) -> WrittenRows:
        """Write the rows that the merge adds. No version is created.

        Args:
            dataset: a handle to any version of the dataset; the task always reads ``read_version``.
            file_token: 16 hexadecimal digits with which every new file name ends, before the extension, to identify the
                files of a job.

        Raises:
            VersionNotFoundError: ``read_version`` has been removed.
            NotSupportedError: the values of a blob column would have to be copied.
            StorageError: a storage operation failed; the written files were removed.
        """
        view = _at(dataset, self.read_version)
        source = self.source.rows(view)
        inserted = np.zeros(source.num_rows, np.bool_)
        inserted[np.frombuffer(self.inserted.to_array(), np.uint32)] = True
        fragments = None
        if self.writes_rows:
            indices = {fragment.id: index for index, fragment in enumerate(view.fragments)}
            owners = np.array([indices[each] for each in self.owners.tolist()], np.int32)
            changes = Changes(DeletePlan.of(view.version, "", ()), self.updated, owners, self.positions, inserted)
            request = replace(self.request, files=replace(self.request.files, file_token=file_token))
            written = write_new_rows(view, source, changes, request)
            fragments = tuple(with_moved_row_ids(view, source, changes, written.operation.added_fragments()))
        keys = None
        if self.records_keys:
            recorded = key_filter(view.schema, self.rules, source, inserted)
            keys = None if recorded is None else recorded.bloom.bitmap
        return WrittenRows(index=self.index, fragments=fragments, keys=keys)


@dataclass(frozen=True, slots=True)
class CommittedMerge:
    """The result of a merge.

    Attributes:
        version: the number of the version that the merge created.
        num_inserted: the number of inserted rows.
        num_updated: the number of updated rows.
        num_deleted: the number of rows that were deleted without being updated.
        new_fragments: the fragments with the inserted and updated rows, with id 0.
    """

    version: int
    num_inserted: int
    num_updated: int
    num_deleted: int
    new_fragments: tuple[FragmentMetadata, ...] = field(repr=False)


class MergePlanner:
    """Plans one merge, as tasks for other processes, on several versions of a table.

    ::

        planner = MergePlanner(dataset, rules, schema)
        planner.stage(fragments)                                # written with write_fragments(mode=planner.mode)
        while tasks := planner.searches(dataset, num_tasks):
            planner.add_searches(each.execute(dataset) for each in tasks)
        if tasks := planner.writes(dataset):
            planner.add_writes(each.execute(dataset) for each in tasks)
        planner.commit(dataset)

    After a conflict, the same steps, except for the staging, are repeated with a handle to the latest version. Only
    what has changed is searched and written again.

    Args:
        dataset: a handle to the version on which the first attempt is based.
        rules: what happens to rows that match, and to those that do not.
        source: the columns of the source.
        data_storage_version: the format of the new files; None for that of the table.
        target_bases: names or paths of the bases to which rows are written in turn.
        target_all_bases: whether to write to the root and all bases in turn.
        max_rows_per_file: number of rows at which the next file is started.
        max_bytes_per_file: approximate size of a file at which the next one is started.

    Raises:
        InvalidInputError: the rules request no changes.
        InvalidMergeError: a condition is invalid.
        SchemaMismatchError: the source is incompatible with the table.
        NotSupportedError: the source lacks members of a struct.
    """

    def __init__(
        self,
        dataset: Handle,
        rules: MergeRules,
        source: pa.Schema,
        *,
        data_storage_version: str | None = None,
        target_bases: Sequence[str] | None = None,
        target_all_bases: bool | None = None,
        max_rows_per_file: int | None = None,
        max_bytes_per_file: int | None = None,
    ) -> None:
        """Check the merge; nothing is written."""
        view = dataset.view
        self._rules = replace(rules, write_mode=WriteMode.AUTO, uses_index=False)
        self._request = WriteRequest.of(
            mode="append",
            data_storage_version=data_storage_version,
            target_bases=target_bases,
            target_all_bases=target_all_bases,
            max_rows_per_file=max_rows_per_file,
            max_bytes_per_file=max_bytes_per_file,
        )
        check_merge(view, MergeRequest(rules=self._rules, write=self._request), source)
        if updates_in_place(view, self._rules, source):
            raise NotSupportedError(
                "rows cannot be merged by several processes if the source lacks members of a struct"
            )
        if rules.deleted_if is not None:
            planned_predicate(view.schema, rules.deleted_if)
        is_appendable = set(source.names).issuperset(view.schema.names) or (rules.inserts and not rules.updates)
        self.mode = "append" if is_appendable else "overwrite"
        self._schema = WriteTarget.plan(
            view.manifest, self._request.mode.parse(self.mode), source, self._request.file_version
        ).file_schema
        self._source = StagedSource(self._schema, ())
        self._is_checked = False
        self._with_places = False
        self._searched: dict[str, SearchedFragment] = {}
        self._layout: object = None
        self._written: dict[object, WrittenRows] = {}

    def stage(self, fragments: Iterable[FragmentMetadata]) -> None:
        """Set the rows of the source.

        Args:
            fragments: fragments with all rows, written by :func:`~lance_core.write_fragments` with the mode
                :attr:`mode`.

        Raises:
            InvalidInputError: there are 2^32 rows or more.
        """
        source = StagedSource(self._schema, fragment_records(tuple(fragments)))
        if source.num_rows >= _MAX_ROWS:
            raise InvalidInputError(f"a merge can have at most {_MAX_ROWS - 1} source rows, found {source.num_rows}")
        self._source = source

    def searches(self, dataset: Handle, num_tasks: int = 1) -> list[MergeSearch]:
        """Return the tasks that search what has not been searched yet; none if nothing is left to search.

        Args:
            dataset: a handle to the version to plan on.
            num_tasks: maximum number of tasks, at least 1; each has at least one fragment.
        """
        view = dataset.view
        require_writable(view.manifest.message)
        new = self._unsearched(view)
        if not self._with_places and self._needs_places(view, is_searched=self._is_checked and not new):
            self._with_places, self._searched = True, {}
            new = self._unsearched(view)
        if not new and self._is_checked:
            return []
        # Without fragments, one task checks the keys.
        parts = divided(new, num_tasks) or [new]
        return [
            MergeSearch(
                read_version=view.version,
                fragment_ids=tuple(fragment.id for fragment in part),
                rules=self._rules,
                source=self._source,
                share=None if self._is_checked else (index, len(parts)),
                with_places=self._with_places,
            )
            for index, part in enumerate(parts)
        ]

    def add_searches(self, results: Iterable[Sequence[SearchedFragment]]) -> None:
        """Add the results of all tasks of :meth:`searches`."""
        for result in results:
            self._searched |= {found.content_key: found for found in result}
        self._is_checked = True

    def writes(self, dataset: Handle) -> list[MergeWrite]:
        """Return the tasks that write what has not been written yet, after everything has been searched."""
        view = dataset.view
        layout = (view.schema, view.manifest.file_version)
        if layout != self._layout:
            self._layout, self._written = layout, {}
        tasks = [task for _, task in self._parts(view, self._matches(view)) if task is not None]
        return [task for task in tasks if self._key(view, task) not in self._written]

    def add_writes(self, dataset: Handle, tasks: Iterable[MergeWrite], results: Iterable[WrittenRows]) -> None:
        """Add the results of tasks of :meth:`writes`.

        Args:
            dataset: a handle to the version for which the tasks were planned.
            tasks: the tasks.
            results: their results, in the same order.
        """
        for task, result in zip(tasks, results, strict=True):
            self._written[self._key(dataset.view, task)] = result

    def commit(
        self,
        dataset: Handle,
        *,
        properties: Mapping[str, str] | None = None,
        transaction_uuid: str | None = None,
        progress: CommitProgress | None = None,
    ) -> CommittedMerge:
        """Commit the merge, and move the handle to the new version. No data file is removed after a failure.

        Args:
            dataset: a handle to the version for which everything was searched and written.
            properties: properties of the transaction.
            transaction_uuid: UUID of the transaction; a new one if None. If the transaction with the given UUID created
                a version after that of the handle, the result refers to that version.
            progress: records the progress of the commit.

        Raises:
            RetryableCommitConflictError: another writer has changed rows that the merge changes, or, if the merge
                inserts rows, has added rows; repeat the steps.
            CommitOutcomeUnknownError: it could not be determined whether the version was created.
            LanceError: as for :meth:`lance_core.LanceDataset.commit`.
        """
        view = dataset.view
        matches = self._matches(view)
        parts = self._parts(view, matches)
        written = [None if task is None else self._written[self._key(view, task)] for _, task in parts]
        new: list[Fragment] = []
        for staged, (is_whole, _), result in zip(self._source.fragments, parts, written, strict=True):
            new += [staged] if is_whole else (result.fragments or ()) if result is not None else ()
        update = Update(
            new_fragments=tuple(new),
            fields_for_preserving=tuple(view.schema.field_ids()),
            inserted_rows=self._recorded_keys(view, [each.keys for each in written if each is not None]),
        )
        deletes = DeletePlan.of(view.version, "", matches.deletes)
        changed = {fragment.id: fragment for fragment in matches.changed}
        options = CommitOptions(
            is_first_try=transaction_uuid is None,
            refuses_new_rows=self._rules.inserts,
            progress=progress or CommitProgress(),
        )
        # If the commit fails, it removes the deletion files that the tasks have written.
        self._searched = {key: replace(each, changed=None) for key, each in self._searched.items()}
        made = commit_plan(view, deletes, update, options, properties, transaction_uuid, written=changed)
        dataset.show(made)
        return CommittedMerge(
            version=made.version,
            num_inserted=self._source.num_rows - len(matches.matched) if self._rules.inserts else 0,
            num_updated=matches.num_updated,
            num_deleted=deletes.rows_deleted - matches.num_updated,
            new_fragments=tuple(map(fragment_from_record, new)),
        )

    def _unsearched(self, view: TableView) -> list[Fragment]:
        return [fragment for fragment in view.fragments if fragment.content_key not in self._searched]

    def _needs_places(self, view: TableView, *, is_searched: bool) -> bool:
        """Return whether the location of each updated row is needed."""
        if not self._rules.updates:
            return False
        if view.manifest.has_stable_row_ids or not self._has_all_columns(view):
            return True
        # If several rows of the table have the same key, a source row replaces all of them.
        if not is_searched:
            return False
        matches = self._matches(view)
        return matches.num_updated > len(matches.updated)

    def _has_all_columns(self, view: TableView) -> bool:
        """Return whether staged fragments contain all columns of the new rows."""
        is_complete = set(self._schema.names).issuperset(view.schema.names)
        return self.mode == "append" and (is_complete or not self._rules.updates)

    def _matches(self, view: TableView) -> _Matches:
        return _Matches([(each, self._searched[each.content_key]) for each in view.fragments])

    def _parts(self, view: TableView, matches: _Matches) -> list[tuple[bool, MergeWrite | None]]:
        """Return, for each staged fragment, whether it becomes part of the version as it is, and its task, if any."""
        return [self._part(view, matches, index) for index in range(len(self._source.fragments))]

    def _part(self, view: TableView, matches: _Matches, index: int) -> tuple[bool, MergeWrite | None]:
        start, stop = self._source.starts[index : index + 2]
        updated = matches.updated & _range(start, stop)
        inserted = _range(start, stop) - matches.matched if self._rules.inserts else _bitmap(())
        if not inserted and not updated:
            return False, None
        rows, owners, positions = matches.places_of(start, stop)
        if not self._with_places:
            rows = np.frombuffer(updated.to_array(), np.uint32).astype(np.int64)
        keeps_every_row = len(inserted) + len(updated) == stop - start and len(rows) == len(updated)
        moves_ids = view.manifest.has_stable_row_ids and bool(updated)
        is_whole = keeps_every_row and self._has_all_columns(view) and not moves_ids
        records_keys = self._has_key_filter(view) and bool(inserted)
        if is_whole and not records_keys:
            return True, None
        return is_whole, MergeWrite(
            read_version=view.version,
            index=index,
            source=self._source.part(index),
            rules=self._rules,
            updated=rows - start,
            owners=owners,
            positions=positions,
            inserted=inserted.shift(-start),
            writes_rows=not is_whole,
            records_keys=records_keys,
            request=self._request,
        )

    def _key(self, view: TableView, task: MergeWrite) -> object:
        """Return what determines the result of a task, as long as the schema stays the same."""
        owners = set(task.owners.tolist())
        read = tuple(each.content_key for each in view.fragments if each.id in owners) if owners else ()
        return (task.fingerprint, read)

    def _has_key_filter(self, view: TableView) -> bool:
        fields = primary_key(view.schema)
        return self._rules.writes_rows and bool(fields) and {top.name for top in fields} == set(self._rules.keys)

    def _recorded_keys(
        self, view: TableView, bitmaps: Iterable[bytes | None]
    ) -> pb_transaction.Transaction.KeyExistenceFilter | None:
        """Return the filter of the inserted keys, which combines those of all staged fragments."""
        if not self._has_key_filter(view):
            return None
        nothing = StagedSource(self._schema, ()).rows(view)
        message = key_filter(view.schema, self._rules, nothing, np.zeros(0, np.bool_))
        for bitmap in bitmaps:
            if message is not None and bitmap is not None:
                words = np.frombuffer(message.bloom.bitmap, np.uint8) | np.frombuffer(bitmap, np.uint8)
                message.bloom.bitmap = words.tobytes()
        return message


@dataclass(frozen=True)
class _Matches:
    """The results of all searches of one version.

    Attributes:
        found: the fragments of the version, and what was found in each.
    """

    found: list[tuple[Fragment, SearchedFragment]]

    @cached_property
    def matched(self) -> BitMap:
        """The source rows that match a row of the table."""
        return _bitmap(()).union(*(each.matched for _, each in self.found))

    @cached_property
    def updated(self) -> BitMap:
        """The source rows that replace rows of the table."""
        return _bitmap(()).union(*(each.updated for _, each in self.found))

    @property
    def num_updated(self) -> int:
        """The number of rows of the table that are replaced."""
        return sum(each.num_updated for _, each in self.found)

    @property
    def deletes(self) -> list[FragmentDelete]:
        """The rows to delete, with the fragments as listed in the version."""
        return [replace(each.delete, fragment=now) for now, each in self.found if each.delete is not None]

    @property
    def changed(self) -> list[Fragment]:
        """The fragments with deletion files that the tasks have written."""
        return [each.changed for _, each in self.found if each.changed is not None]

    @cached_property
    def _places(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        found = [(now.id, each) for now, each in self.found if each.rows is not None and each.positions is not None]
        owners = [np.full(each.num_updated, fragment_id, np.int64) for fragment_id, each in found]
        rows = np.concatenate([_NONE, *(each.rows for _, each in found)]).astype(np.int64)
        positions = np.concatenate([_NONE, *(each.positions for _, each in found)]).astype(np.int64)
        order = np.argsort(rows, kind="stable")
        return rows[order], np.concatenate([_NONE, *owners])[order], positions[order]

    def places_of(
        self, start: int, stop: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return source rows in a range, and the fragment ids and positions of the rows that each replaces."""
        rows, owners, positions = self._places
        low, high = np.searchsorted(rows, [start, stop])
        return rows[low:high], owners[low:high], positions[low:high]


_NONE: Final = np.empty(0, np.int64)


def _at(dataset: Handle, version: int) -> TableView:
    view = dataset.view
    return view if view.version == version else view.at(version)


def _bitmap(numbers: Iterable[int] | npt.NDArray[np.integer[Any]]) -> BitMap:
    # Imported only when needed: readers do not use it.
    from pyroaring import BitMap

    return BitMap(numbers)


def _range(start: int, stop: int) -> BitMap:
    return _bitmap(range(start, stop))


def _check_unique(view: TableView, source: StagedRows, rules: MergeRules, share: int, num_shares: int) -> None:
    """Check that no two rows of the source have the same key; checks only the keys whose hashes belong to one share.

    Raises:
        InvalidMergeError: two rows have the same key.
    """
    names = list(rules.keys)
    prepared = PreparedInput(pa.schema([source.schema.field(name) for name in names]), table=view.schema)
    hashes, rows = [np.empty(0, np.uint64)], [_NONE]
    for first, batch in source.batches(columns=names):
        columns = prepared.batch(batch).columns
        all_hashes = hash_keys(columns)
        here = np.flatnonzero((all_hashes % np.uint64(num_shares) == share) & complete_keys(columns))
        hashes.append(all_hashes[here])
        rows.append(first + here)
    every_hash, every_row = np.concatenate(hashes), np.concatenate(rows)
    order = np.argsort(every_hash, kind="stable")
    every_hash, every_row = every_hash[order], every_row[order]
    distance = 1
    while (same := np.flatnonzero(every_hash[distance:] == every_hash[:-distance])).size:
        ours, theirs = (
            prepared.batch(source.take(every_row[places], names)).columns for places in (same, same + distance)
        )
        equal = np.flatnonzero(equal_keys(ours, theirs))
        if equal.size:
            row = int(every_row[same[equal[0]]])
            raise InvalidMergeError(
                f"several source rows have the key {shown_keys(source, rules, row)}; each key may occur only once",
                row=row,
            )
        distance += 1
