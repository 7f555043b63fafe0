"""Tables with files in several base paths are written by either library, and read and changed by both."""

import re
import shutil
from pathlib import Path
from types import ModuleType

import lance
import pytest

import lance_core
from lance_core.errors import (
    CorruptDataError,
    InvalidInputError,
    InvalidTypeError,
    NotFoundError,
    RetryableCommitConflictError,
)
from lance_core.repair import ProblemKind, diagnose
from lance_core.table.manifest_draft import ManifestDraft
from tests.support.numbered_rows import numbered_rows

BOTH = pytest.mark.parametrize("maker", [lance, lance_core], ids=["pylance", "lance_core"])
EACH = (lance, lance_core)


def _values(uri: str, reader: ModuleType) -> list[int]:
    dataset = reader.dataset(uri)
    dataset.validate()
    return sorted(dataset.to_table()["x"].to_pylist())


def _bases(root: Path, maker: ModuleType) -> list[object]:
    """Return a base path that is a plain directory, and one that is a table root."""
    return [
        maker.DatasetBasePath(str(root / "hot"), "hot"),
        maker.DatasetBasePath(str(root / "cold"), "cold", is_dataset_root=True),
    ]


def _base_ids(uri: str) -> list[int | None]:
    fragments = lance_core.dataset(uri).manifest.fragments
    return [file.base_id for fragment in fragments for file in fragment.files]


@pytest.mark.parametrize(("maker", "writer"), [(lance, lance_core), (lance_core, lance), (lance_core, lance_core)])
def test_new_files_alternate_among_the_target_bases(tmp_path: Path, maker: ModuleType, writer: ModuleType) -> None:
    uri = str(tmp_path / "t")
    maker.write_dataset(numbered_rows(0, 3), uri, initial_bases=_bases(tmp_path, maker), target_bases=["hot"])
    writer.write_dataset(numbered_rows(3, 9), uri, mode="append", target_bases=["cold", "hot"], max_rows_per_file=2)
    writer.write_dataset(numbered_rows(9, 17), uri, mode="append", target_all_bases=True, max_rows_per_file=2)
    writer.write_dataset(numbered_rows(17, 18), uri, mode="append")
    writer.write_dataset(numbered_rows(18, 19), uri, mode="append", target_bases=[str(tmp_path / "hot")])
    assert _base_ids(uri) == [1, 2, 1, 2, None, 1, 2, None, None, 1]
    assert len(list((tmp_path / "hot").glob("*.lance"))) == 4
    assert len(list((tmp_path / "cold/data").glob("*.lance"))) == 3
    assert len(list((tmp_path / "t/data").glob("*.lance"))) == 3
    for reader in EACH:
        assert _values(uri, reader) == list(range(19))
    # Deletion files and rewritten rows are stored in the table's own root.
    writer.dataset(uri).delete("x in (1, 4)")
    assert all(
        not fragment.deletion_file.HasField("base_id")
        for fragment in lance_core.dataset(uri).manifest.message.fragments
    )
    assert list((tmp_path / "t/_deletions").iterdir())
    for reader in EACH:
        assert _values(uri, reader) == sorted({*range(19)} - {1, 4})
    writer.dataset(uri).optimize.compact_files()
    for reader in EACH:
        assert _values(uri, reader) == sorted({*range(19)} - {1, 4})


def test_unknown_target_base_is_refused_with_a_list_of_known_bases(tmp_path: Path) -> None:
    hot = lance_core.DatasetBasePath(str(tmp_path / "hot"), "hot")
    cold = lance_core.DatasetBasePath(str(tmp_path / "cold"))
    dataset = lance_core.write_dataset(numbered_rows(0, 3), str(tmp_path / "t"), initial_bases=[hot, cold])
    known = re.escape(str(sorted(["hot", cold.path])))
    with pytest.raises(InvalidInputError, match=f"unknown target base 'warm'; the table has: {known}"):
        lance_core.write_dataset(numbered_rows(3, 5), dataset, mode="append", target_bases=["warm"])
    for invalid in (5, "hot", [1]):
        with pytest.raises(InvalidTypeError, match="target_bases must be a list of names or paths"):
            lance_core.write_dataset(numbered_rows(3, 5), dataset, mode="append", target_bases=invalid)  # type: ignore[arg-type]
    for name in ("".join(["h", "ot"]), cold.path, f"file://{cold.path}"):
        dataset = lance_core.write_dataset(numbered_rows(3, 5), dataset, mode="append", target_bases=[name])
    assert _base_ids(dataset.uri) == [None, 1, 2, 2]


