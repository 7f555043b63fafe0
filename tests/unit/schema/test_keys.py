"""Keys that a schema declares."""

import pytest

from lance_core.errors import InvalidSchemaError
from lance_core.schema.field import Field
from lance_core.schema.keys import PRIMARY_KEY, PRIMARY_POSITION, check_primary_keys, is_primary_key, position


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (b"0", 0),
        (b"+1", 1),
        (b"0000000000000007", 7),
        (b"4294967295", 2**32 - 1),
        (b"4294967296", None),
        (b"9" * 5000, None),
        (b"-1", None),
        (b" 1", None),
        (b"1.0", None),
        (b"", None),
        ("١".encode(), None),
    ],
)
def test_key_positions_are_parsed_as_unsigned_numbers(text: bytes, number: int | None) -> None:
    assert position({PRIMARY_POSITION: text}, PRIMARY_POSITION) == number
    assert is_primary_key({PRIMARY_POSITION: text}) is (number is not None)
    assert is_primary_key({PRIMARY_POSITION: text, PRIMARY_KEY: b"true"})


def _key(*, nullable: bool = False) -> Field:
    return Field(name="k", logical_type="int64", nullable=nullable, unenforced_primary_key=True)


def _around(child: Field, logical_type: str = "struct", *, nullable: bool = False) -> Field:
    return Field(name="outer", logical_type=logical_type, nullable=nullable, children=(child,))


def test_primary_key_field_that_is_nullable_or_repeated_is_refused() -> None:
    check_primary_keys([_key(), _around(_key()), _around(_around(_key()))])
    for field, match in (
        (_key(nullable=True), "'k' and its ancestors must not be nullable"),
        (_around(_key(), nullable=True), "must not be nullable"),
        (_around(_around(_key()), nullable=True), "must not be nullable"),
        (_around(_key(), "list"), "must not be inside a list or map"),
        (_around(_around(_key()), "list.struct"), "must not be inside a list or map"),
        (Field(name="s", logical_type="struct", children=(_key(),), unenforced_primary_key=True), "must be a leaf"),
    ):
        with pytest.raises(InvalidSchemaError, match=match):
            check_primary_keys([field])
