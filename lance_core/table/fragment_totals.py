"""FragmentTotals: totals over all fragments of a version, without creating an object for each fragment.

A manifest of ten thousand fragments contains ten thousand messages, each with nested messages. Protobuf decodes them in
a millisecond; creating a Python object for each takes ten times as long. The totals needed to open a table (format
versions, sums, and whether row counts are recorded) are therefore read by column. For this purpose,
``protos/columns.proto`` declares the fragment as a singular message: if a singular message occurs several times, the
decoder merges the occurrences, so that each repeated field contains the values of all fragments.

A value of 0 is not serialized. If a column has fewer values than there are messages, the missing values are zeros; if
it matters which messages have zeros, the messages themselves are read.

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
"""Serialized form of -2, which replaces the id of a field in ``DataFile.fields`` if its column is no longer read."""


@dataclass(frozen=True, slots=True)
class FragmentTotals:
    """Totals over all fragments of a version, computed on request.

    Attributes:
        message: the manifest; later changes to it do not affect the totals.
        columns: all fragments merged into one message, whose repeated fields contain the values of all fragments.
        counts: the nested messages of all fragments, not decoded, because they are only counted.
        may_have_dead_fields: whether a data file may list a field as dead; False means that none does.
    """

    message: pb_table.Manifest
    columns: pb_columns.FragmentColumns
    counts: pb_columns.FragmentCounts
    may_have_dead_fields: bool

    @classmethod
    def of(cls, message: pb_table.Manifest) -> Self:
        """Return the totals of a manifest; its fragments are serialized and decoded again, by column."""
        data = message.SerializeToString()
        columns = pb_columns.ManifestColumns.FromString(data).fragments
        counts = pb_columns.ManifestCounts.FromString(data).fragments
        return cls(message, columns, counts, _DEAD_FIELD in data)

    @property
    def num_fragments(self) -> int:
        """Number of fragments."""
        return len(self.message.fragments)

    @property
    def ascending_ids(self) -> Sequence[int] | None:
        """The ids of the fragments if they are in ascending order; None otherwise."""
        ids = self.columns.id
        # If ids ascend, only the first can be 0, which is not serialized.
        begins_with_zero = self.num_fragments > 0 and self.message.fragments[0].id == 0
        found = [0, *ids] if begins_with_zero else list(ids)
        ascends = len(found) == self.num_fragments and all(map(lt, found, found[1:]))
        return found if ascends else None

    def check_ids(self) -> None:
        """Check that the ids of the fragments are unique and have at most 32 bits, the size of an id in a row address.

        Raises:
            CorruptDataError: an id is too large, or occurs twice.
        """
        version, ids = self.message.version, self.columns.id
        highest = max(ids, default=0)
        if highest > _MAX_U32:
            raise CorruptDataError(
                f"version {version}: a fragment has id {highest}; the maximum is {_MAX_U32}",
                expected=_MAX_U32,
                found=highest,
            )
        # An id of 0 is not serialized.
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
        """Number of data files."""
        return len(self.counts.files)

    @property
    def file_bytes(self) -> int:
        """Sum of the recorded sizes of the data files in bytes."""
        return sum(self.columns.files.file_size_bytes)

    @property
    def num_deletion_files(self) -> int:
        """Number of fragments with a deletion file."""
        return len(self.counts.deletion_files)

    @property
    def num_overlays(self) -> int:
        """Number of overlay files."""
        return len(self.counts.overlays)

    @property
    def has_spilled_lineage(self) -> bool:
        """Whether any fragment stores its row ids or row versions in a hidden column."""
        counts = self.counts
        return bool(
            counts.column_row_ids or counts.column_last_updated_at_versions or counts.column_created_at_versions
        )

    @property
    def physical_rows(self) -> int:
        """Sum of the recorded numbers of rows in the data files, including deleted rows."""
        return sum(self.columns.physical_rows)

    @property
    def deleted_rows(self) -> int:
        """Sum of the recorded numbers of deleted rows."""
        return sum(self.columns.deletion_files.num_deleted_rows)

    @property
    def counts_every_fragment(self) -> bool:
        """Whether the number of rows is recorded for every fragment."""
        return _is_full(self.columns.physical_rows, self.num_fragments)

    @property
    def counts_every_deletion(self) -> bool:
        """Whether the number of deleted rows is recorded for every deletion file."""
        return _is_full(self.columns.deletion_files.num_deleted_rows, self.num_deletion_files)

    @property
    def may_have_empty_fragments(self) -> bool:
        """Whether there may be a fragment whose rows are all deleted; False means that there is none."""
        deleted = self.columns.deletion_files.num_deleted_rows
        return max(deleted, default=0) >= min(self.columns.physical_rows, default=0)

    @property
    def num_live_rows(self) -> int | None:
        """Number of live rows; None if files must be read to determine it, or if it cannot be determined."""
        if not (self.counts_every_fragment and self.counts_every_deletion):
            return None
        found = self.physical_rows - self.deleted_rows
        return found if found >= 0 else None

    @property
    def live_counts(self) -> Sequence[int] | None:
        """The number of live rows of each fragment; None if the fragments themselves must be examined."""
        is_known = self.counts_every_fragment and not self.num_deletion_files
        return list(self.columns.physical_rows) if is_known else None

    def version_pairs(self) -> frozenset[VersionPair]:
        """Return the pairs of major and minor format version that occur among the data files."""
        majors = _distinct(self.columns.files.file_major_version, self.num_files)
        minors = _distinct(self.columns.files.file_minor_version, self.num_files)
        if len(majors) <= 1 and len(minors) <= 1:
            return frozenset(zip(majors, minors, strict=True))
        # Which major number belongs to which minor number is recorded only in the files.
        files = (file for fragment in self.message.fragments for file in fragment.files)
        return frozenset((file.file_major_version, file.file_minor_version) for file in files)


def _is_full(column: Collection[int], num_messages: int) -> bool:
    return len(column) == num_messages and 0 not in column


def _distinct(column: Collection[int], num_messages: int) -> set[int]:
    """Return the distinct values of a column, including zeros that are not serialized."""
    return {*column, 0} if len(column) < num_messages else set(column)
