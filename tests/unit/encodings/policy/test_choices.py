"""Decisions of the write policy about sizes and layouts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_core.encodings.api import FixedWidthBlock, VariableWidthBlock
from lance_core.encodings.policy.choices import MiniBlockChoice
from lance_core.encodings.policy.constants import common_value
from lance_core.encodings.policy.dictionary import dictionary_fits, dictionary_pays, may_have_few_distinct
from lance_core.encodings.policy.field_options import FieldOptions
from lance_core.encodings.policy.fixed_width import choose_words
from lance_core.encodings.policy.format_rules import rules_of
from lance_core.encodings.policy.strings import choose_chunks, choose_compression, compressed_ratio
from lance_core.errors import UnsupportedVersionError
from lance_core.versions import LanceFileVersion
from tests.support.encoded_blocks import words

RNG = np.random.default_rng(2)
PLAIN = FieldOptions()
V2_1, V2_2 = rules_of(LanceFileVersion.V2_1), rules_of(LanceFileVersion.V2_2)


def strings(lengths, data=None):
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int32)
    data = RNG.integers(0, 256, offsets[-1]).astype(np.uint8) if data is None else data
    return VariableWidthBlock(offsets, data)


@pytest.mark.parametrize(
    ("values", "options", "arm"),
    [
        (RNG.integers(0, 1 << 20, 4000), PLAIN, "inline_bitpacking"),
        (RNG.integers(0, 1 << 31, 4000), PLAIN, "flat"),
        (np.repeat(RNG.integers(0, 1 << 31, 40), 100), PLAIN, "rle"),
        (np.repeat(RNG.integers(0, 1 << 31, 40), 100), FieldOptions(rle_threshold=0.0), "flat"),
        (np.repeat([1, 0], 2000), PLAIN, "rle"),
        (RNG.integers(0, 2, 4000), PLAIN, "inline_bitpacking"),
        (RNG.integers(0, 1 << 20, 4000), FieldOptions(compression="none"), "flat"),
        (RNG.integers(0, 1 << 31, 4000), FieldOptions(compression="zstd", bss=True), "byte_stream_split"),
    ],
)
def test_encoding_of_words_depends_on_their_values(values, options, arm):
    choice = choose_words(words(values, 32), options)
    assert choice is not None
    assert choice.arm == arm
    assert (choice.compression is None) == (options.general is None)


def test_chunks_of_words_have_the_requested_size():
    block = words(RNG.integers(0, 1 << 31, 4000), 32)
    sizes = [choose_words(block, FieldOptions(minichunk_bytes=size)).values_per_chunk for size in (64, 1000, 1 << 20)]
    assert sizes == [16, 128, 4096]
    assert choose_words(block, FieldOptions(structure="fullzip")) is None


def test_flat_chunks_are_the_next_smaller_choice_after_bitpacked_chunks():
    block = words(range(4000), 32)
    assert MiniBlockChoice("inline_bitpacking", 1024).smaller(block) == MiniBlockChoice("flat", 512)
    assert MiniBlockChoice("flat", 2).smaller(block) is None
    assert MiniBlockChoice("flat", 8).smaller(FixedWidthBlock(64, 1, np.zeros(8, np.uint8))) is None


def test_strings_that_do_not_shrink_are_not_compressed():
    noise = strings([50] * 1000)
    ratio = compressed_ratio(noise, PLAIN)
    assert ratio > 0.95
    assert choose_compression(ratio, PLAIN) is None
    blank = strings([50] * 1000, np.zeros(50_000, np.uint8))
    assert compressed_ratio(blank, PLAIN) < 0.1
    assert compressed_ratio(blank, FieldOptions(compression="none")) == 1.0


def test_chunk_accepts_a_long_string_only_up_to_a_limit():
    lengths = [10] * 1000
    lengths[500] = 40_000
    for rules in (V2_1, V2_2):
        assert choose_chunks(strings(lengths), None, PLAIN, rules) is not None
        lengths[500] = 100_000
        assert choose_chunks(strings(lengths), None, PLAIN, rules) is None
        lengths[500] = 40_000


def test_number_of_distinct_values_is_estimated_before_choosing_a_dictionary():
    def few(num_distinct, num_values, plain_bytes, **options):
        array = pa.array(RNG.integers(0, num_distinct, num_values))
        return may_have_few_distinct(array, 8, plain_bytes, FieldOptions(**options))

    assert few(50, 100_000, 800_000)
    assert few(10_000, 100_000, 800_000)
    assert not few(90_000, 100_000, 800_000)
    assert not few(50, 100_000, 60_000)
    assert not few(50, 90, 720)
    assert not few(10_000, 100_000, 800_000, dict_divisor=50)
    assert not few(50, 100_000, 800_000, dict_size_ratio=0.01)
    assert not may_have_few_distinct(pa.nulls(1000, pa.int64()), 8, 8000, PLAIN)


def test_dictionary_is_chosen_only_when_smaller_than_the_plain_page():
    assert dictionary_fits(50, 1000, PLAIN)
    assert not dictionary_fits(501, 1000, PLAIN)
    assert not dictionary_fits(50, 1000, FieldOptions(dict_divisor=100))
    assert dictionary_pays(7600, 8000, PLAIN)
    assert not dictionary_pays(7800, 8000, PLAIN)
    assert not dictionary_pays(7600, 8000, FieldOptions(dict_size_ratio=0.8))


def test_common_value_is_found_by_comparing_bytes():
    assert common_value(words([7] * 9, 16), None).data.tobytes() == b"\x07\x00"
    assert common_value(words([7, 8, 7], 16), np.array([True, False, True])).data.tobytes() == b"\x07\x00"
    assert common_value(words([7, 8, 7], 16), None) is None
    zeros = FixedWidthBlock(2, 64, np.array([0.0, -0.0]).view(np.uint8))
    assert common_value(zeros, None) is None
    assert common_value(FixedWidthBlock(3, 24, np.array([1, 2, 3] * 3, np.uint8)), None).data.tolist() == [1, 2, 3]
    assert common_value(FixedWidthBlock(10, 1, np.array([0xFF, 0x03], np.uint8)), None).data.tolist() == [1]
    assert common_value(FixedWidthBlock(10, 1, np.array([0xFF, 0x01], np.uint8)), None) is None


def test_encoding_rules_of_an_unsupported_version_are_refused():
    with pytest.raises(UnsupportedVersionError):
        rules_of(LanceFileVersion.V2_3)
