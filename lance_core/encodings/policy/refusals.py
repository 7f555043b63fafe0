"""Before any bytes are written, rejects fields that readers could not read back.

* A fixed-size list of structs must not be in a list or contain a list; pylance 14.0.2 fails to write such fields.
* If a member of a struct is a fixed-size list of structs, all members must have the same number of slots per row (the
  dimension of the list; 1 for a member without such a list). pylance 14.0.2 writes other structs but cannot read them,
  because it treats the slots of a member as rows. This rule does not apply inside a fixed-size list of structs.
* A struct without fields must be a top-level field.
* The members of a packed struct must be fixed-width values of whole bytes, strings, binaries, or fixed-size lists. If
  all members are fixed-width, a row must have fewer than 256 bytes.

For types that a version does not support at all, see :mod:`lance_core.schema.storable`.

Source: behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from lance_core.encodings.leaf_arrays import is_variable_width
from lance_core.encodings.policy.field_options import options_of
from lance_core.encodings.policy.fixed_width import MAX_FIXED_BYTES
from lance_core.errors import NotSupportedError
from lance_core.schema.logical_types import arrow_type
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance_core.schema.field import Field

__all__ = ["require_writable_field"]

_BYTE_BITS: Final = 8


def require_writable_field(top: Field) -> None:
    """Check a top-level field of a structural file.

    Raises:
        NotSupportedError: readers could not read back the nesting of the field or a packed struct in it.
        InvalidInputError: the metadata requests an unknown compression.
    """
    for leaf in top.leaves():
        options_of(leaf, top)
    for node, above in _with_ancestors(top):
        if node.is_packed and not node.is_blob:
            _check_packed(node)
        elif node.is_structural_fixed_size_list:
            _check_lists_of_structs(node, above)
        elif node.is_struct and not node.children and not node.is_blob and node is not top:
            raise NotSupportedError(
                f"struct {node.name!r}: a struct without fields must be a top-level column without nulls",
                field=node.name,
            )


def _with_ancestors(field: Field, above: tuple[Field, ...] = ()) -> Iterator[tuple[Field, tuple[Field, ...]]]:
    """Yield every field of the tree with its ancestors, outermost first."""
    yield field, above
    for child in field.children:
        yield from _with_ancestors(child, (*above, field))


def _check_packed(struct: Field) -> None:
    row_bits, is_variable = 0, False
    for member in struct.children:
        dtype = arrow_type(member)
        if is_variable_width(dtype) or (member.is_fixed_size_list and not member.children):
            is_variable = True
            continue
        if member.children or member.is_dictionary or _width(member) % _BYTE_BITS:
            raise NotSupportedError(
                f"packed struct {struct.name!r}: member {member.name!r} of type {dtype} cannot be stored in a packed "
                "struct",
                field=struct.name,
            )
        row_bits += _width(member)
    if not is_variable and not 0 < row_bits < MAX_FIXED_BYTES * _BYTE_BITS:
        raise NotSupportedError(
            f"packed struct {struct.name!r}: rows of {counted(row_bits // _BYTE_BITS, 'byte')} cannot be "
            "written; expected 1 to "
            f"{MAX_FIXED_BYTES - 1} bytes",
            field=struct.name,
        )


def _check_lists_of_structs(field: Field, above: Sequence[Field]) -> None:
    def refuse(problem: str) -> NoReturn:
        raise NotSupportedError(f"field {field.name!r}: a fixed-size list of structs {problem}", field=field.name)

    below = [node for child in field.children[0].children for node in child.walk()]
    if any(node.is_list or node.is_map for node in (*above, *below)):
        refuse(
            "cannot be nested in a list, and cannot contain lists or maps; the reference implementation "
            "cannot read such fields"
        )
    if any(node.is_packed for node in below):
        refuse("cannot contain packed structs")
    if any(node.is_structural_fixed_size_list for node in above):
        return
    for struct in above:
        # spec: the reference uses the slots of a member's first leaf as its number of rows.
        if len({_first_slots_per_row(child) for child in struct.children}) > 1:
            refuse(
                f"must be the only member of struct {struct.name!r}, unless all members have the same number of "
                "list items per row; the reference implementation cannot read other structs"
            )


def _first_slots_per_row(field: Field) -> int:
    """Return the number of slots per row that the fixed-size lists of structs above the first leaf produce."""
    if field.is_leaf:
        return 1
    dimension = int(arrow_type(field).list_size) if field.is_structural_fixed_size_list else 1
    return dimension * _first_slots_per_row(field.children[0])


def _width(member: Field) -> int:
    try:
        return int(arrow_type(member).bit_width)
    except ValueError:
        return 1
