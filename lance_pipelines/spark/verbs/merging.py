"""Merges a frame into a table by keys, in one version.

::

    stage     every task of the frame writes its rows as fragments; the frame is executed once
    search    tasks search fragments of the table for the keys of the staged rows, and write deletion files
    write     tasks copy those staged rows that cannot become part of the version as they are, if there are any
    commit    one version; after a conflict, only what has changed is searched and written again

If the frame has all columns, and row ids are not stable, staged rows rarely have to be copied: if each of them is
inserted or replaces a row, they are written only once. Rules, matches, and conflicts are those of
``LanceDataset.merge_insert``, except that each key may occur only once in the frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_core.errors import SchemaMismatchError
from lance_core.metadata import MergePlanner, MergeRules, MergeSearch, MergeWrite
from lance_pipelines.ingest.declaration import DECLARED_MAX_BYTES_PER_FILE, DECLARED_MAX_ROWS_PER_FILE
from lance_pipelines.ingest.fitting import check_known, fit_schema
from lance_pipelines.spark.failures import translated
from lance_pipelines.spark.schema import arrow_schema
from lance_pipelines.spark.verbs.table_change import RETRIES, TableChange, opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame

    import lance_core
    from lance_core.metadata import SearchedFragment, WrittenRows

__all__ = ["Upserted", "upsert"]

_TASK_ROWS: Final = 8 * 1024 * 1024
"""Maximum number of rows of the table that a task searches, unless a fragment has more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upserted:
    """The result of an upsert.

    Attributes:
        version: the version that the merge created.
        num_inserted_rows: number of inserted rows.
        num_updated_rows: number of updated rows.
        num_deleted_rows: number of rows that were deleted without being updated.
        attempts: number of times that the merge was planned.
    """

    version: int
    num_inserted_rows: int
    num_updated_rows: int
    num_deleted_rows: int
    attempts: int


