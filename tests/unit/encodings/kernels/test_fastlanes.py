"""FastLanes packing, compared with checksums of pages written by pylance 14.0.2, and round trips."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from lance_core.encodings.kernels.fastlanes import BLOCK_VALUES, block_bytes, pack_blocks, unpack_blocks

VECTORS = [
    (8, 3, 384, "004992db246db6ff", 0x5181CB89),
    (16, 1, 128, "0000ffff0000ffff", 0xEA95EFF2),
    (16, 5, 640, "000031c6420873ce", 0xC19D7F18),
    (32, 7, 896, "00000000b1582c16", 0x55CA4AF5),
    (32, 17, 2176, "000000b1b17963a4", 0x0A9BFCDD),
    (64, 20, 2560, "00000088cd00b109", 0x122C192F),
    (64, 63, 8064, "0000000000000000", 0x367D0B10),
]


@pytest.mark.parametrize(("value_bits", "packed_bits", "num_bytes", "first_bytes", "checksum"), VECTORS)
def test_fastlanes_block_has_the_known_bytes(value_bits, packed_bits, num_bytes, first_bytes, checksum):
    values = np.array([i * 2654435761 % 2**packed_bits for i in range(BLOCK_VALUES)], np.uint64)
    packed = pack_blocks(values.astype(f"<u{value_bits // 8}").reshape(1, -1), value_bits, packed_bits).tobytes()
    assert len(packed) == num_bytes == block_bytes(packed_bits)
    assert packed[:8].hex() == first_bytes
    assert zlib.crc32(packed) == checksum


@pytest.mark.parametrize("num_blocks", [0, 1, 3, 17])
@pytest.mark.parametrize("value_bits", [8, 16, 32, 64])
def test_fastlanes_blocks_of_every_width_survive_a_round_trip(value_bits, num_blocks):
    rng = np.random.default_rng(value_bits)
    for packed_bits in range(value_bits + 1):
        high = 1 << packed_bits
        values = rng.integers(0, high, (num_blocks, BLOCK_VALUES), np.uint64) if packed_bits else 0
        values = np.broadcast_to(values, (num_blocks, BLOCK_VALUES)).astype(f"<u{value_bits // 8}")
        unpacked = np.full_like(values, 77)
        unpack_blocks(pack_blocks(values, value_bits, packed_bits), value_bits, packed_bits, unpacked)
        assert (unpacked == values).all(), packed_bits


def test_fastlanes_blocks_beyond_one_batch_survive_a_round_trip():
    values = np.arange(700 * BLOCK_VALUES, dtype=np.uint32).reshape(700, BLOCK_VALUES)
    unpacked = np.empty_like(values)
    unpack_blocks(pack_blocks(values, 32, 20), 32, 20, unpacked)
    assert (unpacked == values).all()


@pytest.mark.parametrize("num_blocks", [3, 17])
def test_fastlanes_blocks_with_gaps_between_them_are_unpacked(num_blocks):
    values = np.arange(num_blocks * BLOCK_VALUES, dtype=np.uint16).reshape(num_blocks, BLOCK_VALUES) % 4096
    packed = pack_blocks(values, 16, 12)
    spaced = np.zeros((num_blocks, packed.shape[1] + 5), np.uint16)
    spaced[:, : packed.shape[1]] = packed
    unpacked = np.empty_like(values)
    unpack_blocks(spaced[:, : packed.shape[1]], 16, 12, unpacked)
    assert (unpacked == values).all()
