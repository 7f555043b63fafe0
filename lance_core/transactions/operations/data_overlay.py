"""DataOverlay: newer values for individual cells, in files that override the data files of a fragment.

An overlay specifies the cells that it covers by the physical positions of their rows; its file contains the values in
the order of these positions. Deleted rows stay deleted. If two overlays cover a cell, the newer one wins. The commit
records the number of the new version in the overlay.

The feature is experimental in the reference implementation. Unless an environment variable enables the feature, this
library does not commit overlays, because it could not read the table afterward; the reference implementation commits
the first overlay anyway.

New overlays are appended to the overlays that the fragment already has at commit. If row ids are stable, the covered
rows count as updated. Indices are kept: an index does not include overlays that are newer than the index. When the
reference implementation searches an index, it also takes these overlays into account.

Source: ``lance.table.Transaction.DataOverlay``; behavior of pylance 14.0.2, which also accepts unreadable overlays:
overlays for fields that do not exist, and overlays with fewer values than covered cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from lance_core.errors import CorruptDataError, InvalidInputError, UnsupportedFeatureFlagError
from lance_core.proto import pb_table, pb_transaction
from lance_core.public.arguments import checked_number
from lance_core.public.fragment_conversion import overlay_from_record, overlay_to_record
from lance_core.table.data_file import DataFile
from lance_core.table.feature_flags import FeatureFlag, require_writable
from lance_core.table.manifest_draft import ManifestDraft
from lance_core.table.moved_rows import refresh_changed_rows
from lance_core.table.overlay_files import OVERLAYS_VARIABLE, covered_anywhere, overlays_enabled
from lance_core.transactions.operations.fragment_rules import check_file
from lance_core.transactions.operations.operation import ApplyContext, BaseOperation, Operation, named
from lance_core.transactions.operations.parts import OverlayGroup
from lance_core.wording import counted

if TYPE_CHECKING:
    from lance_core.public.overlay_metadata import DataOverlayFile
    from lance_core.table.manifest import Manifest
    from lance_core.table.row_lineage import HiddenColumns

__all__ = ["DataOverlay", "PublicDataOverlay", "PublicDataOverlayGroup"]


@named("DataOverlayGroup")
@dataclass
class PublicDataOverlayGroup:
    """The overlays of one fragment.

    Attributes:
        fragment_id: the id of the fragment.
        overlays: the overlays of the fragment, oldest first.
    """

    fragment_id: int
    overlays: list[DataOverlayFile]


@named("DataOverlay")
@dataclass
class PublicDataOverlay(BaseOperation):
    """Override individual cells of fragments with newer values.

    Experimental, as in the reference implementation: the environment variable
    ``LANCE_ENABLE_UNSTABLE_DATA_OVERLAY_FILES`` must be set.

    Attributes:
        groups: the overlays, grouped by fragment.
    """

    groups: list[PublicDataOverlayGroup]

    def to_record(self) -> DataOverlay:
        """Return the internal form of the operation."""
        return DataOverlay(
            groups=tuple(
                OverlayGroup(
                    fragment_id=checked_number("fragment id", group.fragment_id, 0, 2**64),
                    overlays=tuple(map(overlay_to_record, group.overlays)),
                )
                for group in self.groups
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DataOverlay(Operation):
    """Add overlays to fragments.

    Attributes:
        groups: the overlays, grouped by fragment; of two groups for the same fragment, the later one is newer.
    """

    arm: ClassVar[str] = "data_overlay"

    groups: tuple[OverlayGroup, ...]

    @classmethod
    def from_proto(cls, message: pb_transaction.Transaction.DataOverlay) -> Self:
        """Parse the protobuf message."""
        return cls(
            groups=tuple(
                OverlayGroup(fragment_id=group.fragment_id, overlays=tuple(group.overlays)) for group in message.groups
            )
        )

    def to_proto(self) -> pb_transaction.Transaction.DataOverlay:
        """Return the protobuf message; the inverse of :meth:`from_proto`."""
        return pb_transaction.Transaction.DataOverlay(
            groups=[
                pb_transaction.Transaction.DataOverlayGroup(fragment_id=group.fragment_id, overlays=group.overlays)
                for group in self.groups
            ]
        )

    def touched_fragments(self) -> frozenset[int]:
        """Return the ids of the fragments that get overlays."""
        return frozenset(group.fragment_id for group in self.groups)

    def laid_overlays(self) -> tuple[OverlayGroup, ...]:
        """Return all groups of overlays."""
        return self.groups

    def to_public(self) -> PublicDataOverlay:
        """Return the public form of the operation."""
        return PublicDataOverlay(
            [
                PublicDataOverlayGroup(group.fragment_id, [overlay_from_record(each) for each in group.overlays])
                for group in self.groups
            ]
        )

    def apply(self, context: ApplyContext) -> ManifestDraft:
        """Build the version after ``context.current``.

        Raises:
            UnsupportedFeatureFlagError: overlays are not enabled, or the table needs another feature that this library
                cannot write.
            InvalidInputError: a fragment is not in the table, or an overlay covers a row that does not exist.
            SchemaMismatchError: an overlay contains no field of the table.
        """
        current = context.current
        require_writable(current.message)
        missing = self.touched_fragments() - {fragment.id for fragment in current.message.fragments}
        if missing:
            raise InvalidInputError(
                f"a data overlay refers to fragment {min(missing)}, which is not in version {current.version}"
            )
        if any(group.overlays for group in self.groups) and not overlays_enabled():
            raise UnsupportedFeatureFlagError(
                f"a data overlay would set feature flag {int(FeatureFlag.DATA_OVERLAYS)} "
                f"({FeatureFlag.DATA_OVERLAYS.name}) in version {current.version + 1}; like pylance, this library "
                f"supports the flag only when the environment variable {OVERLAYS_VARIABLE} is set",
                flags=int(FeatureFlag.DATA_OVERLAYS),
                version=current.version + 1,
            )
        draft = ManifestDraft(current)
        changed: dict[int, pb_table.DataFragment] = {}
        for fragment in current.message.fragments:
            overlays = [each for group in self.groups if group.fragment_id == fragment.id for each in group.overlays]
            if overlays:
                changed[fragment.id] = self._overlaid(fragment, overlays, current, context.hidden)
        draft.replace_fragments(changed)
        return draft

    def _overlaid(
        self,
        fragment: pb_table.DataFragment,
        overlays: list[pb_table.DataOverlayFile],
        current: Manifest,
        hidden: HiddenColumns,
    ) -> pb_table.DataFragment:
        result = pb_table.DataFragment()
        result.CopyFrom(fragment)
        for overlay in overlays:
            added = result.overlays.add()
            added.CopyFrom(overlay)
            added.committed_version = current.version + 1
            rows = _checked_rows(overlay, fragment, current)
            if current.has_stable_row_ids:
                refresh_changed_rows(result, rows, current.version + 1, hidden)
        return result


def _checked_rows(
    overlay: pb_table.DataOverlayFile, fragment: pb_table.DataFragment, current: Manifest
) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """Return the rows that an overlay covers in any field."""
    what = f"fragment {fragment.id}"
    check_file(
        DataFile.from_proto(overlay.data_file),
        what,
        field_ids={field.id for field in current.message.fields},
        base_ids={base.id for base in current.message.base_paths},
        file_version=current.file_version,
    )
    try:
        covered = covered_anywhere(overlay, what)
    except CorruptDataError as error:
        raise InvalidInputError(str(error), **error.context) from error
    if covered and covered.max() >= fragment.physical_rows:
        raise InvalidInputError(
            f"{what} has {counted(fragment.physical_rows, 'row')}, but overlay {overlay.data_file.path} covers row "
            f"{covered.max()}",
            expected=fragment.physical_rows,
            found=covered.max(),
        )
    return np.frombuffer(covered.to_array(), np.uint32)