@BOTH
def test_base_paths_added_later_are_listed_and_used_by_both_libraries(tmp_path: Path, maker: ModuleType) -> None:
    uri = str(tmp_path / "t")
    maker.write_dataset(numbered_rows(0, 3), uri)
    handle = maker.dataset(uri)
    assert handle.add_bases(_bases(tmp_path, maker), {"why": "tiers"}).version == 2
    for reader in EACH:
        bases = reader.dataset(uri).base_paths()
        assert {key: (base.id, base.name, base.path, base.is_dataset_root) for key, base in bases.items()} == {
            1: (1, "hot", str(tmp_path / "hot"), False),
            2: (2, "cold", str(tmp_path / "cold"), True),
        }
        assert reader.dataset(uri).read_transaction(2).transaction_properties["why"] == "tiers"
        reader.write_dataset(numbered_rows(3, 4), uri, mode="append", target_bases=["cold"])
    for reader in EACH:
        assert _values(uri, reader) == [0, 1, 2, 3, 3]
    for taken in (("hot", "elsewhere"), ("new", "hot")):
        with pytest.raises(ValueError, match=str(tmp_path)):
            lance_core.dataset(uri).add_bases([lance_core.DatasetBasePath(str(tmp_path / taken[1]), taken[0])])


@BOTH
def test_a_base_path_can_be_moved_with_copies_of_its_files(tmp_path: Path, maker: ModuleType) -> None:
    uri = str(tmp_path / "t")
    maker.write_dataset(numbered_rows(0, 3), uri, initial_bases=_bases(tmp_path, maker), target_bases=["hot"])
    maker.write_dataset(numbered_rows(3, 5), uri, mode="append", target_bases=["cold"])
    (tmp_path / "hot").rename(tmp_path / "warm")
    (tmp_path / "cold").rename(tmp_path / "frozen")
    moved = [
        lance_core.DatasetBasePath(str(tmp_path / "warm"), "hot", id=1),
        lance_core.DatasetBasePath(str(tmp_path / "frozen"), "cold", is_dataset_root=True, id=2),
    ]
    dataset = lance_core.dataset(uri).add_bases(moved)
    assert {base.id: base for base in moved} == dataset.base_paths()
    for writer in EACH:
        writer.write_dataset(numbered_rows(5, 6), uri, mode="append", target_bases=["cold"])
    for reader in EACH:
        assert _values(uri, reader) == [0, 1, 2, 3, 4, 5, 5]
    assert len(list((tmp_path / "frozen" / "data").iterdir())) == 3


def test_pylance_requires_a_new_name_for_a_moved_base_path(tmp_path: Path) -> None:
    lance.write_dataset(numbered_rows(0, 3), tmp_path / "t", initial_bases=_bases(tmp_path, lance))
    dataset = lance.dataset(tmp_path / "t")
    with pytest.raises(ValueError, match="already exists"):
        dataset.add_bases([lance.DatasetBasePath(str(tmp_path / "warm"), "hot", id=1)])
    dataset.add_bases([lance.DatasetBasePath(str(tmp_path / "warm"), "warm", id=1)])
    assert lance_core.dataset(tmp_path / "t").base_paths()[1].path == str(tmp_path / "warm")


