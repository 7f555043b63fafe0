"""Operations on what belongs to a dataset besides its rows, as users write them.

Source: names, arguments and defaults of pylance 14.0.2, where it has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_core.api.operation_base import BaseOperation

if TYPE_CHECKING:
    from lance_core.api.dataset_base_path import DatasetBasePath
    from lance_core.api.index_records import Index

__all__ = ["TableOperations"]


class TableOperations:
    """A part of :class:`~lance_core.api.operations.LanceOperation`."""

    @dataclass
    class CreateIndex(BaseOperation):
        """Add, replace or drop indices.

        Attributes:
            new_indices: what to add; their files are written already.
            removed_indices: what to drop, matched by uuid.
        """

        new_indices: list[Index]
        removed_indices: list[Index]

    @dataclass
    class Clone(BaseOperation):
        """Start a dataset as a copy of another. Only a shallow clone can be committed.

        Attributes:
            is_shallow: whether it refers to the source's files.
            ref_name: branch of the source; None for main.
            ref_version: version of the source.
            ref_path: where the source is.
            branch_name: which branch it is; None for a dataset of its own.
        """

        is_shallow: bool
        ref_name: str | None
        ref_version: int
        ref_path: str
        branch_name: str | None

    @dataclass
    class UpdateBases(BaseOperation):
        """Add base paths. Not in the reference's Python interface, which has ``add_bases`` for it.

        Attributes:
            new_bases: the base paths.
        """

        new_bases: list[DatasetBasePath]

    @dataclass
    class UpdateMemWalState(BaseOperation):
        """Record what was absorbed from the write-ahead log. Not in the reference's Python interface.

        Attributes:
            compacted_sstables: (shard id, generation) of each.
        """

        compacted_sstables: list[tuple[str, int]]
