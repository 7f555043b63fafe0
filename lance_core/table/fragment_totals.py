"""FragmentTotals: totals over all fragments of a version, without creating an object for each.

A manifest of ten thousand fragments is a message of ten thousand messages with messages inside. Protobuf decodes them
in a millisecond; creating a Python object for each takes ten times as long. The totals needed to open a table (format
versions, whether the rows were counted, the sums) are therefore read by column: if a message declared as singular
occurs several times, the decoder merges the occurrences, and its repeated fields contain the values of all.

A value of 0 is not on the wire. If a column has fewer values than there are messages, the missing ones are zeros; if it
matters which messages have zeros, the messages are read after all.

Source: protobuf's rules for messages that occur more than once; ``protos/columns.proto``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from operator import lt
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from lance_core.errors import CorruptDataError
from lance_core.proto import pb_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lance_core.proto import pb_table

__all__ = ["FragmentTotals", "VersionPair"]

VersionPair: TypeAlias = tuple[int, int]
"""``file_major_version`` and ``file_minor_version`` of a data file."""

_MAX_U32: Final = 2**32 - 1
_DEAD_FIELD: Final = b"\xfe" + b"\xff" * 8 + b"\x01"
"""-2 as it stands in ``DataFile.fields``."""


@dataclass(frozen=True, slots=True)
class FragmentTotals:
    """Totals over all fragments of a version, computed on request.

    Attributes:
        message: the manifest; the totals are those of the moment when they were made.
        columns: its fragments, merged.
        counts: the messages in them, not decoded.
        may_have_dead_fields: whether a data file may list a field as dead; False is certain.
    """

    message: pb_table.Manifest
    columns: pb_columns.FragmentColumns
    counts: pb_columns.FragmentCounts
    may_have_dead_fields: bool

    @classmethod
    def of(cls, message: pb_table.Manifest) -> Self:
        """Decode the fragments again, by column."""
        data = message.SerializeToString()
        columns = pb_columns.ManifestColumns.FromString(data).fragments
        counts = pb_columns.ManifestCounts.FromString(data).fragments
        return cls(message, columns, counts, _DEAD_FIELD in data)

    @property
    def num_fragments(self) -> int:
        """Fragments."""
        return len(self.message.fragments)

    @property
    def ascending_ids(self) -> Sequence[int] | None:
        """The ids of the fragments, if each is greater than the one before; None otherwise."""
        ids = self.columns.id
        # Of ascending ids only the first can be 0, which is not on the wire.
        begins_with_zero = self.num_fragments > 0 and self.message.fragments[0].id == 0
        found = [0, *ids] if begins_with_zero else list(ids)
        ascends = len(found) == self.num_fragments and all(map(lt, found, found[1:]))
        return found if ascends else None

    def check_ids(self) -> None:
        """Check the ids of the fragments: row addresses have 32 bits for one, and no two fragments share one.

        Raises:
            CorruptDataError: an id is too large, or occurs twice.
        """
        version, ids = self.message.version, self.columns.id
        highest = max(ids, default=0)
        if highest > _MAX_U32:
            raise CorruptDataError(
                f"version {version}: a fragment has id {highest}, expected at most {_MAX_U32}",
                expected=_MAX_U32,
                found=highest,
            )
        # An id of 0 is not on the wire.
        if len(set(ids)) < len(ids) or len(ids) < self.num_fragments - 1:
            found = Counter(fragment.id for fragment in self.message.fragments)
            repeated = min((fragment_id for fragment_id, times in found.items() if times > 1), default=None)
            if repeated is not None:
                raise CorruptDataError(
                    f"version {version}: the manifest lists two fragments with id {repeated}",
                    fragment=repeated,
                )

    @property
    def num_files(self) -> int:
        """Data files."""
        return len(self.counts.files)

    @property
    def file_bytes(self) -> int:
        """Recorded sizes of the data files, added up."""
        return sum(self.columns.files.file_size_bytes)

    @property
    def num_deletion_files(self) -> int:
        """Fragments with a deletion file."""
        return len(self.counts.deletion_files)

    @property
    def num_overlays(self) -> int:
        """Overlay files."""
        return len(self.counts.overlays)

    @property
    def has_spilled_lineage(self) -> bool:
        """Whether the row ids or versions of a fragment lie in a hidden column."""
        counts = self.counts
        return bool(
            counts.column_row_ids or counts.column_last_updated_at_versions or counts.column_created_at_versions
        )

    @property
    def physical_rows(self) -> int:
        """Rows in the data files, deleted ones included, as far as they were recorded."""
        return sum(self.columns.physical_rows)

    @property
    def deleted_rows(self) -> int:
        """Deleted rows, as far as they were recorded."""
        return sum(self.columns.deletion_files.num_deleted_rows)

    @property
    def counts_every_fragment(self) -> bool:
        """Whether every fragment is a count rows it has."""
        return _is_full(self.columns.physical_rows, self.num_fragments)

    @property
    def counts_every_deletion(self) -> bool:
        """Whether every deletion file is a count rows it lists."""
        return _is_full(self.columns.deletion_files.num_deleted_rows, self.num_deletion_files)

    @property
    def may_have_empty_fragments(self) -> bool:
        """Whether every row of a fragment may be deleted; False is certain."""
        deleted = self.columns.deletion_files.num_deleted_rows
        return max(deleted, default=0) >= min(self.columns.physical_rows, default=0)

    @property
    def num_live_rows(self) -> int | None:
        """Number of live rows; None if files must be read to determine it, or if it cannot be determined."""
        if not (self.counts_every_fragment and self.counts_every_deletion):
            return None
        found = self.physical_rows - self.deleted_rows
        return found if found >= 0 else None

    def version_pairs(self) -> frozenset[VersionPair]:
        """Return the version pairs of data files that occur."""
        majors = _distinct(self.columns.files.file_major_version, self.num_files)
        minors = _distinct(self.columns.files.file_minor_version, self.num_files)
        if len(majors) <= 1 and len(minors) <= 1:
            return frozenset(zip(majors, minors, strict=True))
        # Which major number goes with which minor one, only the files tell.
        files = (file for fragment in self.message.fragments for file in fragment.files)
        return frozenset((file.file_major_version, file.file_minor_version) for file in files)


def _is_full(column: Collection[int], num_messages: int) -> bool:
    return len(column) == num_messages and 0 not in column


def _distinct(column: Collection[int], num_messages: int) -> set[int]:
    """Return the values of a column, zeros that are not on the wire included."""
    return {*column, 0} if len(column) < num_messages else set(column)