def test_a_base_path_cannot_be_moved_without_all_of_its_files(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    bases = _bases(tmp_path, lance_core)
    lance_core.write_dataset(numbered_rows(0, 4), uri, initial_bases=bases, target_bases=["hot"], max_rows_per_file=1)
    dataset = lance_core.dataset(uri)
    moved = lance_core.DatasetBasePath(str(tmp_path / "warm"), "hot", id=1)
    with pytest.raises(NotFoundError, match=r"base paths cannot be moved \(1 to .* and 3 more; copy the files first"):
        dataset.add_bases([moved])
    shutil.copytree(tmp_path / "hot", tmp_path / "warm")
    lost = next((tmp_path / "warm").iterdir())
    lost.rename(tmp_path / "warm" / "elsewhere")
    with pytest.raises(NotFoundError, match=f"{lost}; copy the files first"):
        dataset.add_bases([moved])
    with pytest.raises(InvalidInputError, match="given twice"):
        dataset.add_bases([moved, lance_core.DatasetBasePath(str(tmp_path / "x"), "x", id=1)])
    with pytest.raises(InvalidInputError, match="already used by base 2"):
        dataset.add_bases([lance_core.DatasetBasePath(str(tmp_path / "warm"), "cold", id=1)])
    assert dataset.latest_version == 1
    # The content of the old location does not matter, and a base path without files can be moved anywhere.
    (tmp_path / "warm" / "elsewhere").rename(lost)
    shutil.rmtree(tmp_path / "hot")
    dataset.add_bases([moved, lance_core.DatasetBasePath("/nowhere", "cold", id=2)])
    assert _values(uri, lance_core) == [0, 1, 2, 3]


def test_a_base_path_cannot_be_moved_while_other_writers_add_files_to_it(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_core.write_dataset(numbered_rows(0, 2), uri, initial_bases=_bases(tmp_path, lance_core), target_bases=["hot"])
    shutil.copytree(tmp_path / "hot", tmp_path / "warm")
    early, late = lance_core.dataset(uri), lance_core.dataset(uri)
    moved = lance_core.DatasetBasePath(str(tmp_path / "warm"), "hot", id=1)
    append = lance_core.write_fragments(numbered_rows(2, 3), uri, target_bases=["hot"], return_transaction=True)
    lance_core.write_dataset(numbered_rows(3, 4), uri, mode="append", target_bases=["hot"])
    with pytest.raises((RetryableCommitConflictError, NotFoundError)):
        early.add_bases([moved])
    shutil.copytree(tmp_path / "hot", tmp_path / "warm", dirs_exist_ok=True)
    late.checkout_latest()
    late.add_bases([moved])
    with pytest.raises(RetryableCommitConflictError):
        lance_core.LanceDataset.commit(uri, append)
    lance_core.write_dataset(numbered_rows(2, 3), uri, mode="append", target_bases=["hot"])
    assert _values(uri, lance_core) == _values(uri, lance) == [0, 1, 2, 3]


def test_the_doctor_reports_base_paths_whose_files_cannot_be_read(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_core.write_dataset(numbered_rows(0, 2), uri, initial_bases=_bases(tmp_path, lance_core), target_bases=["hot"])
    dataset = lance_core.dataset(uri)
    dataset.add_bases([lance_core.DatasetBasePath("s3nowhere://b/unused", "unused")])
    assert diagnose(dataset.log) == []
    (tmp_path / "hot").rename(tmp_path / "elsewhere")
    (problem,) = diagnose(dataset.log)
    assert (problem.kind, problem.is_repairable) == (ProblemKind.UNREACHABLE_BASE, False)
    assert re.fullmatch(
        rf"{tmp_path}/hot \(id 1\), used by version 2 \(missing: {tmp_path}/hot/\w+\.lance\)", problem.place
    )


def test_fragments_written_to_base_paths_can_be_committed_later(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    first = lance_core.write_fragments(
        numbered_rows(0, 4),
        uri,
        mode="create",
        initial_bases=_bases(tmp_path, lance_core),
        target_bases=["cold"],
        return_transaction=True,
    )
    lance_core.LanceDataset.commit(uri, first)
    fragments = lance_core.write_fragments(numbered_rows(4, 6), uri, target_bases=["hot"])
    lance_core.LanceDataset.commit(uri, lance_core.LanceOperation.Append(fragments), read_version=1)
    assert _base_ids(uri) == [2, 1]
    for reader in EACH:
        assert _values(uri, reader) == list(range(6))


@BOTH
def test_an_index_below_a_base_path_answers_queries(tmp_path: Path, maker: ModuleType) -> None:
    uri, branch = str(tmp_path / "t"), f"{tmp_path / 't'}/tree/b"
    lance.write_dataset(numbered_rows(0, 100), uri).create_scalar_index("x", "BTREE")
    maker.dataset(uri).create_branch("b")
    maker.dataset(branch).delete("x = 7")
    maker.write_dataset(numbered_rows(200, 210), branch, mode="append")
    dataset = lance.dataset(branch)
    assert dataset.to_table(filter="x = 42").num_rows == 1
    assert dataset.to_table(filter="x in (7, 203)").num_rows == 1
    assert "ScalarIndexQuery" in dataset.scanner(filter="x = 42").explain_plan()


def test_files_of_a_write_that_fails_are_removed_from_every_base(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_core.write_dataset(numbered_rows(0, 1), uri, initial_bases=_bases(tmp_path, lance_core))

    def failing():  # a generator of batches
        yield from numbered_rows(0, 8).to_batches(max_chunksize=2)
        raise RuntimeError("gone")

    with pytest.raises(RuntimeError, match="gone"):
        lance_core.write_dataset(
            failing(), uri, schema=numbered_rows(0, 1).schema, mode="append", target_all_bases=True, max_rows_per_file=2
        )
    assert len(list(tmp_path.rglob("*.lance"))) == 1


def test_conflicting_or_unknown_base_paths_are_refused(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    base = lance_core.DatasetBasePath
    for bases in (
        [base("/a", "n"), base("/b", "n")],
        [base("/a"), base("/a", "n")],
        [base("/a", id=3), base("/b", "n", id=3)],
    ):
        with pytest.raises(InvalidInputError, match="two of the new base paths"):
            lance_core.write_dataset(numbered_rows(0, 1), uri, initial_bases=bases)
    for wrong in ("x", ["/a"], 5):
        with pytest.raises(InvalidTypeError):
            lance_core.write_dataset(numbered_rows(0, 1), uri, initial_bases=wrong)
    with pytest.raises(InvalidInputError, match="nope"):
        lance_core.write_dataset(numbered_rows(0, 1), uri, target_bases=["nope"])
    assert not Path(uri).exists()
    lance_core.write_dataset(numbered_rows(0, 1), uri, initial_bases=_bases(tmp_path, lance_core))
    for mode in ("append", "overwrite"):
        with pytest.raises(InvalidInputError, match="initial_bases"):
            lance_core.write_dataset(numbered_rows(0, 1), uri, mode=mode, initial_bases=[base("/a")])
    with pytest.raises(InvalidInputError, match="together"):
        lance_core.write_dataset(numbered_rows(0, 1), uri, mode="append", target_bases=["hot"], target_all_bases=True)
    with pytest.raises(InvalidTypeError, match="target_bases"):
        lance_core.write_dataset(numbered_rows(0, 1), uri, mode="append", target_bases="hot")


HOSTILE = [
    "../secret.lance",
    "/etc/passwd",
    "a/../../b",
    "s3://b/x",
    "file:/x",
    "a\\..\\b",
    "%2e%2e/x",
    "%252e%252e/x",
    "a/./b",
    "a//b",
]


@pytest.mark.parametrize("path", HOSTILE)
@pytest.mark.parametrize("base_id", [None, 1, 2])
def test_paths_in_a_manifest_cannot_leave_their_base_path(tmp_path: Path, path: str, base_id: int | None) -> None:
    """A manifest that refers to a file elsewhere is refused when the file is read; such a file cannot be committed."""
    uri = str(tmp_path / "t")
    dataset = lance_core.write_dataset(numbered_rows(0, 1), uri, initial_bases=_bases(tmp_path, lance_core))
    draft = ManifestDraft(dataset.manifest)
    file = draft.message.fragments[0].files[0]
    file.path = path
    if base_id is not None:
        file.base_id = base_id
    sealed = draft.seal(transaction=b"", transaction_file="", timestamp_ns=1)
    (Path(uri) / "_versions" / f"{2**64 - 1 - 2:020d}.manifest").write_bytes(sealed.data)
    opened = lance_core.dataset(uri)
    for read in (opened.to_table, opened.validate, lambda: opened.deep_clone(str(tmp_path / "d"), 2)):
        with pytest.raises(CorruptDataError, match="relative path"):
            read()
    fragment = lance_core.write_fragments(numbered_rows(0, 1), uri)[0]
    fragment.files[0].path = path
    with pytest.raises(InvalidInputError):
        lance_core.LanceDataset.commit(uri, lance_core.LanceOperation.Append([fragment]), read_version=2)
    assert lance_core.dataset(uri).version == 2


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "%2e%2e/x.txn"])
def test_a_transaction_file_outside_the_table_is_refused(tmp_path: Path, name: str) -> None:
    uri = str(tmp_path / "t")
    dataset = lance_core.write_dataset(numbered_rows(0, 1), uri)
    sealed = ManifestDraft(dataset.manifest).seal(transaction=b"", transaction_file=name, timestamp_ns=1)
    (Path(uri) / "_versions" / f"{2**64 - 1 - 2:020d}.manifest").write_bytes(sealed.data)
    with pytest.raises(CorruptDataError, match="transaction file"):
        lance_core.dataset(uri)


def test_an_unlisted_base_path_is_named_in_the_error(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_core.write_dataset(numbered_rows(0, 1), uri, initial_bases=_bases(tmp_path, lance_core))
    missing = lance_core.write_fragments(numbered_rows(0, 1), uri, target_bases=["hot"])
    for path in (tmp_path / "hot").iterdir():
        path.unlink()
    with pytest.raises(NotFoundError):
        lance_core.LanceDataset.commit(uri, lance_core.LanceOperation.Append(missing), read_version=1)
