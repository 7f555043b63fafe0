"""Determines which kinds of fields each format version supports. Writers check this before they write anything.

=================================================  ====  ====  ====  ====
Kind of field                                      0.1   2.0   2.1   2.2
=================================================  ====  ====  ====  ====
fixed-width numbers, strings, temporal, null        x     x     x     x
decimals, fixed-size binary, JSON                   x     x     x     x
struct, list, dictionary, fixed-size list           x     x     x     x
packed struct of fixed-width members                (1)   x     x     x
dictionary of bools or floats                       (2)   x     x     x
fixed-size list of nulls                                  x     x     x
fixed-size lists, 20 to 48 levels deep              x           x     x
fixed-size lists, 49 to 64 levels deep              x
struct without fields                                     x     x     x
v1 blob (``lance-encoding:blob``)                         x     x     x
list of v1 blobs                                          x
list with the metadata of a packed struct           x           x     x
packed struct, metadata value not ``true``          x     x
packed struct with string or binary members         (1)               x
packed struct with fixed-size lists                 (1)   x           x
fixed-size binary of width 0                                          x
map                                                                   x
fixed-size list of structs                                            x
``lance.blob.v2``                                                     x
=================================================  ====  ====  ====  ====

(1) In format 0.1, these structs are stored as unpacked structs. (2) In format 0.1, dictionaries of floats can be read
but not written, because pylance writes them but then cannot open the table. Types that no version supports have no
logical type; see :mod:`lance_core.schema.logical_types`.

**Source:** types in the specification of the formats; types that pylance 14.0.2 can write and read back.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from lance_core.errors import NotSupportedError, UnsupportedVersionError
from lance_core.schema.blob_fields import is_described, is_prepared
from lance_core.schema.field import BLOB_KEY, BLOB_V2, PACKED_KEYS, is_true
from lance_core.versions import LanceFileVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lance_core.schema.field import Field, Schema

__all__ = ["RULES", "StorableRule", "check_storable"]

_V = LanceFileVersion
_FLOAT_DICTIONARIES: Final = ("dict:halffloat:", "dict:float:", "dict:double:")
_MAX_DEPTH_2_0: Final = 19
_MAX_DEPTH_2_1: Final = 48
_VARIABLE: Final = frozenset({"string", "large_string", "binary", "large_binary", "json"})
_BLOBS_V1: Final = frozenset({"large_binary", "json"})
_BLOB_V2_MEMBERS: Final = MappingProxyType(
    {"data": "large_binary", "uri": "string", "position": "uint64", "size": "uint64"}
)
_NO_BYTES: Final = "fixed_size_binary:0"


@dataclass(frozen=True, slots=True, kw_only=True)
class StorableRule:
    """The format versions that support one kind of field: a row of the table in the module docstring.

    Attributes:
        what: the kind of field, for messages.
        applies: returns whether a field is of this kind; the second argument is True for a field inside a list.
        versions: the versions that support this kind of field; empty if none does.
    """

    what: str
    applies: Callable[[Field, bool], bool]
    versions: tuple[LanceFileVersion, ...]


def _nested_deeper_than(depth: int) -> Callable[[Field, bool], bool]:
    prefix = "fixed_size_list:" * (depth + 1)
    return lambda field, _: field.logical_type.startswith(prefix)


def _is_blob_v1(field: Field, below_list: bool) -> bool:
    return field.is_blob and field.logical_type in _BLOBS_V1


def _is_blob_v1_item(field: Field, below_list: bool) -> bool:
    return below_list and _is_blob_v1(field, below_list)


def _is_variable_packed(field: Field, below_list: bool) -> bool:
    return field.is_packed and not field.is_blob and any(child.logical_type in _VARIABLE for child in field.children)


def _is_packed_with_lists(field: Field, below_list: bool) -> bool:
    return field.is_packed and not field.is_blob and any(child.is_fixed_size_list for child in field.children)


def _is_packed_by_another_word(field: Field, below_list: bool) -> bool:
    words = {field.metadata.get(key, b"").lower() for key in PACKED_KEYS}
    return field.is_packed and not field.is_blob and b"true" not in words


def _is_packed_list(field: Field, below_list: bool) -> bool:
    return field.is_list and any(is_true(field.metadata.get(key)) for key in PACKED_KEYS)


def _is_packed_with_nothing(field: Field, below_list: bool) -> bool:
    return field.is_packed and not field.is_blob and any(child.logical_type == _NO_BYTES for child in field.children)


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
        what="a list of v1 blobs (lance-encoding:blob)",
        applies=_is_blob_v1_item,
        versions=(_V.V2_0,),
    ),
    StorableRule(
        what="a v1 blob column (lance-encoding:blob)",
        applies=_is_blob_v1,
        versions=(_V.V2_0, _V.V2_1, _V.V2_2),
    ),
    # The reference writes such fields, but then searches for the items in the column of the list.
    StorableRule(
        what="a list whose metadata marks it as a packed struct",
        applies=_is_packed_list,
        versions=(_V.V0_1, _V.V2_1, _V.V2_2),
    ),
    # The reference writes such fields, but its decoders terminate the process.
    StorableRule(
        what="a packed struct whose marker has a value other than 'true'",
        applies=_is_packed_by_another_word,
        versions=(_V.V0_1, _V.V2_0),
    ),
    StorableRule(
        what="a packed struct with string or binary members",
        applies=_is_variable_packed,
        versions=(_V.V0_1, _V.V2_2),
    ),
    StorableRule(
        what="a packed struct with fixed-size lists",
        applies=_is_packed_with_lists,
        versions=(_V.V0_1, _V.V2_0, _V.V2_2),
    ),
    StorableRule(
        what="a packed struct with fixed-size binary of width 0", applies=_is_packed_with_nothing, versions=()
    ),
    StorableRule(
        what="a fixed-size list of fixed-size binary of width 0",
        applies=lambda field, _: field.is_fixed_size_list and f":{_NO_BYTES}:" in field.logical_type,
        versions=(),
    ),
    StorableRule(
        what="fixed-size binary of width 0",
        applies=lambda field, _: field.logical_type == _NO_BYTES,
        versions=(_V.V2_2,),
    ),
    StorableRule(
        what="a struct without fields",
        applies=lambda field, _: field.is_struct and not field.children,
        versions=(_V.V2_0, _V.V2_1, _V.V2_2),
    ),
    StorableRule(
        what="a dictionary of bools",
        applies=lambda field, _: field.logical_type.startswith("dict:bool:"),
        versions=(_V.V2_0, _V.V2_1, _V.V2_2),
    ),
    StorableRule(
        what="a dictionary of floats (pylance cannot open a table in format 0.1 that has one)",
        applies=lambda field, _: field.logical_type.startswith(_FLOAT_DICTIONARIES),
        versions=(_V.V2_0, _V.V2_1, _V.V2_2),
    ),
    StorableRule(
        what="a fixed-size list of nulls",
        applies=lambda field, _: field.logical_type.startswith("fixed_size_list:") and ":null:" in field.logical_type,
        versions=(_V.V2_0, _V.V2_1, _V.V2_2),
    ),
    # Nested messages: readers accept at most 100 levels.
    StorableRule(
        what=f"a fixed-size list nested more than {_MAX_DEPTH_2_1} levels deep",
        applies=_nested_deeper_than(_MAX_DEPTH_2_1),
        versions=(_V.V0_1,),
    ),
    StorableRule(
        what=f"a fixed-size list nested more than {_MAX_DEPTH_2_0} levels deep",
        applies=_nested_deeper_than(_MAX_DEPTH_2_0),
        versions=(_V.V0_1, _V.V2_1, _V.V2_2),
    ),
)
"""The rules for all kinds of fields that some versions do not support."""


def check_storable(schema: Schema, version: LanceFileVersion) -> None:
    """Check that a format version supports every field of a schema.

    Raises:
        UnsupportedVersionError: the version does not support one of the fields; the message lists the versions that do.
        NotSupportedError: no version supports one of the fields.
    """
    for field, path, below_list in _walk(schema):
        if field.is_blob:
            _check_blob(field, path)
        for rule in RULES:
            if rule.applies(field, below_list) and version not in rule.versions:
                if not rule.versions:
                    raise NotSupportedError(
                        f"column {path!r}: {rule.what} cannot be stored, because no reader of the format accepts it",
                        column=path,
                    )
                *others, last = [each.value for each in rule.versions]
                could = f"{', '.join(others)}{',' if len(others) > 1 else ''} or {last}" if others else last
                raise UnsupportedVersionError(
                    f"column {path!r}: {rule.what} needs data storage version {could}, found {version.value}",
                    column=path,
                    version=version.value,
                )


def _check_blob(field: Field, path: str) -> None:
    """Check that a field that is marked as a blob has a type that blobs can have."""
    if field.is_struct:
        members = [(child.name, child.logical_type) for child in field.children]
        is_declared = (
            field.extension_name == BLOB_V2
            and not {"data", "uri"}.isdisjoint(name for name, _ in members)
            and all(_BLOB_V2_MEMBERS.get(name) == logical_type for name, logical_type in members)
        )
        if is_declared or is_prepared(field):
            return
        if is_described(field):
            problem = "contains blob descriptors, which are valid only for their original file; provide the values"
        else:
            problem = f"is not a blob; expected large_binary, or a struct of data and uri with extension type {BLOB_V2}"
    elif field.logical_type in _BLOBS_V1 and field.extension_name != BLOB_V2:
        return
    else:
        key = BLOB_KEY if BLOB_KEY in field.metadata else BLOB_V2
        problem = f"of type {field.logical_type} cannot contain blobs; use large_binary, or omit {key}"
    raise NotSupportedError(f"column {path!r} {problem}", column=path)


def _walk(schema: Schema) -> Iterator[tuple[Field, str, bool]]:
    """Yield every stored field, its path, and whether it is inside a list."""
    left = [(top, top.name, False) for top in reversed(schema.fields)]
    while left:
        field, path, below_list = left.pop()
        yield field, path, below_list
        if not field.is_blob:
            inside = below_list or field.is_list or field.is_map or field.is_structural_fixed_size_list
            left += [(child, f"{path}.{child.name}", inside) for child in reversed(field.children)]
