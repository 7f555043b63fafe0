"""CarriedOperation: an operation from a newer release than the definitions here.

It has no name and no content that could be understood. It counts as a conflict for every commit that was planned before
it, and cannot be committed itself.

Source: ``lance.table.Transaction.operation``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Self

from lance_core.errors import NotSupportedError
from lance_core.transactions.operations.operation import ApplyContext, BaseOperation, Operation, named

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from lance_core.table.manifest_draft import ManifestDraft

__all__ = ["UNKNOWN_ARM", "CarriedOperation", "PublicOther"]

UNKNOWN_ARM: Final = "unknown"
"""Stands for an operation that the definitions here do not have."""


@named("Other")
@dataclass
class PublicOther(BaseOperation):
    """An operation found in the history of a dataset that this library cannot commit.

    Attributes:
        name: which one; "unknown" for one of a newer release.
    """

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedOperation(Operation):
    """An operation that is not known."""

    arm: ClassVar[str] = UNKNOWN_ARM
    is_known: ClassVar[bool] = False

    @classmethod
    def from_proto(cls, message: Message) -> Self:
        """There is nothing to parse."""
        return cls()

    def to_proto(self) -> Message:
        """Always refuse.

        Raises:
            NotSupportedError: names the operation.
        """
        raise NotSupportedError(f"committing the operation {self.arm!r} is not supported", arm=self.arm)

    def to_public(self) -> PublicOther:
        """Return the public form of the operation, which has only its name."""
        return PublicOther(self.arm)

    def apply(self, context: ApplyContext) -> ManifestDraft:
        """Always refuse.

        Raises:
            NotSupportedError: names the operation.
        """
        raise NotSupportedError(
            f"committing the operation {self.arm!r} on version {context.current.version} is not supported", arm=self.arm
        )
