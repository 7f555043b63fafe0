"""Which field a format version can hold: the one table that every writer asks before it writes a byte.

=================================================  ====  ====  ====  ====
Kind of field                                      0.1   2.0   2.1   2.2
=================================================  ====  ====  ====  ====
words, strings, binaries, temporal types, null      x     x     x     x
decimals, fixed-size binary, JSON                   x     x     x     x
struct, list, dictionary, fixed-size list           x     x     x     x
packed struct of members of fixed width             (1)   x     x     x
dictionary of bools or floats                             x     x     x
fixed-size list of nulls                                  x     x     x
struct without members                                    x     x     x
values outside the pages (``lance-encoding:blob``)        x     x     x
the same below a list                                     x
packed struct with strings or binaries              (1)               x
packed struct with fixed-size lists                 (1)   x           x
fixed-size binary of no bytes                                         x
map                                                                   x
fixed-size list of structs                                            x
``lance.blob.v2``                                                     x
=================================================  ====  ====  ====  ====

(1) 0.1 stores it as a plain struct. What no version holds has no logical type; see
:mod:`lance_core.schema.logical_types`.

**Source:** spec of the formats, types; what pylance 14.0.2 writes and can read back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lance_core.errors import UnsupportedVersionError
from lance_core.schema.field import BLOB_V2
from lance_core.versions import LanceFileVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lance_core.schema.field import Field, Schema

__all__ = ["RULES", "StorableRule", "check_storable"]

_V = LanceFileVersion
_DICTIONARIES: Final = ("dict:bool:", "dict:halffloat:", "dict:float:", "dict:double:")
_VARIABLE: Final = frozenset({"string", "large_string", "binary", "large_binary", "json"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StorableRule:
    """One line of the table.

    Attributes:
        what: the kind of field, for messages.
        applies: whether a field is of the kind; the second argument tells that a list is above it.
        versions: which hold it.
    """

    what: str
    applies: Callable[[Field, bool], bool]
    versions: tuple[LanceFileVersion, ...]


def _is_blob_v1(field: Field, below_list: bool) -> bool:
    return field.is_blob and field.logical_type == "large_binary"


def _is_blob_v1_item(field: Field, below_list: bool) -> bool:
    return below_list and _is_blob_v1(field, below_list)


def _is_variable_packed(field: Field, below_list: bool) -> bool:
    return field.is_packed and not field.is_blob and any(child.logical_type in _VARIABLE for child in field.children)


def _is_packed_with_lists(field: Field, below_list: bool) -> bool:
    return field.is_packed and not field.is_blob and any(child.is_fixed_size_list for child in field.children)


RULES: Final = (
    StorableRule(what="a map", applies=lambda field, _: field.is_map, versions=(_V.V2_2,)),
    StorableRule(
        what="a fixed-size list of structs",
        applies=lambda field, _: field.is_structural_fixed_size_list,
        versions=(_V.V2_2,),
    ),
    StorableRule(
        what=f"a blob ({BLOB_V2})",
        applies=lambda field, _: field.is_blob and field.is_struct,
        versions=(_V.V2_2,),
    ),
    StorableRule(
        what="a list of values outside the pages (lance-encoding:blob)", applies=_is_blob_v1_item, versions=(_V.V2_0,)
    ),
    StorableRule(
        what="values outside the pages (lance-encoding:blob)",
        applies=_is_blob_v1,
        versions=(_V.V2_0, _V.V2_1, _V.V2_2),
    ),
    StorableRule(
        what="a packed struct with strings or binaries",
        applies=_is_variable_packed,
        versions=(_V.V0_1, _V.V2_2),
    ),
    StorableRule(
        what="a packed struct with fixed-size lists",
        applies=_is_packed_with_lists,
        versions=(_V.V0_1, _V.V2_0, _V.V2_2),
    ),
    StorableRule(
        what="fixed-size binary of no bytes",
        applies=lambda field, _: field.logical_type == "fixed_size_binary:0",
        versions=(_V.V2_2,),
    ),
    StorableRule(
        what="a struct without members",
        applies=lambda field, _: field.is_struct and not field.children,
        versions=(_V.V2_0, _V.V2_1, _V.V2_2),
    ),
    StorableRule(
        what="a dictionary of bools or floats",
        applies=lambda field, _: field.logical_type.startswith(_DICTIONARIES),
        versions=(_V.V2_0, _V.V2_1, _V.V2_2),
    ),
    StorableRule(
        what="a fixed-size list of nulls",
        applies=lambda field, _: field.logical_type.startswith("fixed_size_list:") and ":null:" in field.logical_type,
        versions=(_V.V2_0, _V.V2_1, _V.V2_2),
    ),
)
"""What not every version holds."""


def check_storable(schema: Schema, version: LanceFileVersion) -> None:
    """Check that files of a version can hold every field of a schema.

    Raises:
        UnsupportedVersionError: one cannot be held; the message names the versions that could.
    """
    for field, path, below_list in _walk(schema):
        for rule in RULES:
            if rule.applies(field, below_list) and version not in rule.versions:
                *others, last = [each.value for each in rule.versions]
                could = f"{', '.join(others)} or {last}" if others else last
                raise UnsupportedVersionError(
                    f"column {path!r}: {rule.what} needs data storage version {could}, this is {version.value}",
                    column=path,
                    version=version.value,
                )


def _walk(schema: Schema) -> Iterator[tuple[Field, str, bool]]:
    """Every field that is stored as such, its path, and whether it lies below a list."""
    left = [(top, top.name, False) for top in reversed(schema.fields)]
    while left:
        field, path, below_list = left.pop()
        yield field, path, below_list
        if not field.is_blob:
            inside = below_list or field.is_list or field.is_map or field.is_structural_fixed_size_list
            left += [(child, f"{path}.{child.name}", inside) for child in reversed(field.children)]
