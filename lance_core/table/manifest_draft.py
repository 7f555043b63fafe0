"""ManifestDraft: the next version of a table while an operation builds it.

A draft starts as a copy of the previous version. The operation makes its changes; ``seal`` sets the values that every
commit sets (version, time, flags, writer, transaction) and serializes the manifest.

Every commit removes fragments without live rows.

Ids only increase: fragment ids continue after the highest id ever used, and row ids after the highest id ever assigned,
even if every fragment is replaced.

Source: ``lance.table.Manifest``; the values that pylance 14.0.2 keeps or resets when it commits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from lance_core.errors import InvalidInputError
from lance_core.table.draft_content import DraftContent
from lance_core.table.feature_flags import derive_flags
from lance_core.table.fragment_files import drop_dead_files
from lance_core.table.manifest import Manifest
from lance_core.table.manifest_file import is_kept_inline, serialize_manifest_file
from lance_core.table.moved_rows import place_moved_rows
from lance_core.table.overlay_files import drop_dead_overlays
from lance_core.table.row_ids import give_row_ids
from lance_core.table.row_lineage import HiddenColumns, no_hidden_columns
from lance_core.wording import counted, shown_list

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from lance_core.proto import pb_table
    from lance_core.table.fragment import Fragment
    from lance_core.table.fragment_totals import FragmentTotals

__all__ = ["WRITER_LIBRARY", "WRITER_VERSION", "ManifestDraft", "SealedManifest"]

WRITER_LIBRARY: Final = "lance-pipelines"
WRITER_VERSION: Final = "0.1.0"

_MAX_U32: Final = 2**32 - 1
_NANOSECONDS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class SealedManifest:
    """A manifest ready to be committed.

    Attributes:
        manifest: the parsed manifest.
        data: the content of the manifest file.
    """

    manifest: Manifest
    data: bytes


class ManifestDraft(DraftContent):
    """The version that follows ``previous``, while it is being built.

    Args:
        previous: the previous version; :meth:`Manifest.empty` for a new table.
        content: the version whose content the draft starts from; if None, ``previous``. Each counter starts with the
            higher of its values in ``content`` and ``previous``. A sticky flag is set if either version has it.

    Raises:
        CorruptDataError: the version to start from lists two fragments with the same id, or an id of more than 32 bits.
    """

    def __init__(self, previous: Manifest, *, content: Manifest | None = None) -> None:
        """Copy the content and increment the version."""
        super().__init__(previous if content is None else content, previous.version + 1)
        self._previous = previous
        if content is not None:
            self._catch_up(previous.message)
        self._next_fragment_id = self._sort_fragments()

    def append_fragments(self, fragments: Iterable[Fragment]) -> None:
        """Add new fragments; assign the next id to each, and row ids if the table has them."""
        for fragment in fragments:
            added = self._message.fragments.add()
            added.CopyFrom(fragment.message)
            added.id = self._take_fragment_ids(1)
            if self._content.has_stable_row_ids:
                self._message.next_row_id = give_row_ids(
                    added, first_row_id=self._message.next_row_id, version=self.version
                )

    def append_moved_fragments(
        self,
        fragments: Iterable[Fragment],
        sources: Sequence[pb_table.DataFragment],
        *,
        keeps_ids: bool = False,
        hidden: HiddenColumns = no_hidden_columns,
    ) -> list[int]:
        """Add new fragments that may begin with rows moved from other fragments; moved rows keep their row ids.

        Args:
            fragments: the new fragments.
            sources: the fragments that may have contained the moved rows, in the order in which they are searched.
            keeps_ids: whether a new fragment whose id is not 0 keeps this id.
            hidden: function that reads hidden columns of the sources and of the new fragments.

        Returns:
            The ids of the new fragments.

        Raises:
            InvalidInputError: a fragment id is already in use, or a row id was never assigned.
        """
        ids = []
        for fragment in fragments:
            fragment_id = fragment.id if keeps_ids and fragment.id else self._next_fragment_id
            if fragment_id < self._next_fragment_id:
                raise InvalidInputError(f"new fragment id {fragment_id} is already in use or reserved")
            self._take_fragment_ids(fragment_id + 1 - self._next_fragment_id)
            added = self._message.fragments.add()
            added.CopyFrom(fragment.message)
            added.id = fragment_id
            if self._content.has_stable_row_ids:
                self._message.next_row_id = place_moved_rows(
                    added, sources, first_row_id=self._message.next_row_id, version=self.version, hidden=hidden
                )
            ids.append(fragment_id)
        return ids

    def add_rewritten_fragments(self, fragments: Iterable[Fragment]) -> None:
        """Add fragments that contain existing rows of the table; row ids and nonzero fragment ids are kept.

        Raises:
            InvalidInputError: a fragment id is already in use, or occurs twice.
        """
        present = {fragment.id for fragment in self._message.fragments}
        reserved = [fragment.id for fragment in fragments if fragment.id]
        if len(present.union(reserved)) != len(present) + len(reserved):
            raise InvalidInputError(f"new fragment ids must be unused and unique, found {shown_list(reserved)}")
        if reserved and max(reserved) >= self._next_fragment_id:
            self._take_fragment_ids(max(reserved) + 1 - self._next_fragment_id)
        for fragment in fragments:
            added = self._message.fragments.add()
            added.CopyFrom(fragment.message)
            added.id = fragment.id or self._take_fragment_ids(1)
        self._message.fragments.sort(key=lambda message: message.id)

    def reserve_fragment_ids(self, num_fragments: int) -> None:
        """Mark the next fragment ids as used without adding fragments."""
        self._take_fragment_ids(num_fragments)

    def remove_fragments(self, fragment_ids: Collection[int]) -> None:
        """Remove fragments.

        Raises:
            InvalidInputError: a fragment does not exist.
        """
        self._require_present(fragment_ids)
        removed = set(fragment_ids)
        self._keep_fragments(fragment for fragment in self._message.fragments if fragment.id not in removed)

    def set_deletions(self, deleted: Mapping[int, pb_table.DataFragment]) -> None:
        """Set the deletion files of fragments to those in ``deleted``, which maps fragment ids to fragments.

        Raises:
            InvalidInputError: a fragment does not exist, or its number of rows differs from that in ``deleted``.
        """
        self._require_present(deleted)
        for fragment in self._message.fragments:
            update = deleted.get(fragment.id)
            if update is None:
                continue
            if fragment.physical_rows == 0:
                # Early releases did not record the number of rows.
                fragment.physical_rows = update.physical_rows
            if update.physical_rows != fragment.physical_rows:
                raise InvalidInputError(
                    f"fragment {fragment.id} has {counted(fragment.physical_rows, 'row')} in version "
                    f"{self._previous.version}, "
                    f"but the operation records {update.physical_rows}",
                    expected=fragment.physical_rows,
                    found=update.physical_rows,
                )
            fragment.deletion_file.CopyFrom(update.deletion_file)

    def replace_fragments(self, changed: Mapping[int, pb_table.DataFragment]) -> None:
        """Replace fragments with fragments that have the same ids.

        Raises:
            InvalidInputError: a fragment does not exist.
        """
        self._require_present(changed)
        for fragment in self._message.fragments:
            if fragment.id in changed:
                fragment.CopyFrom(changed[fragment.id])

    def set_row_counts(self, counts: Mapping[int, int]) -> None:
        """Record row counts, including deleted rows; ``counts`` maps fragment ids to numbers of rows."""
        for fragment in self._message.fragments:
            fragment.physical_rows = counts.get(fragment.id, fragment.physical_rows)

    def drop_fragments(self) -> None:
        """Remove every fragment. The id counters are not reset."""
        del self._message.fragments[:]

    def drop_dead_files(self) -> None:
        """Remove data files and overlays that contain no field of the schema, except a fragment's last file."""
        field_ids = {field.id for field in self._message.fields}
        for fragment in self._message.fragments:
            drop_dead_files(fragment, field_ids)
            drop_dead_overlays(fragment, field_ids)

    def drop_base_paths(self) -> None:
        """Remove every base path."""
        del self._message.base_paths[:]

    def seal(self, *, transaction: bytes, transaction_file: str, timestamp_ns: int) -> SealedManifest:
        """Set the values that every commit sets, and serialize the manifest. The draft must not be used afterward.

        Args:
            transaction: the serialized transaction; stored inline unless it is larger than 20 MiB.
            transaction_file: file name of the transaction below ``_transactions/``.
            timestamp_ns: commit time in nanoseconds since the epoch.
        """
        message = self._message
        inline = transaction if is_kept_inline(transaction) else None
        manifest = Manifest(
            message=message,
            naming=self._previous.naming,
            index_section=self._index_section,
            transaction=inline,
            dictionaries=self._dictionaries,
        )
        if self._drop_unneeded(manifest.totals):
            # A copy does not contain the totals, which have changed.
            manifest = replace(manifest)
        message.transaction_file = transaction_file
        message.timestamp.seconds, message.timestamp.nanos = divmod(timestamp_ns, _NANOSECONDS)
        message.writer_version.Clear()
        message.writer_version.library = WRITER_LIBRARY
        message.writer_version.version = WRITER_VERSION
        message.version_aux_data = 0
        message.tag = ""
        message.reader_feature_flags, message.writer_feature_flags = derive_flags(
            message,
            manifest.totals,
            index_section=self._index_section,
            stable_row_ids=self._content.has_stable_row_ids,
            previous=message,
        )
        data = serialize_manifest_file(
            message, index_section=self._index_section, transaction=inline, dictionaries=self._dictionaries
        )
        return SealedManifest(manifest, data)

    def _drop_unneeded(self, totals: FragmentTotals) -> bool:
        """Remove fragments without live rows and data files without live fields; return whether there may be any."""
        if totals.may_have_empty_fragments:
            self._keep_fragments(fragment for fragment in self._message.fragments if not _is_empty(fragment))
        if totals.may_have_dead_fields:
            for fragment in self._message.fragments:
                drop_dead_files(fragment)
        return totals.may_have_empty_fragments or totals.may_have_dead_fields

    def _take_fragment_ids(self, num_ids: int) -> int:
        """Mark ids as used and return the first of them."""
        first = self._next_fragment_id
        last = first + num_ids - 1
        if last > _MAX_U32:
            raise InvalidInputError(f"fragment id {last} does not fit in 32 bits")
        self._next_fragment_id = last + 1
        self._message.max_fragment_id = last
        return first

    def _require_present(self, fragment_ids: Iterable[int]) -> None:
        missing = set(fragment_ids).difference(fragment.id for fragment in self._message.fragments)
        if missing:
            raise InvalidInputError(f"fragment {min(missing)} is not in version {self._previous.version}")

    def _keep_fragments(self, fragments: Iterable[pb_table.DataFragment]) -> None:
        kept = list(fragments)
        if len(kept) != len(self._message.fragments):
            del self._message.fragments[:]
            self._message.fragments.extend(kept)

    def _catch_up(self, previous: pb_table.Manifest) -> None:
        """Merge the counters and sticky flags of the previous version into the draft."""
        message = self._message
        for counter in ("max_fragment_id", "max_allocated_field_id"):
            if previous.HasField(counter):
                setattr(message, counter, max(getattr(message, counter), getattr(previous, counter)))
        message.next_row_id = max(message.next_row_id, previous.next_row_id)
        message.reader_feature_flags |= previous.reader_feature_flags
        message.writer_feature_flags |= previous.writer_feature_flags

    def _sort_fragments(self) -> int:
        """Sort the fragments by id and return the next free id."""
        totals = self._content.totals
        totals.check_ids()
        if totals.ascending_ids is None:
            self._message.fragments.sort(key=lambda fragment: fragment.id)
        highest = self._message.fragments[-1].id if self._message.fragments else -1
        if self._message.HasField("max_fragment_id"):
            highest = max(highest, self._message.max_fragment_id)
        if highest >= 0:
            # Early releases did not record this counter; new versions do.
            self._message.max_fragment_id = highest
        return highest + 1


def _is_empty(fragment: pb_table.DataFragment) -> bool:
    """Return whether every row is deleted; False if an early release did not record the number of rows."""
    return 0 < fragment.physical_rows == fragment.deletion_file.num_deleted_rows
