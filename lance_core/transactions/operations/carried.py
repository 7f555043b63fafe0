"""CarriedOperation: an operation from a newer release than the definitions here.

It has no name and no content that could be understood. It counts as a conflict for every commit that was planned before
it, and cannot be committed itself.

Source: ``lance.table.Transaction.operation``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lance_core.errors import NotSupportedError

if TYPE_CHECKING:
    from lance_core.table.manifest import Manifest
    from lance_core.table.manifest_draft import ManifestDraft

__all__ = ["UNKNOWN_ARM", "CarriedOperation"]

UNKNOWN_ARM: Final = "unknown"
"""Stands for an operation that the definitions here do not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedOperation:
    """An operation that is not known.

    Attributes:
        arm: ``UNKNOWN_ARM``.
    """

    arm: str = UNKNOWN_ARM

    def apply(self, current: Manifest) -> ManifestDraft:
        """Always refuse.

        Raises:
            NotSupportedError: names the operation.
        """
        raise NotSupportedError(
            f"committing the operation {self.arm!r} on version {current.version} is not supported", arm=self.arm
        )
