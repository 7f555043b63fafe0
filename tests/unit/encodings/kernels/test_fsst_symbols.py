"""FSST symbol tables, and the expansion of codes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from lance_core.encodings.kernels.fsst_symbols import expand_codes, parse_symbols

MAGIC = 0x46535354


def table_of(*symbols: bytes, compressed: bool = True) -> bytes:
    """Return a table in the layout of pylance: 2312 bytes, with the lengths directly after the symbols."""
    header = (MAGIC << 32 | compressed << 24 | len(symbols)).to_bytes(8, "little")
    body = b"".join(symbol.ljust(8, b"\0") for symbol in symbols) + bytes(map(len, symbols))
    return (header + body).ljust(2312, b"\0")


def _expand(table, *strings):
    codes = np.frombuffer(b"".join(strings), np.uint8)
    offsets = np.cumsum([0, *map(len, strings)])
    data, stops = expand_codes([parse_symbols(table)], codes, offsets)
    return [data[start:stop].tobytes() for start, stop in itertools.pairwise(stops)]


def test_fsst_codes_expand_to_their_symbols():
    assert _expand(table_of(b"http://", b"ab"), b"\x00\x01\x01", b"", b"\x01") == [b"http://abab", b"", b"ab"]


def test_fsst_escape_takes_the_next_byte_literally():
    table = table_of(b"ab")
    assert _expand(table, b"\xff\x00\x00", b"\xff\xff", b"\xff\xff\xff\xff\x00") == [b"\x00ab", b"\xff", b"\xff\xffab"]


def test_fsst_escape_at_the_end_is_malformed():
    assert expand_codes([parse_symbols(table_of(b"ab"))], np.array([0, 255], np.uint8), np.array([0, 2])) is None


def test_fsst_table_flag_records_whether_strings_are_compressed():
    assert parse_symbols(table_of(b"ab")).is_compressed
    assert not parse_symbols(table_of(b"ab", compressed=False)).is_compressed


@pytest.mark.parametrize(
    "table",
    [b"", b"\0" * 2312, table_of(b"ab", b"c")[:25], table_of(b"ab").replace(b"\x02", b"\x09")],
)
def test_parsing_malformed_fsst_tables_returns_none(table):
    assert parse_symbols(table) is None