def upsert(
    frame: DataFrame,
    dataset: lance_core.LanceDataset | str | Path,
    on: str | Iterable[str] | None = None,
    *,
    when_matched: str = "update",
    condition: str | None = None,
    when_not_matched: str = "insert",
    when_not_matched_by_source: str = "nothing",
    delete_condition: str | None = None,
    data_storage_version: str | None = None,
    target_bases: Sequence[str] | None = None,
    max_rows_per_file: int = DECLARED_MAX_ROWS_PER_FILE,
    max_bytes_per_file: int = DECLARED_MAX_BYTES_PER_FILE,
    retries: int = RETRIES,
    properties: Mapping[str, str] | None = None,
    transaction_uuid: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Upserted:
    """Merge the rows of a frame into a table: by default, replace the rows with the same keys, and insert the others.

    A version is created even if no row changes. The table is unchanged after any error, except that after a
    ``CommitOutcomeUnknownError`` the version may exist.

    Args:
        frame: the rows. If it lacks columns, updated rows keep their values, and inserted rows get nulls. Each key may
            occur only once; rows with a null in a key column match nothing.
        dataset: the table, or its location. A handle is moved to the new version.
        on: the key columns: a name or names; None for the declared primary key.
        when_matched: what happens to rows of the table that have the key of a row of the frame: "update", "nothing",
            "delete", or "fail", which ends the merge.
        condition: SQL text that selects the matched rows to update. Columns of the table have the prefix ``target.``,
            and columns of the frame the prefix ``source.``. The other matched rows stay as they are.
        when_not_matched: what happens to the other rows of the frame: "insert" or "nothing".
        when_not_matched_by_source: what happens to the other rows of the table: "nothing" or "delete".
        delete_condition: SQL text that selects which of these rows are deleted.
        data_storage_version: format version of the new data files; None for that of the table.
        target_bases: names or paths of the bases to which new files are written in turn.
        max_rows_per_file: number of rows at which a task starts its next file.
        max_bytes_per_file: approximate number of bytes at which a task starts its next file.
        retries: how often the merge is planned again after a conflict with another writer.
        properties: properties of the transaction.
        transaction_uuid: UUID of the transaction; a new one if None.
        storage_options: credentials and settings of the store, if the table is given by its location.

    Raises:
        InvalidInputError: the rules are invalid, would not change any row, or name an unknown column.
        InvalidMergeError: a condition is invalid, a row matches and ``when_matched`` is "fail", or several rows of
            the frame have the same key.
        SchemaMismatchError: the frame does not fit the table.
        DatasetNotFoundError: the table does not exist.
        NotSupportedError: a Spark type is not supported, the frame lacks members of a struct, or values of blob columns
            would have to be copied.
        TooMuchWriteContentionError: every attempt conflicted with another writer.
        CommitOutcomeUnknownError: it could not be determined whether the version was created; nothing was deleted.
        StorageError: a storage operation failed, or workers exited repeatedly.
    """
    dataset = opened(dataset, storage_options)
    rules = MergeRules.of(
        dataset,
        on,
        when_matched=when_matched,
        condition=condition,
        when_not_matched=when_not_matched,
        when_not_matched_by_source=when_not_matched_by_source,
        delete_condition=delete_condition,
    )
    frame, target = _fitted(frame, dataset, rules)
    planner = MergePlanner(
        dataset,
        rules,
        target,
        data_storage_version=data_storage_version,
        target_bases=target_bases,
        max_rows_per_file=max_rows_per_file,
        max_bytes_per_file=max_bytes_per_file,
    )
    with TableChange(frame.sparkSession, dataset, "upsert", retries=retries) as change:
        staged = change.write(
            frame,
            target,
            mode=planner.mode,
            max_rows_per_file=max_rows_per_file,
            max_bytes_per_file=max_bytes_per_file,
            data_storage_version=data_storage_version,
            target_bases=target_bases if planner.mode == "append" else None,
        )
        planner.stage(staged)
        num_tasks = change.parallelism()
        for attempt in change.attempts():
            with attempt:
                while searches := planner.searches(dataset, max(num_tasks, -(-_num_rows(dataset) // _TASK_ROWS))):
                    planner.add_searches(change.run(_search, searches))
                writes = planner.writes(dataset)
                planner.add_writes(dataset, writes, change.run(partial(_write, change.file_token), writes))
                made = planner.commit(
                    dataset, properties=properties, transaction_uuid=transaction_uuid, progress=change.progress()
                )
                break
        committed = {file.path for fragment in made.new_fragments for file in fragment.files}
        is_superfluous = any(file.path not in committed for fragment in staged for file in fragment.files)
        change.leave_only(made.new_fragments, if_certain=is_superfluous or change.num_attempts > 1)
        return Upserted(
            version=made.version,
            num_inserted_rows=made.num_inserted,
            num_updated_rows=made.num_updated,
            num_deleted_rows=made.num_deleted,
            attempts=change.num_attempts,
        )


def _fitted(frame: DataFrame, dataset: lance_core.LanceDataset, rules: MergeRules) -> tuple[DataFrame, pa.Schema]:
    """Return the frame with the columns that the merge needs, and the schema with which they are written."""
    with translated("cannot read the columns of the frame"):
        found = arrow_schema(frame.schema)
    if rules.only_deletes:
        missing = [name for name in rules.keys if name not in found.names]
        if missing:
            raise SchemaMismatchError(f"the frame has no key column {missing[0]!r}", column=missing[0])
        found = pa.schema([found.field(name) for name in rules.keys])
        frame = frame.select(*(f"`{name}`" for name in rules.keys))
    existing = dataset.schema
    check_known(found, existing)
    known = pa.schema([field for field in existing if field.name in found.names], existing.metadata)
    return frame, fit_schema(found, known)


def _num_rows(dataset: lance_core.LanceDataset) -> int:
    return sum(fragment.physical_rows for fragment in dataset.get_fragments())


def _search(dataset: lance_core.LanceDataset, task: MergeSearch) -> list[SearchedFragment]:
    return task.execute(dataset)


def _write(file_token: str, dataset: lance_core.LanceDataset, task: MergeWrite) -> WrittenRows:
    return task.execute(dataset, file_token=file_token)
