"""UpdateBases: add base paths, locations outside the table's root that may contain its files, or move them.

A base without an id gets the next id, starting from 1. A base with the id of an existing base replaces it: the files
that refer to this id are then looked up in the new location. Names and paths are unique; at most one base can have no
name.

Source: ``lance.table.Transaction.UpdateBases``; behavior of pylance 14.0.2, where a base that moves also needs a new
name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from lance_core.errors import InvalidInputError
from lance_core.proto import pb_table, pb_transaction
from lance_core.public.dataset_base_path import base_path_from_proto, base_path_to_proto
from lance_core.table.feature_flags import require_writable
from lance_core.table.manifest_draft import ManifestDraft
from lance_core.transactions.operations.operation import ApplyContext, BaseOperation, Operation, named

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_core.public.dataset_base_path import DatasetBasePath


__all__ = ["PublicUpdateBases", "UpdateBases"]


@named("UpdateBases")
@dataclass
class PublicUpdateBases(BaseOperation):
    """Add or move base paths. Not available in pylance's Python interface, where ``add_bases`` is used instead.

    Attributes:
        new_bases: the base paths.
    """

    new_bases: list[DatasetBasePath]

    def to_record(self) -> UpdateBases:
        """Return the internal form of the operation."""
        return UpdateBases(new_bases=tuple(map(base_path_to_proto, self.new_bases)))


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateBases(Operation):
    """Add or move base paths.

    Attributes:
        new_bases: the bases; id 0 means "assign one at commit".
    """

    arm: ClassVar[str] = "update_bases"
    may_change_rows: ClassVar[bool] = False
    is_planned_on_any_version: ClassVar[bool] = True

    new_bases: tuple[pb_table.BasePath, ...]

    @classmethod
    def from_proto(cls, message: pb_transaction.Transaction.UpdateBases) -> Self:
        """Parse the protobuf message."""
        return cls(new_bases=tuple(message.new_bases))

    def to_proto(self) -> pb_transaction.Transaction.UpdateBases:
        """Return the protobuf message; the inverse of :meth:`from_proto`."""
        return pb_transaction.Transaction.UpdateBases(new_bases=self.new_bases)

    def added_bases(self) -> tuple[pb_table.BasePath, ...]:
        """Return the new base paths."""
        return self.new_bases

    def to_public(self) -> PublicUpdateBases:
        """Return the public form of the operation."""
        return PublicUpdateBases(list(map(base_path_from_proto, self.new_bases)))

    def apply(self, context: ApplyContext) -> ManifestDraft:
        """Build the version after ``context.current``.

        Raises:
            UnsupportedFeatureFlagError: the table needs a feature that this library cannot write.
            InvalidInputError: a name or path is already in use, or an id is given twice.
        """
        current = context.current
        require_writable(current.message)
        bases = {base.id: base for base in current.message.base_paths}
        given: set[int] = set()
        for new in self.new_bases:
            base = pb_table.BasePath()
            base.CopyFrom(new)
            base.id = new.id or max(bases, default=0) + 1
            if base.id in given:
                raise InvalidInputError(f"base path id {base.id} is given twice", base_id=base.id)
            given.add(base.id)
            _check(base, (other for other in bases.values() if other.id != base.id))
            bases[base.id] = base
        draft = ManifestDraft(current)
        draft.set_base_paths(bases.values())
        return draft


def _check(base: pb_table.BasePath, others: Iterable[pb_table.BasePath]) -> None:
    if not base.path:
        raise InvalidInputError("a base path is empty")
    name = _name(base)
    for other in others:
        if other.path == base.path or _name(other) == name:
            raise InvalidInputError(
                f"base path {base.path!r} (name {name!r}): the path or the name is already used by base {other.id}, "
                f"{other.path!r} (name {_name(other)!r})",
                base_id=other.id,
            )


def _name(base: pb_table.BasePath) -> str | None:
    return base.name if base.HasField("name") else None
