"""Rewrite: put the same rows into other fragments. Compaction is the usual reason.

Groups say which new fragments hold the rows of which old ones. A new fragment keeps an id that was reserved for it; id
0 stands for "give it one at commit". Both sides of a group have the same live rows; where rows have stable ids, the new
fragments bring them along.

Indices are copied as they are: the old fragments vanish from what they answer for, the new ones are scanned. That is
correct for every kind of index, while an index that claimed the new fragments without having been rebuilt would not
be. Who does rebuild indices says so in the operation (:mod:`~lance_core.table.rewritten_indices`).

A table that defers the remapping of its indices keeps a list of rewrites that this library does not write; rewriting
there is refused.

Source: ``lance.table.Transaction.Rewrite``; behaviour of pylance 14.0.2.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Self

from lance_core.errors import InvalidInputError, NotSupportedError
from lance_core.proto import pb_transaction
from lance_core.table.feature_flags import require_writable
from lance_core.table.fragment import Fragment
from lance_core.table.index_metadata import parse_index_section
from lance_core.table.manifest_draft import ManifestDraft
from lance_core.table.rewritten_indices import with_rewritten_indices
from lance_core.transactions.operations.fragment_rules import check_new_fragments

if TYPE_CHECKING:
    from lance_core.table.manifest import Manifest

__all__ = ["Rewrite", "RewriteGroup"]

_FRAGMENT_REUSE_INDEX: Final = "__lance_frag_reuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteGroup:
    """Fragments that were rewritten together.

    Attributes:
        old_fragments: as they were when their rows were read.
        new_fragments: what holds the rows now; none when every row was deleted.
    """

    old_fragments: tuple[Fragment, ...]
    new_fragments: tuple[Fragment, ...]

    @classmethod
    def from_proto(cls, message: pb_transaction.Transaction.Rewrite.RewriteGroup) -> Self:
        """Parse the message."""
        return cls(
            old_fragments=tuple(map(Fragment, message.old_fragments)),
            new_fragments=tuple(map(Fragment, message.new_fragments)),
        )

    def to_proto(self) -> pb_transaction.Transaction.Rewrite.RewriteGroup:
        """The message; the inverse of :meth:`from_proto`."""
        return pb_transaction.Transaction.Rewrite.RewriteGroup(
            old_fragments=[fragment.message for fragment in self.old_fragments],
            new_fragments=[fragment.message for fragment in self.new_fragments],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Rearrange rows.

    Attributes:
        groups: what replaces what.
        rewritten_indices: indices whose row addresses were rewritten.
    """

    arm: ClassVar[str] = "rewrite"

    groups: tuple[RewriteGroup, ...]
    rewritten_indices: tuple[pb_transaction.Transaction.Rewrite.RewrittenIndex, ...] = ()

    @classmethod
    def from_proto(cls, message: pb_transaction.Transaction.Rewrite) -> Self:
        """Parse the message. The fragments of releases without groups count as one group."""
        groups = tuple(map(RewriteGroup.from_proto, message.groups))
        if message.old_fragments or message.new_fragments:
            ungrouped = pb_transaction.Transaction.Rewrite.RewriteGroup(
                old_fragments=message.old_fragments, new_fragments=message.new_fragments
            )
            groups = (RewriteGroup.from_proto(ungrouped), *groups)
        return cls(groups=groups, rewritten_indices=tuple(message.rewritten_indices))

    def to_proto(self) -> pb_transaction.Transaction.Rewrite:
        """The message; the inverse of :meth:`from_proto`."""
        return pb_transaction.Transaction.Rewrite(
            groups=[group.to_proto() for group in self.groups], rewritten_indices=self.rewritten_indices
        )

    @property
    def old_fragments(self) -> tuple[Fragment, ...]:
        """What is replaced, over all groups."""
        return tuple(fragment for group in self.groups for fragment in group.old_fragments)

    @property
    def new_fragments(self) -> tuple[Fragment, ...]:
        """What replaces it, over all groups."""
        return tuple(fragment for group in self.groups for fragment in group.new_fragments)

    def touched_fragments(self) -> frozenset[int]:
        """Ids of the fragments that are replaced."""
        return frozenset(fragment.id for fragment in self.old_fragments)

    def apply(self, current: Manifest) -> ManifestDraft:
        """The version after ``current``.

        Raises:
            UnsupportedFeatureFlagError: the table needs a feature that this library cannot write.
            NotSupportedError: the table defers the remapping of its indices.
            InvalidInputError: an old fragment is not in the table as it was read, the rows of a group's two sides
                differ in number, a new fragment does not fit the table, or a rewritten index does not fit the groups.
        """
        require_writable(current.message)
        self._check_indices(current)
        self._check_old_fragments(current)
        for index, group in enumerate(self.groups):
            _check_rows(group, index)
        check_new_fragments(
            self.new_fragments,
            field_ids={field.id for field in current.message.fields},
            base_ids={base.id for base in current.message.base_paths},
            file_version=current.file_version,
            carries_row_ids=current.has_stable_row_ids,
        )
        draft = ManifestDraft(current)
        draft.remove_fragments(self.touched_fragments().intersection(each.id for each in current.message.fragments))
        draft.add_rewritten_fragments(self.new_fragments)
        groups = [
            ([old.id for old in group.old_fragments], [new.id for new in group.new_fragments]) for group in self.groups
        ]
        draft.set_index_section(with_rewritten_indices(draft.index_section, self.rewritten_indices, groups))
        return draft

    def _check_indices(self, current: Manifest) -> None:
        names = {index.name for index in parse_index_section(current.index_section)}
        if _FRAGMENT_REUSE_INDEX in names and len(names) > 1:
            raise NotSupportedError(
                f"version {current.version} defers the remapping of its indices ({_FRAGMENT_REUSE_INDEX}); rewriting "
                "its fragments is not supported"
            )

    def _check_old_fragments(self, current: Manifest) -> None:
        repeated = [
            fragment_id for fragment_id, count in Counter(f.id for f in self.old_fragments).items() if count > 1
        ]
        if repeated:
            raise InvalidInputError(f"fragment {repeated[0]} is rewritten twice")
        present = {fragment.id: fragment for fragment in current.message.fragments}
        for fragment in self.old_fragments:
            found = present.get(fragment.id)
            if found is None and not fragment.num_live_rows:
                # Any commit drops a fragment without live rows, the reservation of ids for this one too.
                continue
            if found is None:
                raise InvalidInputError(f"rewritten fragment {fragment.id} is not in version {current.version}")
            if found.deletion_file != fragment.message.deletion_file or found.physical_rows not in (
                0,
                fragment.message.physical_rows,
            ):
                raise InvalidInputError(
                    f"rewritten fragment {fragment.id} has other rows in version {current.version} than were read"
                )


def _check_rows(group: RewriteGroup, index: int) -> None:
    """Both sides have the same number of live rows, where the deletion files say how many they list."""
    if any(f.deletion_file is not None and not f.deletion_file.num_deleted_rows for f in group.old_fragments):
        return
    expected = sum(fragment.num_live_rows for fragment in group.old_fragments)
    found = sum(fragment.num_live_rows for fragment in group.new_fragments)
    if expected != found:
        raise InvalidInputError(
            f"rewrite group {index}: the old fragments have {expected} rows, the new ones {found}",
            expected=expected,
            found=found,
        )
