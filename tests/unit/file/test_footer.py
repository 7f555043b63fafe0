"""Converting footers to and from bytes, and how damaged footers are recognized."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from lance_core.errors import CorruptDataError, UnsupportedVersionError
from lance_core.file.footer import Footer
from lance_core.versions import LanceFileVersion

# Last 40 bytes of the 342-byte file that pylance 14.0.2 writes for one int32 column of three rows.
BYTES = bytes.fromhex("9f00000000000000 0e01000000000000 1e01000000000000 01000000 01000000 0200 0200 4c414e43")
FILE_BYTES = 342
FOOTER = Footer(
    column_metadata_offset=159,
    column_table_offset=270,
    global_buffer_table_offset=286,
    num_global_buffers=1,
    num_columns=1,
    version=LanceFileVersion.V2_2,
)


def test_footer_round_trips_through_bytes() -> None:
    assert Footer.parse(BYTES, FILE_BYTES, "f") == FOOTER
    assert FOOTER.serialize() == BYTES


def test_footer_of_version_2_1_has_its_own_version_pair() -> None:
    footer = replace(FOOTER, version=LanceFileVersion.V2_1)
    assert footer.serialize()[32:36] == b"\x02\x00\x01\x00"
    assert Footer.parse(footer.serialize(), FILE_BYTES, "f") == footer


@pytest.mark.parametrize("pair", [b"\x02\x00\x03\x00", b"\x09\x00\x00\x00"])
def test_footer_with_an_unknown_version_raises_unsupported_version(pair: bytes) -> None:
    with pytest.raises(UnsupportedVersionError):
        Footer.parse(BYTES[:32] + pair + BYTES[36:], FILE_BYTES, "f")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"column_metadata_offset": 271}, "after the column metadata table"),
        ({"column_table_offset": 271}, "column metadata table of 1 entry needs 16 bytes"),
        ({"num_columns": 2}, "column metadata table of 2 entries needs 32 bytes"),
        ({"num_columns": 2**32 - 1}, "column metadata table"),
        ({"global_buffer_table_offset": 287}, "column metadata table"),
        ({"num_global_buffers": 2}, "global buffer table of 2 entries"),
        ({"num_global_buffers": 0}, "no global buffer"),
    ],
)
def test_footer_with_contradictory_sections_raises_corrupt_data(changes: dict[str, int], message: str) -> None:
    with pytest.raises(CorruptDataError, match=message):
        Footer.parse(replace(FOOTER, **changes).serialize(), FILE_BYTES, "f")


@pytest.mark.parametrize("version", [(0, 3), (2, 0)])
def test_footer_sections_of_format_2_0_may_be_anywhere(version: tuple[int, int]) -> None:
    changes = {"column_metadata_offset": 280, "column_table_offset": 20, "global_buffer_table_offset": 0}
    data = replace(FOOTER, **changes).serialize()
    footer = Footer.parse(data[:32] + struct.pack("<HH", *version) + data[36:], FILE_BYTES, "f")
    assert footer == replace(FOOTER, **changes, version=LanceFileVersion.V2_0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"column_metadata_offset": FILE_BYTES - 39}, "column metadata section"),
        ({"column_table_offset": FILE_BYTES - 40 - 15}, "column metadata table"),
        ({"global_buffer_table_offset": FILE_BYTES - 40 - 15}, "global buffer table"),
        ({"num_columns": 2**32 - 1}, "column metadata table"),
        ({"num_global_buffers": 0}, "no global buffer"),
    ],
)
def test_footer_of_format_2_0_with_sections_that_extend_past_the_footer_raises_corrupt_data(
    changes: dict[str, int], message: str
) -> None:
    footer = replace(FOOTER, **changes, version=LanceFileVersion.V2_0)
    with pytest.raises(CorruptDataError, match=message):
        Footer.parse(footer.serialize(), FILE_BYTES, "f")


def test_file_that_is_not_a_data_file_raises_corrupt_data() -> None:
    with pytest.raises(CorruptDataError, match="the file has 7 bytes, but a data file has at least 40"):
        Footer.parse(b"7 bytes", 7, "f")
    with pytest.raises(CorruptDataError, match="expected b'LANC'"):
        Footer.parse(BYTES[:-4] + b"PAR1", FILE_BYTES, "f")
    with pytest.raises(CorruptDataError, match="global buffer table"):
        Footer.parse(BYTES, FILE_BYTES + 1, "f")
