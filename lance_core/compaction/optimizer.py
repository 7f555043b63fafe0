"""The public API for compaction, in one call or in separate steps (plan, execute, commit), and for automatic cleanup.

Source: names, arguments, and defaults in pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from lance_core.absent import PylanceClass
from lance_core.cleanup.automatic import ENABLING_KEYS, enabling_entries
from lance_core.commit.commit import commit_change
from lance_core.compaction.commit_rewrites import commit_all_rewrites
from lance_core.compaction.options import CompactionSettings
from lance_core.compaction.plan import make_plan
from lance_core.compaction.rounds import compact
from lance_core.transactions.operations.map_update import map_update
from lance_core.transactions.operations.update_config import UpdateConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lance_core.cleanup.automatic import AutoCleanupConfig
    from lance_core.compaction.options import CompactionOptions
    from lance_core.compaction.plan import CompactionPlan
    from lance_core.compaction.result import CompactionMetrics, RewriteResult
    from lance_core.scan.table_view import Handle

__all__ = ["Compaction", "DatasetOptimizer"]


class Compaction:
    """The separate steps of a compaction, for executing its tasks in other threads or processes."""

    @staticmethod
    def plan(dataset: Handle, options: CompactionOptions | Mapping[str, Any]) -> CompactionPlan:
        """Plan a compaction of a handle's version. No data file is opened.

        Raises:
            InvalidInputError: an option is unknown or out of range.
            InvalidTypeError: an option has the wrong type.
            NotSupportedError: an option or the table is not supported.
        """
        return make_plan(dataset.view, options)

    @staticmethod
    def execute(dataset: Handle, options: CompactionOptions | Mapping[str, Any]) -> CompactionMetrics:
        """Plan, execute, and commit a compaction in one call; see :meth:`DatasetOptimizer.compact_files`."""
        return compact(dataset, options, None)

    @staticmethod
    def commit(
        dataset: Handle,
        rewrites: Iterable[RewriteResult],
        options: CompactionOptions | Mapping[str, Any] | None = None,
        *,
        transaction_properties: Mapping[str, str] | None = None,
    ) -> CompactionMetrics:
        """Commit all executed tasks, or none of them, and move the handle to the new version.

        Args:
            dataset: a handle to any version of the dataset.
            rewrites: the results of the tasks; if empty, no version is created.
            options: the compaction options; they are checked, but have no other effect.
            transaction_properties: properties to record in the transaction.

        Raises:
            RetryableCommitConflictError: another writer changed a fragment after the compaction was planned.
            LanceError: as for :func:`~lance_core.compaction.commit_rewrites.commit_rewrites`.
        """
        CompactionSettings.of(options or {}, {})
        return commit_all_rewrites(dataset, rewrites, transaction_properties).metrics


class DatasetOptimizer(PylanceClass):
    """Compaction and automatic cleanup of a dataset; available as ``dataset.optimize``.

    Args:
        dataset: the dataset handle.
    """

    def __init__(self, dataset: Handle) -> None:
        """Initialize without reading anything."""
        self._dataset = dataset

    def compact_files(
        self,
        *,
        target_rows_per_fragment: int | None = None,
        max_rows_per_group: int | None = None,
        max_bytes_per_file: int | None = None,
        materialize_deletions: bool | None = None,
        materialize_deletions_threshold: float | None = None,
        defer_index_remap: bool | None = None,
        num_threads: int | None = None,
        batch_size: int | None = None,
        compaction_mode: Literal["reencode", "try_binary_copy", "force_binary_copy"] | None = None,
        binary_copy_read_batch_bytes: int | None = None,
        max_source_fragments: int | None = None,
        max_source_rows: int | None = None,
        max_source_bytes: int | None = None,
        excluded_fragment_ids: list[int] | None = None,
        data_storage_version: str | None = None,
        target_bytes_per_fragment: int | None = None,
        transaction_properties: Mapping[str, str] | None = None,
    ) -> CompactionMetrics:
        """Merge small fragments and drop deleted rows, and move the handle to the new version.

        If another writer changes some groups of fragments in the meantime, only these groups are planned and written
        again. If there is nothing to do, no version is created.

        Args:
            target_rows_per_fragment: fragments with fewer rows than this are merged. 1024 * 1024 by default.
            max_rows_per_group: number of rows in each batch of a data file in format 0.1; has no effect in other
                formats. 1024 by default.
            max_bytes_per_file: approximate size in bytes at which a new file is closed.
            materialize_deletions: whether fragments with many deleted rows are rewritten. True by default.
            materialize_deletions_threshold: fraction of deleted rows above which a fragment counts as having many
                deleted rows. 0.1 by default.
            defer_index_remap: not supported.
            num_threads: number of tasks that run concurrently; 1 by default.
            batch_size: number of rows to read at a time.
            compaction_mode: "reencode", or "try_binary_copy", which has the same effect in this library.
            binary_copy_read_batch_bytes: has no effect.
            max_source_fragments: maximum number of fragments to rewrite.
            max_source_rows: maximum number of live rows to rewrite.
            max_source_bytes: maximum size of the data files to rewrite, in bytes.
            excluded_fragment_ids: ids of fragments that are not rewritten.
            data_storage_version: format of the new files; by default, the table's format. It may differ from the
                format of the existing files, except that 0.1 cannot be mixed with other formats.
            target_bytes_per_fragment: fragments of at least this many bytes are not merged, and new files are closed at
                this size. Not an argument in pylance.
            transaction_properties: properties to record in the transaction. Not an argument in pylance.

        Raises:
            InvalidInputError: an argument is out of range.
            InvalidTypeError: an argument has the wrong type.
            NotSupportedError: an argument or the table is not supported.
            RetryableCommitConflictError: because of conflicts, nothing could be committed.
            CorruptDataError: a file is damaged.
            CommitOutcomeUnknownError: it could not be determined whether the version was created.
            StorageError: a storage operation failed. Files already written are removed, unless a version may refer to
                them. If part of the compaction was already committed, the error has a note that says so.
        """
        options = {
            "target_rows_per_fragment": target_rows_per_fragment,
            "max_rows_per_group": max_rows_per_group,
            "max_bytes_per_file": max_bytes_per_file,
            "materialize_deletions": materialize_deletions,
            "materialize_deletions_threshold": materialize_deletions_threshold,
            "defer_index_remap": defer_index_remap,
            "num_threads": num_threads,
            "batch_size": batch_size,
            "compaction_mode": compaction_mode,
            "binary_copy_read_batch_bytes": binary_copy_read_batch_bytes,
            "max_source_fragments": max_source_fragments,
            "max_source_rows": max_source_rows,
            "max_source_bytes": max_source_bytes,
            "excluded_fragment_ids": excluded_fragment_ids,
            "data_storage_version": data_storage_version,
            "target_bytes_per_fragment": target_bytes_per_fragment,
        }
        return compact(self._dataset, options, transaction_properties)

    def enable_auto_cleanup(self, auto_cleanup_config: AutoCleanupConfig) -> None:
        """Enable the removal of old versions after commits, and move the handle to the new version.

        Args:
            auto_cleanup_config: the settings; both entries are required. ``interval``: clean up after each version
                whose number is a multiple of this interval; 0 means after every version. ``older_than_seconds``: remove
                only versions that are older than this number of seconds.

        Raises:
            InvalidCleanupError: an option is missing, unknown, or out of range.
            InvalidTypeError: an option has the wrong type.
            LanceError: as for :meth:`LanceDataset.update_config`.
        """
        self._change_config(enabling_entries(auto_cleanup_config))

    def disable_auto_cleanup(self) -> None:
        """Remove the settings that :meth:`enable_auto_cleanup` sets, and move the handle to the new version."""
        self._change_config(dict.fromkeys(ENABLING_KEYS))

    def _change_config(self, values: Mapping[str, str | None]) -> None:
        update = UpdateConfig(config=map_update("values", values, replace=False))
        self._dataset.show(commit_change(self._dataset.view, update))
