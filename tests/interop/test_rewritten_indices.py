"""Rewrites that include rewritten indices: planned by pylance, committed by lance_core."""

import shutil
import uuid
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core import LanceOperation
from lance_core.errors import InvalidInputError, NotFoundError
from lance_core.proto import pb_table
from lance_core.table.index_metadata import read_fragment_bitmap
from lance_core.table.index_rules import decode_index_section

INDICES = {"a": "BTREE", "c": "BITMAP", "s": "INVERTED"}


def _rows(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    return pa.table({"a": list(numbers), "c": [n % 7 for n in numbers], "s": [f"w{n % 5} common" for n in numbers]})


@pytest.fixture(scope="module", params=["addresses", "stable"])
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An indexed table, and a copy that the reference has compacted."""
    path = tmp_path_factory.mktemp(request.param)
    uri = str(path / "t")
    dataset = lance.write_dataset(
        _rows(0, 60), uri, max_rows_per_file=20, enable_stable_row_ids=request.param == "stable"
    )
    for column, kind in INDICES.items():
        dataset.create_scalar_index(column, kind)
    lance.dataset(uri).delete("a % 10 = 3")
    shutil.copytree(uri, f"{uri}-twin")
    lance.dataset(f"{uri}-twin").optimize.compact_files()
    return path


@pytest.fixture
def uri(base: Path, tmp_path: Path) -> str:
    shutil.copytree(base, tmp_path, dirs_exist_ok=True)
    return str(tmp_path / "t")


def _planned(uri: str) -> LanceOperation.Rewrite:
    """Return the operation with which the reference compacted the copy, and copy its files to the table."""
    ours = lance_core.dataset(f"{uri}-twin")
    for directory in ("data", "_indices"):
        shutil.copytree(f"{uri}-twin/{directory}", f"{uri}/{directory}", dirs_exist_ok=True)
    return ours.read_transaction(ours.version).operation


def _indices(uri: str) -> list[pb_table.IndexMetadata]:
    return decode_index_section(lance_core.dataset(uri).manifest.index_section)


def _check_queries(uri: str) -> None:
    dataset = lance.dataset(uri)
    dataset.validate()
    rows = dataset.to_table(columns=["a", "c", "s"]).to_pylist()

    def found(**query: object) -> list[int]:
        return sorted(dataset.to_table(columns=["a"], **query)["a"].to_pylist())

    for number in range(70):
        assert found(filter=f"a = {number}") == [row["a"] for row in rows if row["a"] == number]
    for number in range(7):
        assert found(filter=f"c = {number}") == sorted(row["a"] for row in rows if row["c"] == number)
    for number in range(5):
        wanted = sorted(row["a"] for row in rows if row["s"].startswith(f"w{number} "))
        assert found(full_text_query=f"w{number}") == wanted


@pytest.mark.sampled(1)
def test_rewritten_index_entries_equal_those_of_pylance(uri: str) -> None:
    operation = _planned(uri)
    before = {index.name: index for index in _indices(uri)}
    read_version = lance_core.dataset(uri).version
    lance_core.LanceDataset.commit(uri, operation, read_version=read_version)
    theirs = {index.uuid.uuid: index for index in _indices(f"{uri}-twin")}
    new_ids = {uuid.UUID(each.new_id).bytes for each in operation.rewritten_indices}
    assert new_ids
    for index in _indices(uri):
        if index.uuid.uuid in new_ids:
            twin = theirs[index.uuid.uuid]
            index.files.sort(key=lambda file: file.path)
            twin.files.sort(key=lambda file: file.path)
            assert index == twin
        elif lance_core.dataset(uri).has_stable_row_ids:
            # Row ids in an index stay valid: it covers the new fragments, as in pylance, and keeps the old ones.
            (twin,) = [each for each in theirs.values() if each.name == index.name]
            covered = read_fragment_bitmap(before[index.name]) | read_fragment_bitmap(twin)
            assert read_fragment_bitmap(index) == covered
        else:
            assert index == before[index.name]
    _check_queries(uri)
    used = lance.dataset(uri).scanner(filter="a = 5").explain_plan(verbose=True)
    assert "ScalarIndexQuery" in used
    lance_core.write_dataset(_rows(60, 70), uri, mode="append")
    lance.dataset(uri).optimize.optimize_indices()
    lance.dataset(uri).optimize.compact_files()
    _check_queries(uri)


def test_a_rewrite_whose_fragment_id_was_taken_in_the_meantime_is_refused(uri: str) -> None:
    operation = _planned(uri)
    read_version = lance_core.dataset(uri).version
    lance_core.write_dataset(_rows(60, 70), uri, mode="append")
    with pytest.raises(lance_core.errors.InvalidInputError, match="must be unused"):
        # The new fragment took the unreserved id for which the indices were rewritten.
        lance_core.LanceDataset.commit(uri, operation, read_version=read_version)
    _check_queries(uri)


def test_a_rewrite_with_a_reserved_fragment_id_is_committed(uri: str) -> None:
    operation = _planned(uri)
    read_version = lance_core.dataset(uri).version
    lance_core.LanceDataset.commit(uri, LanceOperation.ReserveFragments(1), read_version=read_version)
    lance.write_dataset(_rows(60, 70), uri, mode="append")
    lance_core.LanceDataset.commit(uri, operation, read_version=read_version)
    assert [each.fragment_id for each in lance_core.dataset(uri).get_fragments()] == [3, 4]
    _check_queries(uri)


def test_a_rewritten_index_that_was_dropped_in_the_meantime_is_skipped(uri: str) -> None:
    operation = _planned(uri)
    operation.rewritten_indices = [
        replace(each, old_id=str(uuid.uuid4())) if position == 0 else each
        for position, each in enumerate(operation.rewritten_indices)
    ]
    lance_core.LanceDataset.commit(uri, operation, read_version=lance_core.dataset(uri).version)
    _check_queries(uri)


def test_rewritten_index_that_contradicts_the_table_or_its_files_is_refused(uri: str) -> None:
    operation = _planned(uri)
    version = lance_core.dataset(uri).version
    first = next(iter(operation.rewritten_indices))

    def attempt(*rewritten: LanceOperation.RewrittenIndex) -> None:
        planned = LanceOperation.Rewrite(operation.groups, list(rewritten))
        lance_core.LanceDataset.commit(uri, planned, read_version=version)

    with pytest.raises(InvalidInputError, match="twice"):
        attempt(first, first)
    with pytest.raises(NotFoundError, match="no files"):
        attempt(replace(first, new_id=str(uuid.uuid4())))
    with pytest.raises(InvalidInputError, match="not UUIDs"):
        attempt(replace(first, old_id="x"))
    other = next(str(uuid.UUID(bytes=each.uuid.uuid)) for each in _indices(uri) if each.name != "a_idx")
    with pytest.raises(InvalidInputError, match="another index"):
        attempt(replace(first, new_id=other))
    assert lance_core.dataset(uri).version == version


def test_a_rewrite_of_a_partly_indexed_group_is_refused(uri: str) -> None:
    """Both libraries refuse it, because the index would claim to cover rows that it does not contain."""
    lance.write_dataset(_rows(60, 70), uri, mode="append")
    twin = f"{uri}-other"
    shutil.copytree(uri, twin)
    for column in INDICES:
        lance.dataset(twin).drop_index(f"{column}_idx")
    lance.dataset(twin).optimize.compact_files()
    shutil.copytree(f"{twin}/data", f"{uri}/data", dirs_exist_ok=True)
    ours = lance_core.dataset(twin)
    groups = ours.read_transaction(ours.version).operation.groups
    old = str(uuid.UUID(bytes=_indices(uri)[0].uuid.uuid))
    rewritten = LanceOperation.RewrittenIndex(old, old, "/lance.table.BTreeIndexDetails", b"", 0)
    version = lance_core.dataset(uri).version
    with pytest.raises(InvalidInputError, match="in the same group"):
        lance_core.LanceDataset.commit(uri, LanceOperation.Rewrite(groups, [rewritten]), read_version=version)
