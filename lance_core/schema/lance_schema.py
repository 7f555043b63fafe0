"""Schemas with field ids, with the names and methods of pylance.

:class:`LanceSchema` wraps a :class:`~lance_core.schema.field.Schema`, because pylance has methods where this library
has attributes. Operations accept either.

**Source:** ``lance.schema`` of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from lance_core.errors import InvalidInputError, InvalidTypeError, NotSupportedError
from lance_core.schema.convert import schema_from_arrow, schema_to_arrow
from lance_core.schema.field import Field, Schema, trail_of
from lance_core.schema.logical_types import arrow_field

__all__ = ["LanceField", "LanceSchema"]


@dataclass(frozen=True, slots=True)
class LanceField:
    """A field of a :class:`LanceSchema`.

    Attributes:
        record: the field as ``lance_core`` represents it.
    """

    record: Field

    def name(self) -> str:
        """Return the name of the field, without those of its ancestors."""
        return self.record.name

    def id(self) -> int:
        """Return the id of the field."""
        return self.record.id

    def children(self) -> list[LanceField]:
        """Return the members of a struct, the item of a list, or the entries of a map."""
        return [LanceField(child) for child in self.record.children]

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata of the field."""
        return {key: value.decode(errors="replace") for key, value in self.record.metadata.items()}

    def is_unenforced_primary_key(self) -> bool:
        """Return whether the field is part of the primary key."""
        return self.record.unenforced_primary_key

    def unenforced_primary_key_position(self) -> int | None:
        """Return the position of the field in the primary key, from 1; None if it is not specified."""
        return self.record.unenforced_primary_key_position or None

    def is_unenforced_clustering_key(self) -> bool:
        """Return whether the field is part of the clustering key."""
        return self.record.unenforced_clustering_key or bool(self.record.unenforced_clustering_key_position)

    def unenforced_clustering_key_position(self) -> int | None:
        """Return the position of the field in the clustering key, from 1; None if it is not specified."""
        return self.record.unenforced_clustering_key_position or None

    def to_arrow(self) -> pa.Field:
        """Return the Arrow field; extension types become storage types."""
        return arrow_field(self.record)


@dataclass(frozen=True, slots=True)
class LanceSchema:
    """A schema with field ids.

    Attributes:
        record: the schema as ``lance_core`` represents it.
    """

    record: Schema

    @staticmethod
    def from_pyarrow(schema: pa.Schema) -> LanceSchema:
        """Return the schema of a new table; ids are assigned depth first, starting from 0.

        Raises:
            InvalidTypeError: the argument is not an Arrow schema.
            InvalidInputError: the format does not support one of the types, or a name is invalid.
        """
        if not isinstance(schema, pa.Schema):
            raise InvalidTypeError(f"the schema must be a pyarrow.Schema, found {type(schema).__name__}")
        try:
            return LanceSchema(schema_from_arrow(schema))
        except NotSupportedError as error:
            raise InvalidInputError(str(error)) from error

    def to_pyarrow(self) -> pa.Schema:
        """Return the Arrow schema, which has no ids."""
        return schema_to_arrow(self.record)

    def fields(self) -> list[LanceField]:
        """Return the top-level fields, in column order."""
        return [LanceField(field) for field in self.record.fields]

    def field(self, name: str) -> LanceField | None:
        """Return the field with the given name or dotted path; None if it does not exist."""
        return self._at(trail_of(self.record.fields, name))

    def field_case_insensitive(self, name: str) -> LanceField | None:
        """Return the field with this name or dotted path; None if no field matches, even if case is ignored."""
        exact = self.field(name)
        if exact is not None:
            return exact
        return self._at(trail_of([_lowered(field) for field in self.record.fields], name.lower()))

    def unenforced_primary_key(self) -> list[LanceField]:
        """Return the fields of the primary key, in the order of their positions."""
        fields = [LanceField(field) for field in self.record.walk() if field.unenforced_primary_key]
        return sorted(fields, key=lambda field: field.record.unenforced_primary_key_position)

    def unenforced_clustering_key(self) -> list[LanceField]:
        """Return the fields of the clustering key, in the order of their positions."""
        fields = [each for each in map(LanceField, self.record.walk()) if each.is_unenforced_clustering_key()]
        return sorted(fields, key=lambda field: field.record.unenforced_clustering_key_position)

    def _at(self, trail: list[Field] | None) -> LanceField | None:
        found = None if trail is None else self.record.find(trail[-1].id)
        return None if found is None else LanceField(found)


def _lowered(field: Field) -> Field:
    return replace(field, name=field.name.lower(), children=tuple(map(_lowered, field.children)))
