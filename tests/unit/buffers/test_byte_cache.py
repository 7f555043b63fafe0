"""ByteCache is limited by the number of bytes in it."""

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


def test_byte_cache_evicts_the_least_recently_used_value_when_a_value_grows() -> None:
    cache: ByteCache[tuple[int, int], list[str]] = ByteCache(max_bytes=100)
    kept = ["kept"]
    cache.put((0, 0), kept, 10)
    cache.put((0, 1), ["evicted"], 50)
    cache.resize((0, 0), kept, 60)
    assert (cache.get((0, 0)), cache.get((0, 1)), cache.num_bytes) == (kept, None, 60)


def test_cached_value_that_grows_beyond_the_limit_is_evicted_without_evicting_others() -> None:
    cache: ByteCache[tuple[int, int], list[str]] = ByteCache(max_bytes=100)
    large = ["large"]
    cache.put((0, 0), large, 10)
    cache.put((0, 1), ["kept"], 50)
    cache.resize((0, 0), large, 101)
    assert (cache.get((0, 0)), cache.get((0, 1)), cache.num_bytes) == (None, ["kept"], 50)


def test_resizing_a_value_that_is_not_the_cached_one_has_no_effect() -> None:
    cache: ByteCache[tuple[int, int], list[str]] = ByteCache(max_bytes=100)
    cache.put((0, 0), ["value"], 10)
    cache.resize((0, 0), ["value"], 60)
    cache.resize((0, 1), ["absent"], 60)
    assert cache.num_bytes == 10
