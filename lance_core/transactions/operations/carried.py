"""CarriedOperation: an operation that this library reads and names but cannot execute.

Versions that other writers committed carry any of the sixteen operations. Conflict checks need to know which one and
some of its content, so the message is kept whole. An operation from a newer release than the definitions here has no
name; it counts as a conflict for every commit that was planned before it.

Source: ``lance.table.Transaction.operation``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lance_core.errors import NotSupportedError

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from lance_core.table.manifest import Manifest
    from lance_core.table.manifest_draft import ManifestDraft

__all__ = ["UNKNOWN_ARM", "CarriedOperation"]

UNKNOWN_ARM: Final = "unknown"
"""Stands for an operation that the definitions here do not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedOperation:
    """An operation of another kind.

    Attributes:
        arm: the name of its field in the message, or ``UNKNOWN_ARM``.
        message: its content; None for an unknown one.
    """

    arm: str
    message: Message | None = None

    def apply(self, current: Manifest) -> ManifestDraft:
        """Always refuse.

        Raises:
            NotSupportedError: names the operation.
        """
        raise NotSupportedError(
            f"committing the operation {self.arm!r} on version {current.version} is not supported", arm=self.arm
        )
