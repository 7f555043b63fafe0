"""Binary JSON: documents written by pylance 14.0.2, and malformed documents."""

import pytest

from lance_core.errors import CorruptDataError, InvalidInputError
from lance_core.schema.jsonb import jsonb_from_text, text_from_jsonb

DOCUMENTS = [
    # text, binary form, and text after reading
    ("null", "2000000000000000", "null"),
    ("true", "2000000040000000", "true"),
    ("false", "2000000030000000", "false"),
    ('"text"', "200000001000000474657874", '"text"'),
    ('""', "2000000010000000", '""'),
    ("0", "200000002000000100", "0"),
    ("-0", "200000002000000100", "0"),
    ("1", "20000000200000025001", "1"),
    ("-1", "200000002000000240ff", "-1"),
    ("128", "20000000200000025080", "128"),
    ("-128", "20000000200000024080", "-128"),
    ("-129", "200000002000000340ff7f", "-129"),
    ("256", "2000000020000003500100", "256"),
    ("65536", "20000000200000055000010000", "65536"),
    ("4294967296", "2000000020000009500000000100000000", "4294967296"),
    ("18446744073709551615", "200000002000000950ffffffffffffffff", "18446744073709551615"),
    ("18446744073709551616", "20000000200000096043f0000000000000", "1.8446744073709552e+19"),
    ("-9223372036854775808", "2000000020000009408000000000000000", "-9223372036854775808"),
    ("-9223372036854775809", "200000002000000960c3e0000000000000", "-9.223372036854776e+18"),
    ("1e400", "200000002000000120", "null"),
    ("-1e400", "200000002000000130", "null"),
    ("1.0", "2000000020000009603ff0000000000000", "1.0"),
    ("-0.0", "2000000020000009608000000000000000", "-0.0"),
    ("1e3", "200000002000000960408f400000000000", "1000.0"),
    ("1e-7", "2000000020000009603e7ad7f29abcaf48", "1e-7"),
    ("[]", "80000000", "[]"),
    ("{}", "40000000", "{}"),
    ('[null,true,false,"",0]', "80000005000000004000000030000000100000002000000100", '[null,true,false,"",0]'),
    (
        '{"b":1,"a":2,"aa":3,"":4}',
        "400000041000000010000001100000021000000120000002200000022000000220000002616161625004500250035001",
        '{"":4,"a":2,"aa":3,"b":1}',
    ),
    (' { "a" : [ 1 , 2 ] } ', "4000000110000001500000106180000002200000022000000250015002", '{"a":[1,2]}'),
    (r'"\u00e9\n\"\\\/\b\f\r\t\u0001"', "200000001000000bc3a90a225c2f080c0d0901", '"é\\n\\"\\\\/\\b\\f\\r\\t\\u0001"'),
    (r'"\ud83d\ude00"', "2000000010000004f09f9880", '"😀"'),
]


@pytest.mark.parametrize(("text", "binary", "shown"), DOCUMENTS, ids=[case[0] for case in DOCUMENTS])
def test_json_text_round_trips_through_jsonb(text: str, binary: str, shown: str) -> None:
    assert jsonb_from_text(text.encode()).hex() == binary
    assert text_from_jsonb(bytes.fromhex(binary)) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        ("0.00001", "0.00001"),
        ("-1.5e-5", "-0.000015"),
        ("1.5e-6", "1.5e-6"),
        ("0.0001", "0.0001"),
        ("1e15", "1000000000000000.0"),
        ("1e16", "1e+16"),
        ("5e-324", "5e-324"),
        ("1.7976931348623157e308", "1.7976931348623157e+308"),
    ],
)
def test_jsonb_doubles_are_formatted_as_in_pylance(number: str, shown: str) -> None:
    assert text_from_jsonb(jsonb_from_text(number.encode())) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "nul",
        "[1,]",
        "01",
        "1.",
        ".5",
        "+1",
        "NaN",
        "Infinity",
        "{'a':1}",
        '{"a":1}x',
        "0x10",
        '"\\ud800"',
        "\ufeff1",
    ],
)
def test_invalid_json_text_raises_invalid_input(text: str) -> None:
    with pytest.raises(InvalidInputError):
        jsonb_from_text(text.encode())


def test_json_object_with_a_duplicate_key_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="'a' occurs more than once"):
        jsonb_from_text(b'{"a":1,"b":2,"a":2}')


def test_json_nesting_depth_is_limited_in_both_directions() -> None:
    assert text_from_jsonb(jsonb_from_text(b"[" * 200 + b"]" * 200)) == "[" * 200 + "]" * 200
    for depth in (257, 100_000):
        with pytest.raises(InvalidInputError):
            jsonb_from_text(b"[" * depth + b"]" * depth)
    nested = bytes.fromhex("80000000")
    for _ in range(300):
        nested = bytes.fromhex("80000001") + (0x50000000 | len(nested)).to_bytes(4, "big") + nested
    with pytest.raises(CorruptDataError, match="deep"):
        text_from_jsonb(nested)


@pytest.mark.parametrize("binary", [case[1] for case in DOCUMENTS], ids=[case[0] for case in DOCUMENTS])
def test_damaged_jsonb_is_read_or_raises_corrupt_data(binary: str) -> None:
    data = bytes.fromhex(binary)
    damaged = [data[:length] for length in range(1, len(data))]
    for bit in range(len(data) * 8):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        damaged.append(bytes(changed))
    for document in damaged:
        try:
            assert isinstance(text_from_jsonb(document), str)
        except CorruptDataError:
            continue


def test_empty_jsonb_reads_as_null() -> None:
    assert text_from_jsonb(b"") == "null"
