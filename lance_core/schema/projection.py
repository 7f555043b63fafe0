"""Selects fields by id, and compares a schema with incoming data; ``Schema.project`` selects fields by name.

A projection keeps the field ids, so that the selected fields still refer to the same columns of a data file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_core.errors import SchemaMismatchError
from lance_core.schema.field import Field, Schema, suggestion
from lance_core.schema.logical_types import arrow_type, plain_type

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["check_compatible", "fits_type", "has_same_columns", "project_by_ids", "same_type"]


def project_by_ids(schema: Schema, field_ids: set[int] | frozenset[int]) -> Schema:
    """Select the fields with the given ids and their ancestors, in schema order.

    A field with children is kept if one of its descendants is kept, and omitted otherwise, even if its own id is given.
    """
    return Schema(
        fields=tuple(kept for top in schema.fields if (kept := _kept_by_ids(top, field_ids)) is not None),
        metadata=schema.metadata,
    )


def check_compatible(expected: Schema, found: pa.Schema) -> None:
    """Check that data with an Arrow schema may be appended to a table.

    The order of columns, and the names of list items and map entries, are ignored. Nullable columns may be missing. The
    same applies to the members of structs at any nesting depth. Nullability is also ignored, because Spark and pandas
    declare every field nullable; the file writer rejects actual nulls in a non-nullable field.

    Raises:
        SchemaMismatchError: a field differs; the message describes the first such field.
    """
    names = found.names
    known, given_names = set(expected.names), set(names)
    if len(given_names) != len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise SchemaMismatchError(f"column {repeated!r} occurs more than once in the data", column=repeated)
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        raise SchemaMismatchError(
            f"column {unknown!r} is not in the schema{suggestion(unknown, expected.names)}", column=unknown
        )
    for top in expected.fields:
        if top.name not in given_names:
            if not top.nullable:
                raise SchemaMismatchError(
                    f"column {top.name!r} is missing from the data, but it is not nullable", column=top.name
                )
            continue
        wanted, given = arrow_type(top), found.field(top.name).type
        if not fits_type(wanted, given):
            raise SchemaMismatchError(
                f"column {top.name!r}: expected type {wanted}, found {given}",
                column=top.name,
                expected=str(wanted),
                found=str(given),
            )


def has_same_columns(table: Schema, written: Schema) -> bool:
    """Return whether files with the schema ``written`` can be read with the schema ``table``.

    Every field id of ``written`` must refer to the same column in both schemas.

    Args:
        table: the schema used for reading; it may have additional top-level columns.
        written: the schema of the files.
    """
    by_id = {top.id: top for top in table.fields}
    return all(top.id in by_id and _is_same_column(by_id[top.id], top) for top in written.fields)


def same_type(expected: pa.DataType, found: pa.DataType) -> bool:
    """Return whether two types are stored in the same form, ignoring nullability and the names of list items."""
    return _compare(expected, found, _has_same_members)


def fits_type(expected: pa.DataType, found: pa.DataType) -> bool:
    """Return whether data of type ``found`` may be written to a column of type ``expected``.

    The order of struct members is ignored, and nullable members may be missing. A struct without any of the expected
    members does not match.
    """
    return _compare(expected, found, _has_fitting_members)


def _has_same_members(expected: pa.StructType, found: pa.StructType) -> bool:
    return [member.name for member in expected] == [member.name for member in found] and all(
        same_type(mine.type, theirs.type) for mine, theirs in zip(expected, found, strict=True)
    )


def _has_fitting_members(expected: pa.StructType, found: pa.StructType) -> bool:
    given = {member.name: member.type for member in found}
    wanted = {member.name: member for member in expected}
    if len(given) != found.num_fields or not given.keys() <= wanted.keys() or bool(given) != bool(wanted):
        return False
    return all(
        fits_type(member.type, given[name]) if name in given else member.nullable for name, member in wanted.items()
    )


def _compare(
    expected: pa.DataType, found: pa.DataType, has_members: Callable[[pa.StructType, pa.StructType], bool]
) -> bool:
    expected, found = plain_type(expected), plain_type(found)
    if pa.types.is_struct(expected) and pa.types.is_struct(found):
        return has_members(expected, found)
    if pa.types.is_map(expected) and pa.types.is_map(found):
        # Keys must match exactly: two keys that differ only in missing members would become equal.
        return same_type(expected.key_type, found.key_type) and _compare(
            expected.item_type, found.item_type, has_members
        )
    if pa.types.is_fixed_size_list(expected) and pa.types.is_fixed_size_list(found):
        return expected.list_size == found.list_size and _compare(expected.value_type, found.value_type, has_members)
    for is_kind in (pa.types.is_list, pa.types.is_large_list):
        if is_kind(expected) and is_kind(found):
            return _compare(expected.value_type, found.value_type, has_members)
    if pa.types.is_dictionary(expected) and pa.types.is_dictionary(found):
        return expected.index_type == found.index_type and same_type(expected.value_type, found.value_type)
    return bool(expected == found)


def _is_same_column(table: Field, written: Field) -> bool:
    return (
        (table.id, table.name, table.logical_type, table.is_leaf)
        == (written.id, written.name, written.logical_type, written.is_leaf)
        and (table.nullable or not written.nullable)
        and len(table.children) == len(written.children)
        and all(map(_is_same_column, table.children, written.children))
    )


def _kept_by_ids(node: Field, field_ids: set[int] | frozenset[int]) -> Field | None:
    if node.is_leaf:
        return node if node.id in field_ids else None
    children = [kept for child in node.children if (kept := _kept_by_ids(child, field_ids)) is not None]
    return node.with_children(children) if children else None
