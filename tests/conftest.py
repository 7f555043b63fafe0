"""What holds for every test: a time limit, and signal handlers of its own."""

from collections.abc import Iterator

import pytest

from tests.support.signal_handlers import own_signal_handlers

LIMITS_SECONDS = {"slow": 1800, "exhaustive": 3600, "soak": 7200}
"""Marker -> time limit; of several the longest holds. Tests without one of these have the limit of pyproject.toml."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        limits = [seconds for name, seconds in LIMITS_SECONDS.items() if item.get_closest_marker(name)]
        if limits and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(max(limits)))


@pytest.fixture(autouse=True)
def _own_signal_handlers() -> Iterator[None]:
    with own_signal_handlers():
        yield
