"""The compiled kernels return the same results as the NumPy implementations, for valid and invalid input."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest

from lance_core.encodings.kernels import loading
from lance_core.encodings.kernels.chunked_strings import join_chunks
from lance_core.encodings.kernels.fastlanes import RAW, block_bytes, pack_blocks, unpack_pieces
from lance_core.encodings.kernels.fsst_symbols import (
    SymbolTable,
    compress_strings,
    expand_codes,
    parse_symbols,
    serialize_symbols,
    train_symbols,
)
from lance_core.encodings.kernels.list_levels import ListRules, peel_full_lists, peel_lists
from lance_core.encodings.kernels.segments import Segments


def both(monkeypatch, action):
    """Return the results of the NumPy implementation and of the compiled kernel."""
    results = []
    for switch in ("0", "1"):
        monkeypatch.setenv("LANCE_CORE_COMPILED", switch)
        results.append(action())
    return results


@pytest.mark.parametrize("value_bits", [8, 16, 32, 64])
@pytest.mark.sampled(2)
def test_compiled_and_numpy_kernels_pack_and_unpack_every_width_identically(monkeypatch, value_bits):
    random = np.random.default_rng(value_bits)
    dtype = np.dtype(f"u{value_bits // 8}")
    widths = random.permutation(np.repeat(np.arange(value_bits + 1), 2))
    lengths = random.choice([1024, 1024, 1000, 8, 3, 1], len(widths))
    blocks = [random.integers(0, 1 << 63, 1024, np.uint64) * np.uint64(2) >> np.uint64(1) for _ in widths]
    blocks = [
        ((block << np.uint64(1)) >> np.uint64(64 - int(width)) if width else block * np.uint64(0)).astype(dtype)
        for block, width in zip(blocks, widths, strict=True)
    ]

    def packed():
        parts = [
            pack_blocks(b[None], value_bits, int(w)).view(np.uint8)[0] for b, w in zip(blocks, widths, strict=True)
        ]
        return np.concatenate([np.zeros(value_bits // 8, np.uint8), *parts])

    plain, compiled = both(monkeypatch, packed)
    np.testing.assert_array_equal(plain, compiled)
    sizes = np.array([block_bytes(int(width)) for width in widths])
    starts = value_bits // 8 + np.cumsum(sizes) - sizes
    expected = np.concatenate([block[:n] for block, n in zip(blocks, lengths, strict=True)])
    for found in both(monkeypatch, lambda: unpack_pieces(plain, starts, widths, lengths, value_bits)):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, expected)


def test_unpack_pieces_copies_pieces_that_are_not_packed(monkeypatch):
    values = np.arange(1024, dtype=np.uint16) % 4
    packed = pack_blocks(values[None], 16, 2).view(np.uint8)[0]
    raw = np.array([7, 8, 9, 10], np.uint16)
    data = np.concatenate([packed, raw.view(np.uint8), packed])
    starts = np.array([0, len(packed), len(packed) + 8])
    arguments = (data, starts, np.array([2, RAW, 2]), np.array([1024, 3, 5]), 16)
    for found in both(monkeypatch, lambda: unpack_pieces(*arguments)):
        np.testing.assert_array_equal(found, np.concatenate([values, raw[:3], values[:5]]))


def _chunk(strings, width):
    offsets = (len(strings) + 1) * width + np.cumsum([0, *map(len, strings)])
    return offsets.astype(f"<u{width}").tobytes() + b"".join(strings)


@pytest.mark.parametrize("width", [4, 8])
def test_compiled_and_numpy_kernels_join_string_chunks_identically(monkeypatch, width):
    random = np.random.default_rng(width)
    strings = [bytes(random.integers(0, 256, random.integers(0, 9), np.uint8)) for _ in range(3000)]
    cuts = [0, 1, 17, 1024, 1024, 2999, 3000]
    groups = [strings[a:b] for a, b in itertools.pairwise(cuts)]
    parts = [_chunk(group, width) for group in groups]
    data = np.frombuffer(b"?".join([b"", *parts]), np.uint8)
    sizes = np.array([len(part) for part in parts])
    starts = 1 + np.cumsum(sizes + 1) - sizes - 1
    chunks = Segments(data, starts, sizes)
    for found in both(monkeypatch, lambda: join_chunks(chunks, np.array([len(g) for g in groups]), width)):
        offsets, joined = found
        assert joined.tobytes() == b"".join(strings)
        np.testing.assert_array_equal(offsets, np.cumsum([0, *map(len, strings)]))


@pytest.mark.parametrize(
    "offsets", [[11, 13, 14], [12, 11, 14], [12, 14, 13], [12, 13, 16], [0, 0, 0], [12, 13, 2**32 - 1], [2**31] * 3]
)
def test_compiled_and_numpy_kernels_both_refuse_invalid_chunk_offsets(monkeypatch, offsets):
    data = np.frombuffer(np.array(offsets, "<u4").tobytes() + b"abc", np.uint8)
    chunk = Segments(data, np.array([0]), np.array([len(data)]))
    assert both(monkeypatch, lambda: join_chunks(chunk, np.array([2]), 4)) == [None, None]


@pytest.mark.parametrize("seed", range(20))
def test_compiled_and_numpy_kernels_decode_list_levels_identically(monkeypatch, seed):
    random = np.random.default_rng(seed)
    num_levels = int(random.integers(1, 500))
    repetition = random.integers(0, 3, num_levels, np.uint16)
    repetition[0] = 2
    definition = random.integers(0, 6, num_levels, np.uint16)
    rules = ListRules(*random.permutation([0, 2, 3])[:2].tolist(), highest_own=3, highest_slot=4)
    for action in (lambda: peel_lists(repetition, definition, rules), lambda: peel_full_lists(repetition)):
        plain, compiled = both(monkeypatch, action)
        for name in ("offsets", "validity", "repetition", "definition"):
            found, expected = getattr(compiled, name), getattr(plain, name)
            assert (found is None) == (expected is None)
            if found is not None:
                np.testing.assert_array_equal(found, expected)


def _joined(strings):
    return np.frombuffer(b"".join(strings), np.uint8), np.cumsum([0, *map(len, strings)], dtype=np.int32)


SAMPLES = {
    "urls": [b"https://example.com/user/%d/item?id=%d" % (i * 7919 % 99991, i) for i in range(4000)],
    "bytes": [bytes(np.random.default_rng(i).integers(0, 256, i % 40, np.uint8)) for i in range(2000)],
    "zeros": [bytes(i % 23) for i in range(1500)],
    "escapes": [b"\xff" * (i % 9) for i in range(1200)],
    "short": [b"a", b"", b"ab", b"abc" * 4],
    "long": [b"the quick brown fox " * 3000, b"", b"jumps"],
    "growing": [b"ab" * (i // 50) for i in range(3000)],
    "empty": [b"", b""],
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.sampled(4)
def test_fsst_strings_survive_compression(monkeypatch, name):
    data, offsets = _joined(SAMPLES[name])
    table = train_symbols(data, offsets)
    assert table is not None
    assert parse_symbols(serialize_symbols(table)) == table
    codes, bounds = compress_strings(table, data, offsets)
    for expanded, stops in both(monkeypatch, lambda: expand_codes([table], codes, bounds)):
        assert expanded.tobytes() == data.tobytes()
        np.testing.assert_array_equal(stops, offsets)


def test_fsst_compresses_a_slice_of_strings_from_the_start_of_the_slice():
    data, offsets = _joined(SAMPLES["urls"])
    table = train_symbols(data, offsets[1000:2000])
    codes, bounds = compress_strings(table, data, offsets[1000:2000])
    expanded, _ = expand_codes([table], codes, bounds)
    assert bounds[0] == 0
    assert expanded.tobytes() == data[offsets[1000] : offsets[1999]].tobytes()


def test_fsst_shrinks_urls_to_less_than_a_third():
    data, offsets = _joined(SAMPLES["urls"])
    codes, _ = compress_strings(train_symbols(data, offsets), data, offsets)
    assert len(codes) * 3 < len(data)


def test_fsst_compresses_with_any_symbol_table():
    # Symbols that collide, an empty symbol, and a symbol that is a prefix of another.
    table = SymbolTable.of(True, (b"", b"abcdefgh", b"abcdefgi", b"abc", b"abcd", b"a", b"ab"))
    data, offsets = _joined([b"abcdefghabcdefgiabcdab", b"zzabc", b"abcdefg"])
    codes, bounds = compress_strings(table, data, offsets)
    expanded, _ = expand_codes([table], codes, bounds)
    assert expanded.tobytes() == data.tobytes()


@pytest.mark.parametrize(
    ("codes", "offsets"),
    [
        (b"\x00\xff", [0, 2]),
        (b"\xff\x00", [0, 1, 2]),
        (b"\x00\xff\xff\xff", [0, 4]),
        (b"\x00" * 5000 + b"\xff", [*range(5000), 5001]),
    ],
)
def test_compiled_and_numpy_kernels_both_refuse_trailing_fsst_escapes(monkeypatch, codes, offsets):
    table = SymbolTable.of(True, (b"abcdefgh",))
    arguments = ([table], np.frombuffer(codes, np.uint8), np.array(offsets))
    assert both(monkeypatch, lambda: expand_codes(*arguments)) == [None, None]


@pytest.mark.parametrize("offsets", [[0, 9], [-1, 3], [0, 3, 2, 3]])
def test_compiled_fsst_kernel_refuses_offsets_outside_the_codes(monkeypatch, offsets):
    monkeypatch.setenv("LANCE_CORE_COMPILED", "1")
    table = SymbolTable.of(True, (b"abcdefgh",))
    assert expand_codes([table], np.zeros(3, np.uint8), np.array(offsets)) is None


def test_fsst_codes_without_a_symbol_expand_to_nothing(monkeypatch):
    table = SymbolTable.of(True, (b"ab",))
    for expanded, stops in both(
        monkeypatch, lambda: expand_codes([table], np.array([0, 7, 0], np.uint8), np.array([0, 3]))
    ):
        assert expanded.tobytes() == b"abab"
        assert stops.tolist() == [0, 4]


@pytest.mark.parametrize("num_codes", [1 << 10, 1 << 17])
@pytest.mark.sampled(1)
def test_fsst_strings_of_several_tables_expand_together(monkeypatch, num_codes):
    random = np.random.default_rng(num_codes)
    names = ("urls", "bytes", "escapes", "short")
    tables, parts = [], []
    for name in names:
        data, offsets = _joined(SAMPLES[name])
        tables.append(train_symbols(data, offsets))
        chosen = random.integers(0, len(offsets) - 1, num_codes // 64)
        data, offsets = _joined([SAMPLES[name][index] for index in chosen.tolist()])
        parts.append((data, *compress_strings(tables[-1], data, offsets)))
    # A table without strings, between the others and at the end.
    tables = [*tables[:2], tables[0], *tables[2:], tables[1]]
    counts = [len(bounds) - 1 for _, _, bounds in parts]
    counts = [*counts[:2], 0, *counts[2:], 0]
    codes = np.concatenate([codes for _, codes, _ in parts])
    bounds = np.cumsum([0, *itertools.chain.from_iterable(np.diff(bounds).tolist() for _, _, bounds in parts)])
    for expanded, _ in both(monkeypatch, lambda: expand_codes(tables, codes, bounds, counts)):
        assert expanded.tobytes() == b"".join(data.tobytes() for data, _, _ in parts)


def test_more_fsst_tables_than_fit_into_16_bit_codes_expand_together(monkeypatch):
    tables = [SymbolTable.of(True, (b"%d" % number,)) for number in range(300)]
    codes, bounds = np.tile(np.array([0, 255, 33], np.uint8), 300), np.arange(0, 901, 3)
    for expanded, stops in both(monkeypatch, lambda: expand_codes(tables, codes, bounds, [1] * 300)):
        assert expanded.tobytes() == b"".join(b"%d!" % number for number in range(300))
        assert stops.tolist() == np.cumsum([0, *(len(b"%d!" % number) for number in range(300))]).tolist()


def test_small_inputs_never_load_numba():
    program = """
