"""The index section: the indices of a version.

Indices are kept without being interpreted: a commit that does not move existing rows copies the section byte for byte.
An index covers the fragments in its bitmap; rows of other fragments are scanned. Therefore, a new fragment is simply
not indexed, and the id of a removed fragment in the bitmap is harmless.

Source: ``lance.table.IndexSection``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from lance_core.errors import CorruptDataError
from lance_core.proto import pb_table

if TYPE_CHECKING:
    from pyroaring import BitMap

__all__ = [
    "FRAGMENT_REUSE_INDEX",
    "MEM_WAL_INDEX",
    "IndexSummary",
    "is_system_index",
    "parse_index_section",
    "read_fragment_bitmap",
    "type_name",
]

FRAGMENT_REUSE_INDEX: Final = "__lance_frag_reuse"
"""System index: records where compactions moved rows, for indices that have not been rewritten yet."""

MEM_WAL_INDEX: Final = "__lance_mem_wal"
"""System index: records the shards of the write-ahead log and, for each shard, the newest generation that has been
compacted into the table."""

_SYSTEM_INDICES: Final = frozenset({FRAGMENT_REUSE_INDEX, MEM_WAL_INDEX})


def is_system_index(name: str) -> bool:
    """Return whether an index with this name is for internal use by the table and not for queries."""
    return name in _SYSTEM_INDICES


def type_name(index: pb_table.IndexMetadata) -> str:
    """Return the name of the message type of the index parameters, such as "BTreeIndexDetails"; empty if unknown."""
    return index.index_details.type_url.rpartition("/")[2].rpartition(".")[2]


def read_fragment_bitmap(index: pb_table.IndexMetadata) -> BitMap | None:
    """Return the fragments that an index covers, including removed ones; None if not recorded.

    Raises:
        CorruptDataError: the bitmap cannot be decoded.
    """
    return _bitmap(index.name, index.fragment_bitmap)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSummary:
    """Properties of an index that can be read without reading the index itself.

    Attributes:
        name: name of the index; all segments of an index have the same name.
        field_ids: ids of the indexed fields; empty for system indices.
        covering_field_ids: ids of other fields whose values the index also stores.
        fragment_bitmap: serialized Roaring bitmap of the fragments that the index covers; empty if not recorded
            (releases before 0.8 did not record it).
    """

    name: str
    field_ids: tuple[int, ...]
    covering_field_ids: tuple[int, ...]
    fragment_bitmap: bytes = b""

    @property
    def is_system(self) -> bool:
        """Whether the index is for internal use by the table and not for queries."""
        return is_system_index(self.name)

    def fragment_ids(self) -> BitMap | None:
        """Return the ids of the fragments that the index covers, including removed ones; None if not recorded.

        Raises:
            CorruptDataError: the bitmap cannot be decoded.
        """
        return _bitmap(self.name, self.fragment_bitmap)


def parse_index_section(section: bytes | None) -> tuple[IndexSummary, ...]:
    """Return the indices of a serialized ``IndexSection``; an empty tuple if ``section`` is None.

    Raises:
        CorruptDataError: the bytes are not an index section.
    """
    if section is None:
        return ()
    try:
        message = pb_table.IndexSection.FromString(section)
    except DecodeError as error:
        raise CorruptDataError(f"the index section cannot be decoded: {error}") from error
    return tuple(
        IndexSummary(
            name=index.name,
            field_ids=tuple(index.fields),
            covering_field_ids=tuple(index.covering_fields),
            fragment_bitmap=index.fragment_bitmap,
        )
        for index in message.indices
    )


def _bitmap(name: str, data: bytes) -> BitMap | None:
    # Imported on first use: few tables have an index.
    from pyroaring import BitMap

    if not data:
        return None
    try:
        return BitMap.deserialize(data)
    except (ValueError, IndexError, MemoryError) as error:
        raise CorruptDataError(f"index {name!r}: the fragment bitmap cannot be read: {error}") from error
