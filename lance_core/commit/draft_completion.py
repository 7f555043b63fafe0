"""DraftCompletion: adds content from data files to a new version that its operation does not contain.

===========================  =========================================================================================
What                         Of which versions
===========================  =========================================================================================
version of the data files    of a table that starts without any
dictionaries                 of tables of format 0.1 (:mod:`~lance_core.commit.legacy_dictionaries`)
rows of fragments            built on a version of an early release (:mod:`~lance_core.scan.early_fragments`)
===========================  =========================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.commit.legacy_dictionaries import DictionaryAmendment
from lance_core.scan.early_fragments import rows_in_files, uncounted_fragments
from lance_core.table.base_paths import BasePath, FileLocator

if TYPE_CHECKING:
    from lance_core.commit.options import CommitOptions
    from lance_core.table.manifest_draft import ManifestDraft
    from lance_core.table.version_log import VersionLog
    from lance_core.transactions.operations.operation import Operation

__all__ = ["DraftCompletion"]


class DraftCompletion:
    """Completes the drafts of one commit; what it reads of new files it reads once.

    Args:
        log: the table's versions.
        operation: what is committed.
        options: how.
    """

    def __init__(self, log: VersionLog, operation: Operation, options: CommitOptions) -> None:
        """Initialize without reading anything."""
        self._log = log
        self._operation = operation
        self._options = options
        self._dictionaries = DictionaryAmendment(
            log,
            operation.added_fragments(),
            replaces=operation.replaces_all_files,
            storage_options=options.storage_options,
        )

    def complete(self, draft: ManifestDraft) -> None:
        """Complete a draft from the data files.

        Raises:
            SchemaMismatchError: a dictionary is not that of the table.
            NotFoundError: a data file is missing.
            CorruptDataError: a data file is damaged.
        """
        starts_empty = self._operation.makes_tables and not self._operation.added_fragments()
        if starts_empty and self._options.file_version is not None:
            draft.set_file_version(self._options.file_version)
        self._dictionaries(draft)
        uncounted = uncounted_fragments(draft.message)
        if uncounted:
            bases = map(BasePath.from_proto, draft.message.base_paths)
            locator = FileLocator(self._log.store, self._log.root, bases, self._options.storage_options)
            draft.set_row_counts(rows_in_files(uncounted, locator))
