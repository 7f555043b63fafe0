"""The progress of writes is reported as by pylance, and the progress classes of both libraries are interchangeable."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import lance.progress
import pyarrow as pa
import pytest

import lance_core
import lance_core.progress
from lance_core.errors import InvalidTypeError

EACH = pytest.mark.parametrize("library", [lance, lance_core])
ROWS = pa.table({"a": list(range(10))})


def recording(library: ModuleType, events: list[tuple[str, int | None, list[str]]], fails_at: str = "") -> Any:
    """Return a progress object of a library that records its calls."""

    class Recording(library.progress.FragmentWriteProgress):
        def begin(self, fragment: Any, **kwargs: Any) -> None:
            self._record("begin", fragment)

        def complete(self, fragment: Any, **kwargs: Any) -> None:
            self._record("complete", fragment)

        def _record(self, event: str, fragment: Any) -> None:
            events.append((event, fragment.physical_rows, [file.path for file in fragment.files]))
            if event == fails_at:
                raise RuntimeError(f"failed at {event}")

    return Recording()


@EACH
@pytest.mark.parametrize("classes", [lance, lance_core])
def test_progress_of_a_write_is_reported_for_each_fragment(
    library: ModuleType, classes: ModuleType, tmp_path: Path
) -> None:
    events: list[tuple[str, int | None, list[str]]] = []
    # pylance calls methods that exist only in its own class.
    progress = recording(library if library is lance else classes, events)
    dataset = library.write_dataset(ROWS, str(tmp_path / "t"), max_rows_per_file=4, progress=progress)
    files = [fragment.data_files()[0].path for fragment in dataset.get_fragments()]
    rows = [4, 4, 2]
    expected = [
        event
        for name, count in zip(files, rows, strict=True)
        for event in (("begin", None, []), ("complete", count, [name]))
    ]
    # pylance does not report that the last fragment is complete.
    assert events == (expected[:-1] if library is lance else expected)


def test_progress_of_written_fragments_is_reported(tmp_path: Path) -> None:
    events: list[tuple[str, int | None, list[str]]] = []
    fragments = lance_core.write_fragments(ROWS, tmp_path / "t", progress=recording(lance_core, events))
    assert events == [("begin", None, []), ("complete", 10, [fragments[0].files[0].path])]


@pytest.mark.parametrize("event", ["begin", "complete"])
def test_write_whose_progress_callback_fails_leaves_no_files(tmp_path: Path, event: str) -> None:
    dataset = lance_core.write_dataset(ROWS, tmp_path / "t")
    before = sorted(tmp_path.rglob("*.lance"))
    with pytest.raises(RuntimeError, match=f"failed at {event}"):
        lance_core.write_dataset(ROWS, dataset, mode="append", progress=recording(lance_core, [], event))
    assert sorted(tmp_path.rglob("*.lance")) == before
    assert dataset.latest_version == 1


def test_progress_object_without_the_required_methods_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidTypeError, match="progress must have the methods begin and complete, found object"):
        lance_core.write_dataset(ROWS, tmp_path / "t", progress=object())
    assert not (tmp_path / "t").exists()


@EACH
def test_progress_files_show_the_fragment_that_is_being_written(library: ModuleType, tmp_path: Path) -> None:
    progress = library.progress.FileSystemFragmentWriteProgress(str(tmp_path / "p"), {"worker": "w"})
    fragment = library.FragmentMetadata(7, [], 0)
    progress.begin(fragment)
    marker, metadata = tmp_path / "p" / "fragment_7.in_progress", tmp_path / "p" / "fragment_7.json"
    assert json.loads(marker.read_text()) == {"fragment_id": 7, "metadata": {"worker": "w"}}
    assert json.loads(metadata.read_text())["id"] == 7
    progress.complete(fragment)
    assert (marker.exists(), metadata.exists()) == (False, True)


@EACH
def test_progress_class_that_does_nothing_does_not_change_the_write(library: ModuleType, tmp_path: Path) -> None:
    progress = library.progress.NoopFragmentWriteProgress()
    assert library.write_dataset(ROWS, str(tmp_path / "t"), progress=progress).count_rows() == 10


def test_progress_files_of_a_complete_write_include_no_in_progress_marker(tmp_path: Path) -> None:
    progress = lance_core.progress.FileSystemFragmentWriteProgress(str(tmp_path / "p"))
    lance_core.write_dataset(ROWS, tmp_path / "t", max_rows_per_file=4, progress=progress)
    assert [path.name for path in (tmp_path / "p").iterdir()] == ["fragment_0.json"]
