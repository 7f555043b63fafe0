"""DataOverlay: newer values for single cells, in files laid over the data files of a fragment.

An overlay covers cells by the physical positions of their rows; the value of a position stands at its rank among the
covered ones. Deleted rows stay deleted, of two overlays the newer wins. The commit stamps the version.

The feature is experimental in the reference. A table with overlays carries a flag, and the reference, unless its
environment says otherwise, then neither reads nor writes it; it commits the first overlay all the same. This library
cannot read overlays, so it refuses to commit one.

Source: ``lance.table.Transaction.DataOverlay``; behaviour of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from lance_core.errors import InvalidInputError, UnsupportedFeatureFlagError
from lance_core.proto import pb_table, pb_transaction
from lance_core.table.feature_flags import FeatureFlag, require_writable
from lance_core.table.manifest_draft import ManifestDraft

if TYPE_CHECKING:
    from lance_core.table.manifest import Manifest

__all__ = ["DataOverlay", "OverlayGroup"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayGroup:
    """Overlays of one fragment.

    Attributes:
        fragment_id: of which fragment.
        overlays: oldest first.
    """

    fragment_id: int
    overlays: tuple[pb_table.DataOverlayFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataOverlay:
    """Lay values over fragments.

    Attributes:
        groups: by fragment; of two groups of one fragment the later is newer.
    """

    arm: ClassVar[str] = "data_overlay"

    groups: tuple[OverlayGroup, ...]

    @classmethod
    def from_proto(cls, message: pb_transaction.Transaction.DataOverlay) -> Self:
        """Parse the message."""
        return cls(
            groups=tuple(
                OverlayGroup(fragment_id=group.fragment_id, overlays=tuple(group.overlays)) for group in message.groups
            )
        )

    def to_proto(self) -> pb_transaction.Transaction.DataOverlay:
        """The message; the inverse of :meth:`from_proto`."""
        return pb_transaction.Transaction.DataOverlay(
            groups=[
                pb_transaction.Transaction.DataOverlayGroup(fragment_id=group.fragment_id, overlays=group.overlays)
                for group in self.groups
            ]
        )

    def touched_fragments(self) -> frozenset[int]:
        """Ids of the fragments that are overlaid."""
        return frozenset(group.fragment_id for group in self.groups)

    def apply(self, current: Manifest) -> ManifestDraft:
        """The version after ``current``, when there is nothing to lay over.

        Raises:
            UnsupportedFeatureFlagError: there is; or the table needs a feature that this library cannot write.
            InvalidInputError: a fragment is not in the table.
        """
        require_writable(current.message)
        missing = self.touched_fragments() - {fragment.id for fragment in current.message.fragments}
        if missing:
            raise InvalidInputError(f"fragment {min(missing)}, to be overlaid, is not in version {current.version}")
        if any(group.overlays for group in self.groups):
            raise UnsupportedFeatureFlagError(
                f"a data overlay would set feature flag {int(FeatureFlag.DATA_OVERLAYS)} "
                f"({FeatureFlag.DATA_OVERLAYS.name}) in version {current.version + 1}; this library does not have it, "
                "and neither does the reference unless told to",
                flags=int(FeatureFlag.DATA_OVERLAYS),
                version=current.version + 1,
            )
        return ManifestDraft(current)
