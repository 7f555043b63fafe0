"""Views of table versions, and the destinations of writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidTypeError, RetryableCommitConflictError
from lance_core.scan import table_view
from lance_core.scan.table_view import Destination

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

ROWS = pa.table({"x": [1, 2]})


def test_write_destination_given_as_a_location_reads_the_latest_version_only_on_request(uri: str) -> None:
    assert Destination.of(uri).with_latest().manifest is None
    lance_core.write_dataset(ROWS, uri)
    lance_core.write_dataset(ROWS, uri, mode="append")
    destination = Destination.of(uri)
    assert destination.manifest is None
    latest = destination.with_latest().manifest
    assert latest is not None
    assert latest.version == 2
    assert destination.showing(latest).version == 2


def test_write_destination_given_as_a_handle_has_the_version_and_the_options_of_the_handle(uri: str) -> None:
    lance_core.write_dataset(ROWS, uri)
    dataset = lance_core.dataset(uri, storage_options={"region": "here"})
    lance_core.write_dataset(ROWS, uri, mode="append")
    destination = Destination.of(dataset).with_latest()
    assert destination.manifest is dataset.manifest
    assert destination.storage_options == {"region": "here"}
    assert Destination.of(dataset, {"region": "there"}).storage_options == {"region": "there"}
    assert "here" not in repr(destination)


def test_write_destination_that_is_neither_a_location_nor_a_handle_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match="must be a str or a Path, found int"):
        Destination.of(7)  # type: ignore[arg-type]  # the subject


def test_write_destination_reads_the_latest_version_again_if_a_cleanup_removed_the_first_one(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lance_core.write_dataset(ROWS, uri)
    monkeypatch.setattr(table_view, "planned_line", _removed_times(2))
    latest = Destination.of(uri).with_latest().manifest
    assert latest is not None
    monkeypatch.setattr(table_view, "planned_line", _removed_times(99))
    with pytest.raises(RetryableCommitConflictError, match="in each of 10 attempts"):
        Destination.of(uri).with_latest()


def _removed_times(count: int) -> Callable[[VersionLog, Manifest], None]:
    """Return a function that fails this many times, as if the latest version were removed before its branch is read."""
    left = iter(range(count))

    def planned_line(log: VersionLog, manifest: Manifest) -> None:
        if next(left, None) is not None:
            raise RetryableCommitConflictError("version 1 was cleaned up")

    return planned_line
