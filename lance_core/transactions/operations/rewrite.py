"""Rewrite: move rows to other fragments without changing them, usually in a compaction.

Each group records old fragments and the new fragments that contain their rows. A new fragment keeps an id that was
reserved for it; id 0 means "assign one at commit". The old and the new fragments of a group have the same live rows; if
row ids are stable, the new fragments contain the ids of their rows.

An index that contains row addresses is copied unchanged: the old fragments that it covers no longer exist, and the new
fragments are scanned. If it listed the new fragments without being rebuilt, searches would return wrong rows. If row
ids are stable, an index that contains row ids still finds its rows, so the new fragments of a group are added to it if
it covers all old ones. The index keeps the old ones, too, because they cause pylance to check which ids of a vector
index still exist. Indices that were rebuilt are listed in the operation (:mod:`~lance_core.table.rewritten_indices`).

A table that defers the remapping of its indices keeps a list of its rewrites. This library does not write this list,
and therefore rejects rewrites of such a table.

Source: ``lance.table.Transaction.Rewrite``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

import uuid as uuid_module
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final, Self

from lance_core.errors import CorruptDataError, InvalidInputError, NotSupportedError
from lance_core.proto import pb_table, pb_transaction
from lance_core.public.arguments import checked_number, checked_text
from lance_core.public.fragment_conversion import fragment_records, shown_fragments
from lance_core.table.feature_flags import require_writable
from lance_core.table.index_metadata import parse_index_section
from lance_core.table.index_rules import with_moved_fragments
from lance_core.table.manifest_draft import ManifestDraft
from lance_core.table.rewritten_indices import with_rewritten_indices
from lance_core.transactions.operations.fragment_rules import check_new_fragments
from lance_core.transactions.operations.operation import ApplyContext, BaseOperation, Operation, check_fragments, named
from lance_core.transactions.operations.parts import RewriteGroup
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_core.public.fragment_metadata import FragmentMetadata
    from lance_core.table.fragment import Fragment
    from lance_core.table.manifest import Manifest

__all__ = ["PublicRewrite", "PublicRewriteGroup", "PublicRewrittenIndex", "Rewrite"]

_FRAGMENT_REUSE_INDEX: Final = "__lance_frag_reuse"


@named("RewriteGroup")
@dataclass
class PublicRewriteGroup:
    """Old fragments, and the new fragments that replace them.

    Attributes:
        old_fragments: the fragments as they were when their rows were read.
        new_fragments: the fragments that contain the rows now. Id 0 means "assign one at commit"; other ids were
            reserved.
    """

    old_fragments: Iterable[FragmentMetadata]
    new_fragments: Iterable[FragmentMetadata]


@named("RewrittenIndex")
@dataclass
class PublicRewrittenIndex:
    """An index whose row addresses were rewritten: a new index that replaces the old one.

    Attributes:
        old_id: UUID of the replaced index.
        new_id: UUID of its successor.
        new_details_type_url: the kind of index; ignored, because the table keeps the value of the old index.
        new_details_value: the serialized parameters of the index; ignored for the same reason.
        new_index_version: the version of the index format; ignored for the same reason.
    """

    old_id: str
    new_id: str
    new_details_type_url: str
    new_details_value: bytes
    new_index_version: int


@named("Rewrite")
@dataclass
class PublicRewrite(BaseOperation):
    """Move rows to other fragments without changing them.

    Attributes:
        groups: the groups of old fragments and the new fragments that replace them.
        rewritten_indices: the indices that were also rewritten; other indices do not cover the new fragments.
    """

    groups: Iterable[PublicRewriteGroup]
    rewritten_indices: Iterable[PublicRewrittenIndex]

    def __post_init__(self) -> None:
        """Check the argument types."""
        groups = list(self.groups)
        check_fragments([fragment for group in groups for fragment in group.old_fragments])
        check_fragments([fragment for group in groups for fragment in group.new_fragments])

    def to_record(self) -> Rewrite:
        """Return the internal form of the operation."""
        return Rewrite(
            groups=tuple(
                RewriteGroup(
                    old_fragments=fragment_records(group.old_fragments),
                    new_fragments=fragment_records(group.new_fragments),
                )
                for group in self.groups
            ),
            rewritten_indices=tuple(map(_index_to_core, self.rewritten_indices)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite(Operation):
    """Move rows to other fragments.

    Attributes:
        groups: the groups of old fragments and the new fragments that replace them.
        rewritten_indices: the indices whose row addresses were rewritten.
    """

    arm: ClassVar[str] = "rewrite"
    may_change_rows: ClassVar[bool] = False

    groups: tuple[RewriteGroup, ...]
    rewritten_indices: tuple[pb_transaction.Transaction.Rewrite.RewrittenIndex, ...] = ()

    @classmethod
    def from_proto(cls, message: pb_transaction.Transaction.Rewrite) -> Self:
        """Parse the protobuf message. Fragments that were recorded by releases without groups form one group."""
        groups = tuple(map(RewriteGroup.from_proto, message.groups))
        if message.old_fragments or message.new_fragments:
            ungrouped = pb_transaction.Transaction.Rewrite.RewriteGroup(
                old_fragments=message.old_fragments, new_fragments=message.new_fragments
            )
            groups = (RewriteGroup.from_proto(ungrouped), *groups)
        return cls(groups=groups, rewritten_indices=tuple(message.rewritten_indices))

    def to_proto(self) -> pb_transaction.Transaction.Rewrite:
        """Return the protobuf message; the inverse of :meth:`from_proto`."""
        return pb_transaction.Transaction.Rewrite(
            groups=[group.to_proto() for group in self.groups], rewritten_indices=self.rewritten_indices
        )

    @property
    def old_fragments(self) -> tuple[Fragment, ...]:
        """The replaced fragments of all groups."""
        return tuple(fragment for group in self.groups for fragment in group.old_fragments)

    @property
    def new_fragments(self) -> tuple[Fragment, ...]:
        """The new fragments of all groups."""
        return tuple(fragment for group in self.groups for fragment in group.new_fragments)

    def touched_fragments(self) -> frozenset[int]:
        """Return the ids of the replaced fragments."""
        return frozenset(fragment.id for fragment in self.old_fragments)

    def added_fragments(self) -> tuple[Fragment, ...]:
        """Return the new fragments."""
        return self.new_fragments

    def rewritten_groups(self) -> tuple[RewriteGroup, ...]:
        """Return all groups."""
        return self.groups

    def rebuilt_indices(self) -> tuple[pb_transaction.Transaction.Rewrite.RewrittenIndex, ...]:
        """Return all rewritten indices."""
        return self.rewritten_indices

    def with_rebuilt_indices(self, indices: tuple[pb_transaction.Transaction.Rewrite.RewrittenIndex, ...]) -> Self:
        """Return the rewrite with the given index records."""
        return replace(self, rewritten_indices=indices)

    def to_public(self) -> PublicRewrite:
        """Return the public form of the operation."""
        return PublicRewrite(
            [
                PublicRewriteGroup(shown_fragments(group.old_fragments), shown_fragments(group.new_fragments))
                for group in self.groups
            ],
            [_index_from_core(index) for index in self.rewritten_indices],
        )

    def apply(self, context: ApplyContext) -> ManifestDraft:
        """Build the version after ``context.current``.

        Raises:
            UnsupportedFeatureFlagError: the table needs a feature that this library cannot write.
            NotSupportedError: the table defers the remapping of its indices.
            InvalidInputError: an old fragment is not in the table or has changed, the old and the new fragments of a
                group have different numbers of rows, a new fragment is incompatible with the table, or a rewritten
                index is incompatible with the groups.
        """
        current = context.current
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
        section = with_rewritten_indices(draft.index_section, self.rewritten_indices, groups)
        if current.has_stable_row_ids:
            for old_ids, new_ids in groups:
                if 0 not in new_ids:
                    section = with_moved_fragments(section, new_ids=new_ids, source_ids=old_ids, field_ids=())
        draft.set_index_section(section)
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
                # Any commit drops a fragment without live rows, including the one that reserved ids for this rewrite.
                continue
            if found is None:
                raise InvalidInputError(
                    f"cannot rewrite fragment {fragment.id}: it is not in version {current.version}"
                )
            if found.deletion_file != fragment.message.deletion_file or found.physical_rows not in (
                0,
                fragment.message.physical_rows,
            ):
                raise InvalidInputError(
                    f"cannot rewrite fragment {fragment.id}: its rows in version {current.version} differ from those "
                    "that were read"
                )


def _check_rows(group: RewriteGroup, index: int) -> None:
    """Check that the old and the new fragments of a group have equally many live rows, if the numbers are recorded."""
    if any(f.deletion_file is not None and not f.deletion_file.num_deleted_rows for f in group.old_fragments):
        return
    expected = sum(fragment.num_live_rows for fragment in group.old_fragments)
    found = sum(fragment.num_live_rows for fragment in group.new_fragments)
    if expected != found:
        raise InvalidInputError(
            f"rewrite group {index}: the old fragments have {counted(expected, 'live row')}, but the new fragments "
            f"have {found}",
            expected=expected,
            found=found,
        )


def _index_to_core(index: PublicRewrittenIndex) -> pb_transaction.Transaction.Rewrite.RewrittenIndex:
    try:
        old_id, new_id = (uuid_module.UUID(text).bytes for text in (index.old_id, index.new_id))
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidInputError(
            f"the ids of a rewritten index are not UUIDs: {index.old_id!r}, {index.new_id!r}"
        ) from error
    message = pb_transaction.Transaction.Rewrite.RewrittenIndex(
        old_id=pb_table.UUID(uuid=old_id),
        new_id=pb_table.UUID(uuid=new_id),
        new_index_version=checked_number("new_index_version", index.new_index_version, 0, 2**32),
    )
    message.new_index_details.type_url = checked_text("new_details_type_url", index.new_details_type_url)
    message.new_index_details.value = index.new_details_value
    return message


def _index_from_core(message: pb_transaction.Transaction.Rewrite.RewrittenIndex) -> PublicRewrittenIndex:
    try:
        old_id, new_id = (str(uuid_module.UUID(bytes=id.uuid)) for id in (message.old_id, message.new_id))
    except ValueError as error:
        raise CorruptDataError(f"the ids of a rewritten index are not UUIDs: {error}") from error
    return PublicRewrittenIndex(
        old_id=old_id,
        new_id=new_id,
        new_details_type_url=message.new_index_details.type_url,
        new_details_value=message.new_index_details.value,
        new_index_version=message.new_index_version,
    )
