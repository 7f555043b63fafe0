"""ByteCache: bounded by bytes."""

from __future__ import annotations

from lance_core.buffers.byte_cache import ByteCache


def test_byte_cache_evicts_the_least_recently_used_entry_first() -> None:
    cache: ByteCache[tuple[int, int], str] = ByteCache(max_bytes=100)
    cache.put((0, 0), "a", 40)
    cache.put((0, 1), "b", 40)
    assert cache.get((0, 0)) == "a"
    cache.put((1, 0), "c", 40)
    assert [cache.get(key) for key in ((0, 0), (0, 1), (1, 0))] == ["a", None, "c"]
    assert cache.num_bytes == 80


def test_byte_cache_does_not_keep_an_entry_larger_than_itself() -> None:
    cache: ByteCache[tuple[int, int], str] = ByteCache(max_bytes=100)
    cache.put((0, 0), "a", 40)
    cache.put((0, 1), "b", 101)
    assert cache.get((0, 1)) is None
    assert cache.get((0, 0)) == "a"


def test_byte_cache_counts_a_replaced_entry_once() -> None:
    cache: ByteCache[tuple[int, int], str] = ByteCache(max_bytes=100)
    for _ in range(5):
        cache.put((0, 0), "a", 40)
    assert cache.num_bytes == 40
