"""Clone: start a table as a copy of another. Only ever the first version of a root.

A shallow clone refers to the files of its source: it lists the source as a base path, and every data file, deletion
file and index that lay in the source's own root names that base then. Those that lay elsewhere keep theirs, so that a
clone of a clone lists both. The first version of the clone has the number of the version that was cloned. A branch is a
shallow clone below ``tree/``, and says which branch it is.

A deep clone holds its own copies of all files and knows no base. Copying them is not a matter of this module; who has
done so says it.

Source: ``lance.table.Transaction.Clone``; clones and branches of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from lance_core.errors import NotSupportedError
from lance_core.proto import pb_table, pb_transaction
from lance_core.table.feature_flags import require_writable
from lance_core.table.index_rules import decode_index_section
from lance_core.table.manifest import Manifest
from lance_core.table.manifest_draft import ManifestDraft

if TYPE_CHECKING:
    from lance_core.table.paths import ManifestNaming

__all__ = ["Clone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clone:
    """Copy a version of another table.

    Attributes:
        is_shallow: refer to the source's files instead of copying them.
        ref_name: branch of the source; None for main.
        ref_version: version of the source.
        ref_path: root of the source.
        branch_name: which branch the copy is; None for a table of its own.
        is_copied: whether every file of a deep clone has been copied; not recorded.
    """

    arm: ClassVar[str] = "clone"

    is_shallow: bool
    ref_version: int
    ref_path: str
    ref_name: str | None = None
    branch_name: str | None = None
    is_copied: bool = False

    @classmethod
    def from_proto(cls, message: pb_transaction.Transaction.Clone) -> Self:
        """Parse the message."""
        return cls(
            is_shallow=message.is_shallow,
            ref_version=message.ref_version,
            ref_path=message.ref_path,
            ref_name=message.ref_name if message.HasField("ref_name") else None,
            branch_name=message.branch_name if message.HasField("branch_name") else None,
        )

    def to_proto(self) -> pb_transaction.Transaction.Clone:
        """The message; the inverse of :meth:`from_proto`."""
        return pb_transaction.Transaction.Clone(
            is_shallow=self.is_shallow,
            ref_version=self.ref_version,
            ref_path=self.ref_path,
            ref_name=self.ref_name,
            branch_name=self.branch_name,
        )

    def starting_point(self, source: Manifest, naming: ManifestNaming) -> Manifest:
        """What the first version of the clone is built on: the source, one version back.

        Args:
            source: the version that is cloned.
            naming: of the clone's manifests.
        """
        message = pb_table.Manifest()
        message.CopyFrom(source.message)
        message.version = source.version - 1
        return Manifest(
            message=message,
            naming=naming,
            index_section=source.index_section,
            dictionaries=source.dictionaries,
        )

    def apply(self, current: Manifest) -> ManifestDraft:
        """The first version of the clone.

        Args:
            current: see :meth:`starting_point`.

        Raises:
            UnsupportedFeatureFlagError: the source needs a feature that this library cannot write.
            NotSupportedError: the clone is deep, and its files have not been copied.
        """
        require_writable(current.message)
        if not self.is_shallow and self.is_copied:
            return self._own_copy(current)
        if not self.is_shallow:
            raise NotSupportedError("a deep clone cannot be committed by itself: its files have to be copied first")
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
    """A copy whose files lie in the table's own root."""
    copy = pb_table.DataFragment()
    copy.CopyFrom(fragment)
    for file in (*copy.files, *(overlay.data_file for overlay in copy.overlays)):
        file.ClearField("base_id")
    if copy.HasField("deletion_file"):
        copy.deletion_file.ClearField("base_id")
    return copy


def _in_base(fragment: pb_table.DataFragment, base_id: int) -> pb_table.DataFragment:
    """A copy whose files, where they lay in the source's own root, lie in a base path."""
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
