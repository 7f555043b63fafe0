"""The listed files of a dataset, and the files that remain after it is dropped, equal those of pylance."""

import os
from pathlib import Path
from types import ModuleType

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import DatasetNotFoundError, InvalidInputError
from tests.support.numbered_rows import numbered_rows


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A dataset with versions by both libraries, an index, deletions, and a base path of each kind."""
    uri = str(tmp_path / "t")
    bases = [
        lance.DatasetBasePath(str(tmp_path / "hot"), "hot"),
        lance.DatasetBasePath(str(tmp_path / "cold"), "cold", is_dataset_root=True),
    ]
    lance.write_dataset(numbered_rows(0, 20), uri, max_rows_per_file=10, initial_bases=bases)
    lance.dataset(uri).create_scalar_index("x", "BTREE")
    lance_core.dataset(uri).delete("x = 3")
    lance_core.write_dataset(
        numbered_rows(20, 24), uri, mode="append", target_bases=["hot", "cold"], max_rows_per_file=2
    )
    lance.dataset(uri).create_branch("b")
    return uri


def _listed(reader: pa.RecordBatchReader) -> tuple[pa.Schema, list[tuple[object, ...]]]:
    return reader.schema, sorted(tuple(row.values()) for row in reader.read_all().to_pylist())


@pytest.mark.parametrize("place", ["", "/tree/b"])
def test_tracked_files_of_a_dataset_equal_those_of_pylance(uri: str, place: str) -> None:
    ours, theirs = lance_core.dataset(uri + place), lance.dataset(uri + place)
    for arguments in ({}, {"min_version": 3}):
        schema, found = _listed(ours.tracked_files(**arguments))
        assert (schema, found) == _listed(theirs.tracked_files(**arguments)) or place
        # The reference omits the indices that a branch shares with its root.
        found = [row for row in found if not place or row[3] != "index file"]
        assert found == _listed(theirs.tracked_files(**arguments))[1]
    seen: list[tuple[int, int | None]] = []
    ours.tracked_files(progress=lambda *counts: seen.append(counts)).read_all()
    assert seen == [(count + 1, len(seen)) for count in range(len(seen))]


def test_all_files_of_a_dataset_equal_those_of_pylance(uri: str) -> None:
    (Path(uri) / "data" / "left.lance").write_bytes(b"12345")
    schema, found = _listed(lance_core.dataset(uri).all_files())
    expected_schema, expected = _listed(lance.dataset(uri).all_files())
    assert schema == expected_schema
    assert [row[:3] for row in found] == [row[:3] for row in expected]
    assert all(abs((one[3] - other[3]).total_seconds()) < 0.01 for one, other in zip(found, expected, strict=True))
    assert (uri, "data/left.lance", 5) in [row[:3] for row in found]


@pytest.mark.parametrize("library", [lance, lance_core])
def test_a_dropped_dataset_leaves_no_files(uri: str, library: ModuleType) -> None:
    (Path(uri) / "notes.txt").write_text("x")
    library.LanceDataset.drop(uri)
    assert not os.path.exists(uri)
    library.LanceDataset.drop(uri, ignore_not_found=True)
    with pytest.raises(OSError if library is lance else DatasetNotFoundError):
        library.LanceDataset.drop(uri)


@pytest.mark.parametrize("library", [lance, lance_core])
@pytest.mark.parametrize("linked", ["data", "_indices", "data/more", "notes"])
def test_dropping_a_dataset_with_a_linked_directory_keeps_the_target_of_the_link(
    uri: str, tmp_path: Path, linked: str, library: ModuleType
) -> None:
    outside, link = tmp_path / "outside", Path(uri) / linked
    if link.exists():
        link.rename(outside)
    outside.mkdir(exist_ok=True)
    (outside / "precious").write_text("x")
    link.symlink_to(outside, target_is_directory=True)
    (Path(uri) / "data" / "dangling").symlink_to(tmp_path / "nowhere")
    before = sorted(outside.rglob("*"))
    library.LanceDataset.drop(uri)
    assert not os.path.lexists(uri)
    assert sorted(outside.rglob("*")) == before


def test_dropping_a_dataset_whose_root_is_a_link_leaves_no_files(uri: str, tmp_path: Path) -> None:
    """The reference removes only the link."""
    link = tmp_path / "link"
    link.symlink_to(uri, target_is_directory=True)
    lance_core.LanceDataset.drop(link)
    assert not os.path.lexists(link)
    assert not os.path.exists(uri)


def test_a_directory_that_is_not_a_dataset_is_not_dropped(uri: str, tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError, match="nothing was removed"):
        lance_core.LanceDataset.drop(tmp_path)
    with pytest.raises(DatasetNotFoundError, match="nothing was removed"):
        lance_core.LanceDataset.drop(tmp_path / "hot", ignore_not_found=True)
    with pytest.raises(InvalidInputError, match="branch 'b'"):
        lance_core.LanceDataset.drop(f"{uri}/tree/b")
    assert lance_core.dataset(uri).count_rows() == 23
