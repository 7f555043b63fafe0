"""Clone: start a table as a copy of another table. A clone always creates the first version of a root.

A shallow clone refers to the files of its source: it lists the source as a base path, and every data file, deletion
file and index in the source's own root then refers to that base. Files in other locations keep their base, so that a
clone of a clone lists two base paths. The first version of the clone has the same number as the cloned version. A
branch is a shallow clone below ``tree/`` that records the name of the branch.

A deep clone has its own copies of all files and no base paths. This module does not copy files; the caller sets
``is_copied`` after copying them.

Source: ``lance.table.Transaction.Clone``; clones and branches of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from lance_core.errors import InternalError, NotSupportedError
from lance_core.proto import pb_table, pb_transaction
from lance_core.public.arguments import checked_number, checked_text
from lance_core.table.feature_flags import require_writable
from lance_core.table.index_rules import decode_index_section
from lance_core.table.manifest import Manifest
from lance_core.table.manifest_draft import ManifestDraft
from lance_core.transactions.operations.operation import ApplyContext, BaseOperation, NewTable, Operation, named

__all__ = ["Clone", "PublicClone"]


@named("Clone")
@dataclass
class PublicClone(BaseOperation):
    """Start a dataset as a copy of another dataset. Only a shallow clone can be committed.

    Attributes:
        is_shallow: whether the clone refers to the source's files.
        ref_name: the branch of the source; None for the main branch.
        ref_version: the version of the source.
        ref_path: the root of the source.
        branch_name: the name of the new branch; None for an independent dataset.
    """

    is_shallow: bool
    ref_name: str | None
    ref_version: int
    ref_path: str
    branch_name: str | None

    def to_record(self) -> Clone:
        """Return the internal form of the operation."""
        return Clone(
            is_shallow=bool(self.is_shallow),
            ref_name=None if self.ref_name is None else checked_text("ref_name", self.ref_name),
            ref_version=checked_number("ref_version", self.ref_version, 1, 2**63),
            ref_path=checked_text("ref_path", self.ref_path),
            branch_name=None if self.branch_name is None else checked_text("branch_name", self.branch_name),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Clone(Operation):
    """Copy a version of another table.

    Attributes:
        is_shallow: whether the clone refers to the source's files instead of copying them.
        ref_name: the branch of the source; None for the main branch.
        ref_version: the version of the source.
        ref_path: the root of the source.
        branch_name: the name of the new branch; None for an independent table.
        is_copied: whether all files of a deep clone have been copied; not recorded in the transaction.
    """

    arm: ClassVar[str] = "clone"
    is_planned_on_any_version: ClassVar[bool] = True
    is_first_of_its_root: ClassVar[bool] = True
    makes_tables: ClassVar[bool] = True
    replaces_all_files: ClassVar[bool] = True

    is_shallow: bool
    ref_version: int
    ref_path: str
    ref_name: str | None = None
    branch_name: str | None = None
    is_copied: bool = False

    @classmethod
    def from_proto(cls, message: pb_transaction.Transaction.Clone) -> Self:
        """Parse the protobuf message."""
        return cls(
            is_shallow=message.is_shallow,
            ref_version=message.ref_version,
            ref_path=message.ref_path,
            ref_name=message.ref_name if message.HasField("ref_name") else None,
            branch_name=message.branch_name if message.HasField("branch_name") else None,
        )

    def to_proto(self) -> pb_transaction.Transaction.Clone:
        """Return the protobuf message; the inverse of :meth:`from_proto`."""
        return pb_transaction.Transaction.Clone(
            is_shallow=self.is_shallow,
            ref_version=self.ref_version,
            ref_path=self.ref_path,
            ref_name=self.ref_name,
            branch_name=self.branch_name,
        )

    @property
    def cloned_version(self) -> tuple[str, int]:
        """The root and the version of the source."""
        return self.ref_path, self.ref_version

    def starting_point(self, new_table: NewTable) -> Manifest:
        """Return the manifest before the clone's first version: the source's, with its version number reduced by 1."""
        source = new_table.source
        if source is None:
            raise InternalError(
                f"version {self.ref_version} must be read before it is cloned", version=self.ref_version
            )
        message = pb_table.Manifest()
        message.CopyFrom(source.message)
        message.version = source.version - 1
        return Manifest(
            message=message,
            naming=new_table.naming,
            index_section=source.index_section,
            dictionaries=source.dictionaries,
        )

    def to_public(self) -> PublicClone:
        """Return the public form of the operation."""
        return PublicClone(self.is_shallow, self.ref_name, self.ref_version, self.ref_path, self.branch_name)

    def apply(self, context: ApplyContext) -> ManifestDraft:
        """Build the first version of the clone, on top of its :meth:`starting_point`.

        Raises:
            UnsupportedFeatureFlagError: the source needs a feature that this library cannot write.
            NotSupportedError: the clone is deep, and its files have not been copied.
        """
        current = context.current
        require_writable(current.message)
        if not self.is_shallow and self.is_copied:
            return self._own_copy(current)
        if not self.is_shallow:
            raise NotSupportedError("a deep clone cannot be committed directly: its files must be copied first")
        base_id = max((base.id for base in current.message.base_paths), default=-1) + 1
        draft = ManifestDraft(current)
        base = pb_table.BasePath(id=base_id, is_dataset_root=True, path=self.ref_path)
        if self.ref_name is not None:
            base.name = self.ref_name
        draft.add_base_paths([base])
        draft.replace_fragments({each.id: _in_base(each, base_id) for each in current.message.fragments})
        draft.set_index_section(_indices_in_base(current.index_section, base_id))
        draft.set_branch(self.branch_name)
        return draft

    def _own_copy(self, current: Manifest) -> ManifestDraft:
        draft = ManifestDraft(current)
        draft.drop_base_paths()
        draft.replace_fragments({each.id: _in_own_root(each) for each in current.message.fragments})
        if current.index_section is not None:
            indices = decode_index_section(current.index_section)
            for index in indices:
                index.ClearField("base_id")
            draft.set_index_section(pb_table.IndexSection(indices=indices).SerializeToString())
        draft.set_branch(self.branch_name)
        return draft


def _in_own_root(fragment: pb_table.DataFragment) -> pb_table.DataFragment:
    """Return a copy of a fragment with all its files in the table's own root."""
    copy = pb_table.DataFragment()
    copy.CopyFrom(fragment)
    for file in (*copy.files, *(overlay.data_file for overlay in copy.overlays)):
        file.ClearField("base_id")
    if copy.HasField("deletion_file"):
        copy.deletion_file.ClearField("base_id")
    return copy


def _in_base(fragment: pb_table.DataFragment, base_id: int) -> pb_table.DataFragment:
    """Return a copy of a fragment in which files from the source's own root refer to a base path."""
    copy = pb_table.DataFragment()
    copy.CopyFrom(fragment)
    for file in (*copy.files, *(overlay.data_file for overlay in copy.overlays)):
        if not file.HasField("base_id"):
            file.base_id = base_id
    if copy.HasField("deletion_file") and not copy.deletion_file.HasField("base_id"):
        copy.deletion_file.base_id = base_id
    return copy


def _indices_in_base(section: bytes | None, base_id: int) -> bytes | None:
    if section is None:
        return None
    indices = decode_index_section(section)
    for index in indices:
        if not index.HasField("base_id"):
            index.base_id = base_id
    return pb_table.IndexSection(indices=indices).SerializeToString()
