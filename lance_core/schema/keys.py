"""Keys that are declared in a schema but not enforced: the primary key and the clustering key.

Both are declared in field metadata, from which the key attributes of a ``Field`` are derived::

    lance-schema:unenforced-primary-key               "true" makes the field part of the primary key
    lance-schema:unenforced-primary-key:position      position in the key, from 1; makes the field part of the key
    lance-schema:unenforced-clustering-key:position   position in the clustering key, from 1

A position that is not a number is ignored.

Source: ``lance.file.Field``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from lance_core.errors import InvalidSchemaError
from lance_core.schema.field import is_true

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lance_core.schema.field import Field

__all__ = [
    "CLUSTERING_POSITION",
    "PRIMARY_KEY",
    "PRIMARY_POSITION",
    "check_primary_keys",
    "is_primary_key",
    "position",
]

PRIMARY_KEY: Final = "lance-schema:unenforced-primary-key"
PRIMARY_POSITION: Final = f"{PRIMARY_KEY}:position"
CLUSTERING_POSITION: Final = "lance-schema:unenforced-clustering-key:position"

_NUMBER: Final = re.compile(rb"\+?[0-9]+")
_MAX_POSITION: Final = 2**32 - 1


def position(metadata: Mapping[str, bytes], key: str) -> int | None:
    """Return the position that a metadata entry contains; None if the entry is missing or not a number."""
    text = metadata.get(key, b"")
    # Longer text may exceed the limit of int(), and is out of range unless it starts with zeros.
    digits = text.lstrip(b"+").lstrip(b"0") or b"0"
    if not _NUMBER.fullmatch(text) or len(digits) > len(str(_MAX_POSITION)):
        return None
    number = int(digits)
    return number if number <= _MAX_POSITION else None


def is_primary_key(metadata: Mapping[str, bytes]) -> bool:
    """Return whether a field with this metadata is part of the primary key."""
    return is_true(metadata.get(PRIMARY_KEY)) or position(metadata, PRIMARY_POSITION) is not None


def check_primary_keys(fields: Iterable[Field]) -> None:
    """Check that every field of the primary key has exactly one value in every row.

    Raises:
        InvalidSchemaError: a field of the key has children, is inside a list or map, or may be null.
    """
    for field in fields:
        _check(field, nullable=field.nullable, in_list=False)


def _check(node: Field, *, nullable: bool, in_list: bool) -> None:
    if node.unenforced_primary_key:
        if node.children:
            raise InvalidSchemaError(f"primary key field {node.name!r} must be a leaf, found type {node.logical_type}")
        if nullable:
            raise InvalidSchemaError(f"primary key field {node.name!r} and its ancestors must not be nullable")
        if in_list:
            raise InvalidSchemaError(f"primary key field {node.name!r} must not be inside a list or map")
    repeats = in_list or (bool(node.children) and not node.is_struct)
    for child in node.children:
        _check(child, nullable=nullable or child.nullable, in_list=repeats)
