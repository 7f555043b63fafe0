"""The cases of a large parametrized test that run by default; the other cases are marked ``slow``.

``@pytest.mark.sampled(12)`` above a parametrized test says how many. The choice is the same everywhere and does not
depend on the order of the parameters: as long as the number suffices, every value of every parameter occurs in it.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Iterable, Mapping, Sequence

import pytest

_LONG = ("slow", "exhaustive", "soak")


def mark_all_but_samples(items: Iterable[pytest.Item]) -> None:
    """Add the marker ``slow`` to the cases of sampled tests that are not chosen."""
    cases: dict[tuple[pytest.Item, int], list[pytest.Function]] = {}
    for item in items:
        marker = item.get_closest_marker("sampled")
        if marker is None or any(item.get_closest_marker(name) for name in _LONG):
            continue
        assert isinstance(item, pytest.Function)
        assert hasattr(item, "callspec"), f"{item.nodeid} has no parameters to sample"
        (num_samples,) = marker.args
        cases.setdefault((item.parent, item.originalname, num_samples), []).append(item)  # type: ignore[arg-type]
    for (_, _, num_samples), of_one_test in cases.items():  # type: ignore[misc]
        values = {item.nodeid: item.callspec.indices for item in of_one_test}
        chosen = samples(values, num_samples)
        for item in of_one_test:
            if item.nodeid not in chosen:
                item.add_marker(pytest.mark.slow)


def samples(cases: Mapping[str, Mapping[str, Hashable]], num_samples: int) -> set[str]:
    """Choose cases: again and again the one with the most values that no other has, then by their names.

    Args:
        cases: name of a case -> parameter -> value.
        num_samples: that many, or all.
    """
    order: Sequence[str] = sorted(cases, key=lambda name: (zlib.crc32(name.encode()), name))
    left = {name: set(cases[name].items()) for name in order}
    chosen: set[str] = set()
    while left and len(chosen) < num_samples:
        best = max(left, key=lambda name: len(left[name]))
        seen = left.pop(best)
        chosen.add(best)
        for values in left.values():
            values -= seen
    return chosen
