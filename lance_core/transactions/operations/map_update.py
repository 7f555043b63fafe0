"""MapUpdate: a change to one map of settings or metadata; a part of UpdateConfig.

Source: ``lance.table.Transaction.UpdateMap``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from lance_core.errors import InvalidTypeError
from lance_core.proto import pb_transaction
from lance_core.public.arguments import checked_text
from lance_core.transactions.operations.operation import named

__all__ = ["MapUpdate", "PublicUpdateMap", "map_update"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapUpdate:
    """A change to one map.

    Attributes:
        entries: the new value of each key; None removes the key.
        replace: whether to remove all other entries.
    """

    entries: Mapping[str, str | None]
    replace: bool = False

    @classmethod
    def from_proto(cls, message: pb_transaction.Transaction.UpdateMap) -> Self:
        """Parse the protobuf message."""
        return cls(
            entries={entry.key: entry.value if entry.HasField("value") else None for entry in message.update_entries},
            replace=message.replace,
        )

    def to_proto(self) -> pb_transaction.Transaction.UpdateMap:
        """Return the protobuf message; the inverse of :meth:`from_proto`."""
        return pb_transaction.Transaction.UpdateMap(
            update_entries=[
                pb_transaction.Transaction.UpdateMapEntry(key=key, value=value) for key, value in self.entries.items()
            ],
            replace=self.replace,
        )

    def applied_to(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the map after the change."""
        changed = {} if self.replace else dict(values)
        for key, value in self.entries.items():
            if value is None:
                changed.pop(key, None)
            else:
                changed[key] = value
        return changed


@named("UpdateMap")
@dataclass
class PublicUpdateMap:
    """A change to one map of settings.

    Attributes:
        updates: the new value of each key; None removes the key.
        replace: whether to remove all other entries.
    """

    updates: dict[str, str | None]
    replace: bool = False


def map_update(what: str, values: Mapping[Any, Any], *, replace: bool) -> MapUpdate:
    """Return the change to a map of settings, from the public arguments.

    Args:
        what: the name of the argument, for error messages.
        values: the new value of each key; None removes the key.
        replace: whether to remove all other entries.

    Raises:
        InvalidTypeError: a key is not a string, or a value is neither a string nor None.
        InvalidInputError: a string is not valid Unicode.
    """
    if not isinstance(values, Mapping):
        raise InvalidTypeError(f"{what} must map strings to strings or None, found {values!r:.80}", argument=what)
    return MapUpdate(
        entries={
            checked_text(f"a key of {what}", key): None
            if value is None
            else checked_text(f"{what}[{key!r:.40}]", value)
            for key, value in values.items()
        },
        replace=bool(replace),
    )
