"""The methods of a dataset for its indices: describing and dropping them.

Indices are created by other writers. Scans do not use them; commits keep them correct.

Source: names, arguments and results of pylance 14.0.2.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from lance_core.commit.commit import commit
from lance_core.commit.options import CommitOptions
from lance_core.errors import IndexNotFoundError
from lance_core.public.index_records import describe_indices
from lance_core.scan.dataset_handle import DatasetHandle
from lance_core.table.index_metadata import is_system_index
from lance_core.table.index_rules import decode_index_section
from lance_core.transactions.operations.create_index import CreateIndex
from lance_core.transactions.settings import CommitProgress
from lance_core.transactions.transaction import Transaction

if TYPE_CHECKING:
    from lance_core.public.index_records import IndexDescription

__all__ = ["DatasetIndices"]


class DatasetIndices(DatasetHandle):
    """The methods for the indices of a dataset."""

    def describe_indices(self) -> list[IndexDescription]:
        """Describe the indices, except system indices.

        Raises:
            CorruptDataError: the index section is damaged.
        """
        rows = {fragment.id: fragment.num_live_rows for fragment in self.counted_manifest.fragments}
        return describe_indices(decode_index_section(self.manifest.index_section), self.lance_schema, rows)

    def list_indices(self) -> list[dict[str, Any]]:
        """A dictionary for each segment of each index. Deprecated in the reference: see :meth:`describe_indices`."""
        warnings.warn("list_indices is deprecated; use describe_indices instead", DeprecationWarning, stacklevel=2)
        return [
            {
                "name": index.name,
                "type": index.index_type,
                "uuid": segment.uuid,
                "fields": index.field_names,
                "version": segment.dataset_version_at_last_update,
                "fragment_ids": segment.fragment_ids,
                "base_id": segment.base_id,
            }
            for index in self.describe_indices()
            for segment in index.segments
        ]

    def drop_index(self, name: str) -> None:
        """Drop an index. Creates a new version, which this handle then shows. A cleanup removes the index files.

        Args:
            name: name of the index, not of its column.

        Raises:
            IndexNotFoundError: the version shown has no such index.
            IncompatibleTransactionError: the table was replaced in the meantime.
            TooMuchWriteContentionError: other writers were faster at every attempt.
        """
        indices = decode_index_section(self.manifest.index_section)
        dropped = [index for index in indices if index.name == name and not is_system_index(name)]
        if not dropped:
            known = sorted({index.name for index in indices if not is_system_index(index.name)})
            raise IndexNotFoundError(
                f"version {self.manifest.version} of {self.log.root} has no index {name!r}; it has {known}", name=name
            )
        operation = CreateIndex(new_indices=(), removed_indices=tuple(dropped))
        transaction = Transaction(read_version=self.manifest.version, operation=operation)
        options = CommitOptions(
            storage_options=self.storage_options, is_first_try=True, progress=CommitProgress(line=self.line)
        )
        self.show(commit(self.log, transaction, options, known=self.manifest))
