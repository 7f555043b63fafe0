"""CarriedOperation: an unknown operation, written by a release newer than the message definitions of this library.

Its name and content are not known. It conflicts with every change that was planned before it, and cannot itself be
committed.

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
"""The name used for every operation that the protobuf definitions of this library do not contain."""


@named("Other")
@dataclass
class PublicOther(BaseOperation):
    """An operation in the history of a dataset; this library cannot commit such operations.

    Attributes:
        name: the name of the operation; "unknown" for an operation from a newer release.
    """

    name: str

    @property
    def arm(self) -> str:
        """The name of the operation's field in the transaction message; "unknown" for an unknown operation."""
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedOperation(Operation):
    """An unknown operation."""

    arm: ClassVar[str] = UNKNOWN_ARM
    is_known: ClassVar[bool] = False

    @classmethod
    def from_proto(cls, message: Message) -> Self:
        """Return the unknown operation; the message is not parsed."""
        return cls()

    def to_proto(self) -> Message:
        """Raise an error: an unknown operation cannot be serialized.

        Raises:
            NotSupportedError: always; the message contains the name of the operation.
        """
        raise NotSupportedError(f"committing the operation {self.arm!r} is not supported", arm=self.arm)

    def to_public(self) -> PublicOther:
        """Return the public form of the operation, which has only its name."""
        return PublicOther(self.arm)

    def apply(self, context: ApplyContext) -> ManifestDraft:
        """Raise an error: an unknown operation cannot be applied.

        Raises:
            NotSupportedError: always; the message contains the name of the operation.
        """
        raise NotSupportedError(
            f"committing the operation {self.arm!r} on version {context.current.version} is not supported", arm=self.arm
        )
