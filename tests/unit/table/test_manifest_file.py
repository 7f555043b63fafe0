"""The bytes of a manifest file: sections, positions, and damage."""

import random
import struct

import pytest

from lance_core.errors import CorruptDataError, LanceError
from lance_core.proto import pb_table
from lance_core.table.manifest import Manifest
from lance_core.table.manifest_file import parse_manifest_file, serialize_manifest_file
from lance_core.table.paths import ManifestName, ManifestNaming


def _manifest(**values: object) -> pb_table.Manifest:
    return pb_table.Manifest(version=1, **values)


def test_manifest_sections_precede_the_manifest_even_at_position_zero() -> None:
    data = serialize_manifest_file(_manifest(), index_section=None, transaction=b"transaction")
    assert data[:4] == struct.pack("<I", 11)
    assert data[4:15] == b"transaction"
    position, major, minor, magic = struct.unpack("<qHH4s", data[-16:])
    assert (position, major, minor, magic) == (15, 0, 2, b"LANC")
    # Field 23, varint, value 0: written although the value is the default.
    assert data[-16 - 3 : -16] == bytes.fromhex("b80100")
    parsed = parse_manifest_file(data, "m")
    assert parsed.message.HasField("transaction_section")
    assert parsed.message.transaction_section == 0
    assert parsed.transaction == b"transaction"
    assert parsed.index_section is None


def test_index_section_is_the_first_section_of_a_manifest() -> None:
    data = serialize_manifest_file(_manifest(), index_section=b"index", transaction=b"txn")
    parsed = parse_manifest_file(data, "m")
    assert (parsed.message.index_section, parsed.message.transaction_section) == (0, 9)
    assert (parsed.index_section, parsed.transaction) == (b"index", b"txn")


def test_section_positions_of_an_earlier_manifest_are_cleared() -> None:
    message = parse_manifest_file(
        serialize_manifest_file(_manifest(), index_section=b"index", transaction=b"txn"), "m"
    ).message
    parsed = parse_manifest_file(serialize_manifest_file(message, index_section=None, transaction=None), "m")
    assert (parsed.index_section, parsed.transaction) == (None, None)


def test_deprecated_transaction_position_is_used_if_the_new_position_is_missing() -> None:
    message = _manifest(transaction_section_deprecated=0)
    body = message.SerializeToString()
    section = struct.pack("<I", 3) + b"txn"
    data = section + struct.pack("<I", len(body)) + body + struct.pack("<qHH4s", len(section), 0, 2, b"LANC")
    assert parse_manifest_file(data, "m").transaction == b"txn"


def test_manifest_sections_in_any_order_and_with_gaps_are_accepted_as_in_pylance() -> None:
    message = _manifest(index_section=200, transaction_section=100)
    body = message.SerializeToString()
    data = bytearray(b"\xff" * 300)
    data[100:107] = struct.pack("<I", 3) + b"txn"
    data[200:209] = struct.pack("<I", 5) + b"index"
    data += struct.pack("<I", len(body)) + body + b"junk" + struct.pack("<qHH4s", 300, 9, 9, b"LANC")
    parsed = parse_manifest_file(bytes(data), "m")
    assert (parsed.index_section, parsed.transaction) == (b"index", b"txn")


VALID = serialize_manifest_file(
    _manifest(fragments=[pb_table.DataFragment(id=3, physical_rows=10)]), index_section=b"ab", transaction=b"abc"
)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"LANC", "4 bytes"),
        (VALID[:-1] + b"X", "expected b'LANC'"),
        (VALID[:-16] + struct.pack("<qHH4s", -5, 0, 2, b"LANC"), "position -5"),
        (VALID[:-16] + struct.pack("<qHH4s", 10**9, 0, 2, b"LANC"), "position 1000000000"),
        (VALID[:-16] + struct.pack("<qHH4s", 0, 0, 2, b"LANC"), "cannot be decoded"),
    ],
)
def test_damaged_manifest_is_named_in_the_error(data: bytes, words: str) -> None:
    with pytest.raises(CorruptDataError, match=words) as caught:
        parse_manifest_file(data, "table/_versions/1.manifest")
    assert "table/_versions/1.manifest" in str(caught.value)


def test_truncated_or_damaged_manifest_raises_only_typed_errors() -> None:
    name = ManifestName(1, ManifestNaming.V2)
    randomness = random.Random(20)
    damaged = [VALID[:length] for length in range(len(VALID))]
    for bit in range(len(VALID) * 8):
        flipped = bytearray(VALID)
        flipped[bit // 8] ^= 1 << bit % 8
        damaged.append(bytes(flipped))
    damaged += [randomness.randbytes(randomness.randrange(200)) for _ in range(500)]
    for data in damaged:
        try:
            manifest = Manifest.parse(data, path="m", name=name)
            manifest.check_readable()
            _ = (manifest.schema, manifest.fragments, manifest.base_paths, manifest.timestamp_ns)
        except LanceError:
            continue
