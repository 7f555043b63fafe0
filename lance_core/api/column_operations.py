"""Operations on values and columns of rows that are there, as users write them.

Source: names, arguments and defaults of pylance 14.0.2.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from lance_core.api.operation_base import BaseOperation, check_fragments
from lance_core.api.overlay_metadata import DataOverlayFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_core.api.fragment_metadata import DataFile, FragmentMetadata
    from lance_core.schema.field import Schema

__all__ = ["ColumnOperations"]


class ColumnOperations:
    """A part of :class:`~lance_core.api.operations.LanceOperation`."""

    @dataclass
    class Update(BaseOperation):
        """Change the values of rows.

        Attributes:
            removed_fragment_ids: fragments that lost every row.
            updated_fragments: fragments with new deletion files, or with columns stored anew.
            new_fragments: what holds moved and added rows. Where row ids are stable, ``row_id_meta`` gives those of the
                moved rows, which come first.
            fields_modified: ids of the fields that were stored anew in the updated fragments.
            fields_for_preserving_frag_bitmap: ids of the fields that changed in moved rows; an index on none of them
                may go on answering for those rows.
            update_mode: "rewrite_rows" or "rewrite_columns"; empty for the former.
            updated_fragment_offsets: the rows that changed in place, by fragment id, as serialized Roaring bitmaps.
            inserted_rows: a serialized ``KeyExistenceFilter`` of the primary keys that were added. Not in the
                reference's Python interface.
            compacted_sstables: (shard id, generation) of what was absorbed from the write-ahead log. Not in the
                reference's Python interface.
        """

        removed_fragment_ids: list[int] = field(default_factory=list)
        updated_fragments: list[FragmentMetadata] = field(default_factory=list)
        new_fragments: list[FragmentMetadata] = field(default_factory=list)
        fields_modified: list[int] = field(default_factory=list)
        fields_for_preserving_frag_bitmap: list[int] = field(default_factory=list)
        update_mode: str = ""
        updated_fragment_offsets: dict[int, bytes] | None = None
        inserted_rows: bytes | None = None
        compacted_sstables: list[tuple[str, int]] = field(default_factory=list)

        def __post_init__(self) -> None:
            """Check the argument types."""
            check_fragments(self.updated_fragments)
            check_fragments(self.new_fragments)

    @dataclass
    class Merge(BaseOperation):
        """Add columns, or store some anew.

        Attributes:
            fragments: every fragment of the dataset, as it is to be.
            schema: the schema then, with field ids. An Arrow schema gets them depth first from 0; deprecated.
            preserves_nullability: promises that no field became required; then rows that others append meanwhile,
                without the new columns, are right, and do not conflict.
        """

        fragments: Iterable[FragmentMetadata]
        schema: Schema | pa.Schema
        preserves_nullability: bool = False

        def __post_init__(self) -> None:
            """Check the argument types."""
            if isinstance(self.schema, pa.Schema):
                warnings.warn(
                    "Passing a pyarrow.Schema to Merge is deprecated; pass a Schema, which has field ids",
                    DeprecationWarning,
                    stacklevel=3,
                )
            check_fragments(self.fragments)

    @dataclass
    class Project(BaseOperation):
        """Drop, rename or move columns.

        Attributes:
            schema: the fields that stay, with their ids.
            preserves_nullability: promises that no field became required, so that rows which others write meanwhile do
                not conflict.
        """

        schema: Schema
        preserves_nullability: bool = False

    @dataclass
    class DataReplacementGroup:
        """A new data file for a fragment.

        Attributes:
            fragment_id: the fragment.
            new_file: holds the same fields as the file whose place it takes.
        """

        fragment_id: int
        new_file: DataFile

    @dataclass
    class DataReplacement(BaseOperation):
        """Exchange data files.

        Attributes:
            replacements: the new files.
        """

        replacements: list[ColumnOperations.DataReplacementGroup]

    DataOverlayFile: TypeAlias = DataOverlayFile

    @dataclass
    class DataOverlayGroup:
        """Overlays of one fragment.

        Attributes:
            fragment_id: the fragment.
            overlays: oldest first.
        """

        fragment_id: int
        overlays: list[DataOverlayFile]

    @dataclass
    class DataOverlay(BaseOperation):
        """Lay newer values of single cells over fragments.

        Experimental in the reference, and here: the environment variable
        ``LANCE_ENABLE_UNSTABLE_DATA_OVERLAY_FILES`` must be set.

        Attributes:
            groups: by fragment.
        """

        groups: list[ColumnOperations.DataOverlayGroup]
