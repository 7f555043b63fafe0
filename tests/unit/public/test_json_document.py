"""Values of JSON documents are checked when they are read."""

import pytest

from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.public.json_document import (
    JsonObject,
    byte_string,
    entries,
    listed,
    nullable,
    parse_document,
    text,
    whole,
)


def test_json_errors_name_the_position_and_the_expected_and_found_values() -> None:
    document = parse_document("thing", '{"a": [{"b": 1}, {"b": "x"}]}')
    with pytest.raises(
        InvalidInputError, match=r"^thing at \$\.a\[1\]\.b: expected a whole number from 0 to 9, found 'x'"
    ):
        document.take("a", listed(entries(lambda each: each.take("b", whole(0, 10)))))
    with pytest.raises(InvalidInputError, match=r"^thing at \$\.c is missing"):
        document.take("c", text)
    with pytest.raises(InvalidInputError, match=r"expected only the entries \['b'\], found 'a'"):
        document.refuse_others({"b"})


def test_json_default_applies_only_to_missing_entries() -> None:
    document = parse_document("thing", '{"a": null}')
    assert document.take("b", nullable(text), None) is None
    assert document.take("a", nullable(text)) is None
    with pytest.raises(InvalidInputError, match="expected a valid Unicode string, found None"):
        document.take("a", text, "default")


@pytest.mark.parametrize("value", [-1, 10, 3.0, 3.7, float("inf"), float("nan"), "3", True, None, [], {}, 2**70])
def test_whole_number_outside_its_range_is_refused(value: object) -> None:
    assert whole(0, 10)(9, "here") == 9
    with pytest.raises(InvalidInputError, match="expected a whole number from 0 to 9"):
        whole(0, 10)(value, "here")


@pytest.mark.parametrize("value", [3_000_000_000, 10**30, -1, "x", None, [256], [-1], [1.0], [True], ["x"], {"0": 1}])
def test_bytes_that_are_not_a_list_are_refused(value: object) -> None:
    assert byte_string([0, 255], "here") == b"\x00\xff"
    with pytest.raises(InvalidInputError, match="expected a list of bytes"):
        byte_string(value, "here")


@pytest.mark.parametrize("value", [1, None, [], "\ud800"])
def test_value_that_is_not_text_is_refused(value: object) -> None:
    with pytest.raises(InvalidInputError, match="expected a valid Unicode string"):
        text(value, "here")


@pytest.mark.parametrize("value", [1, None, "x", {}])
def test_value_that_is_not_a_list_is_refused(value: object) -> None:
    with pytest.raises(InvalidInputError, match="expected a list"):
        listed(text)(value, "here")


@pytest.mark.parametrize("document", ["", "{", "[]", "1", "null", "[" * 100_000, '{"a": ' + "9" * 5000 + "}"])
def test_json_that_is_not_an_object_is_refused(document: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_document("thing", document)


def test_parsing_json_that_is_not_text_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match="must be a string, found bytes"):
        parse_document("thing", b"{}")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="expected an object"):
        JsonObject([], "here")
