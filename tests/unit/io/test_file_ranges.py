"""Ranges of local files have the same bytes whether they are copied or mapped."""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path

import numpy as np
import pytest

from lance_core.errors import CorruptDataError
from lance_core.io.byte_range import ByteRange
from lance_core.io.file_ranges import read_file_ranges, read_whole_file

DATA = np.random.default_rng(1).bytes(3_000_000)


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "f").write_bytes(DATA)
    return str(tmp_path / "f")


@pytest.mark.parametrize(
    "bounds",
    [
        [(0, 10)],
        [(5, 5), (2_999_999, 3_000_000), (4096, 9000)],
        [(1, 2_000_000)],
        [(2_500_000, 2_999_999), (100, 1_000_000)],
        [(start, start + 300) for start in range(0, 2_900_000, 30_000)],
        [(start, start + 300) for start in range(0, 2_900_000, 400)],
        [],
    ],
    ids=["few", "small", "large", "unordered", "sparse", "dense", "none"],
)
def test_file_ranges_contain_the_bytes_of_the_file(path: str, bounds: list[tuple[int, int]]) -> None:
    found = read_file_ranges(path, [ByteRange(*each) for each in bounds])
    assert [bytes(buffer) for buffer in found] == [DATA[slice(*each)] for each in bounds]


def test_large_file_ranges_are_not_copied(path: str) -> None:
    first, second = read_file_ranges(path, [ByteRange(100, 1_000_000), ByteRange(1_000_000, 2_000_000)])
    assert second.address - first.address == 999_900


def test_file_ranges_are_copied_when_mapping_fails(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(mmap, "mmap", refuse)
    [found] = read_file_ranges(path, [ByteRange(7, 2_000_007)])
    assert bytes(found) == DATA[7:2_000_007]


def test_whole_file_is_read_even_when_empty(path: str, tmp_path: Path) -> None:
    assert bytes(read_whole_file(path)) == DATA
    (tmp_path / "empty").touch()
    assert bytes(read_whole_file(str(tmp_path / "empty"))) == b""


def test_file_ranges_past_the_end_raise_corrupt_data(path: str) -> None:
    with pytest.raises(CorruptDataError, match="the file has 3000000"):
        read_file_ranges(path, [ByteRange(0, 5), ByteRange(2_999_999, 3_000_001)])