import sys
import numpy as np
from lance_core.encodings.kernels.fastlanes import unpack_pieces, pack_blocks
from lance_core.encodings.kernels.list_levels import peel_full_lists
for _ in range(20):
    pack_blocks(np.zeros((64, 1024), np.uint64), 64, 3)
    peel_full_lists(np.ones(100_000, np.uint16))
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, env={"PATH": "", "LANCE_CORE_COMPILED": ""})


def test_large_inputs_load_the_compiled_kernels(monkeypatch):
    monkeypatch.delenv("LANCE_CORE_COMPILED", raising=False)
    monkeypatch.setattr(loading._METER, "num_bytes", 0)
    assert loading.compiled_kernels("lists", loading.MIN_BYTES) is None
    assert loading.compiled_kernels("lists", loading.LOAD_BYTES) is not None
    assert loading.compiled_kernels("lists", loading.MIN_BYTES) is not None
    assert loading.compiled_kernels("lists", loading.MIN_BYTES - 1) is None


def test_kernels_without_numba_fall_back_to_numpy():
    program = """
import sys
sys.modules["numba"] = None
import numpy as np
from lance_core.encodings.kernels.fsst_symbols import train_symbols
from lance_core.encodings.kernels.list_levels import peel_full_lists
assert train_symbols(np.zeros(9, np.uint8), np.array([0, 9])) is None
assert peel_full_lists(np.ones(3, np.uint16)).offsets.tolist() == [0, 1, 2, 3]
"""
    subprocess.run([sys.executable, "-c", program], check=True, env={"PATH": "", "LANCE_CORE_COMPILED": "1"})


def test_kernels_compile_without_a_writable_cache_directory(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    program = """
from numba.core import caching
caching.CacheImpl._locator_classes = []
import numpy as np
from lance_core.encodings.kernels.list_levels import peel_full_lists
assert peel_full_lists(np.ones(3, np.uint16)).offsets.tolist() == [0, 1, 2, 3]
"""
    environment = {"PATH": "", "LANCE_CORE_COMPILED": "1", "HOME": str(blocked)}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
