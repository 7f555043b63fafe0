"""Reading ahead keeps the order of the items, has a limit, and raises each error after the items that precede it."""

from collections.abc import Iterator

import pytest

from lance_core.compaction.execution import read_ahead


@pytest.mark.parametrize("count", [0, 1, 2, 3, 10])
def test_read_ahead_yields_items_in_order(count: int) -> None:
    assert list(read_ahead(iter(range(count)), 3)) == list(range(count))


def test_read_ahead_takes_no_more_items_than_requested() -> None:
    taken: list[int] = []

    def source() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    items = read_ahead(source(), 2)
    for number in range(10):
        assert next(items) == number
        assert len(taken) <= number + 3
    items.close()
    assert len(taken) <= 12


def test_read_ahead_yields_all_items_before_an_error_and_then_raises_the_error() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    items = read_ahead(source(), 4)
    assert next(items) == 1
    with pytest.raises(ValueError, match="broken"):
        next(items)
