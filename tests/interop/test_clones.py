"""Clones of pylance and lance_core are equal, and both libraries read and write them."""

import shutil
from pathlib import Path
from types import ModuleType

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import (
    AlreadyExistsError,
    NotFoundError,
    NotSupportedError,
    RefNotFoundError,
    VersionNotFoundError,
)
from lance_core.proto import pb_table
from tests.support.numbered_rows import numbered_rows

BOTH = pytest.mark.parametrize("maker", [lance, lance_core], ids=["pylance", "lance_core"])
EACH = (lance, lance_core)
ROWS = [x for x in range(20) if x != 3]


def _values(uri: str, reader: ModuleType) -> list[int]:
    dataset = reader.dataset(uri)
    dataset.validate()
    return sorted(dataset.to_table()["x"].to_pylist())


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table of four versions, with two fragments, an index, and a deleted row in the first fragment."""
    uri = str(tmp_path / "table")
    lance.write_dataset(numbered_rows(0, 10), uri)
    dataset = lance.write_dataset(numbered_rows(10, 20), uri, mode="append")
    dataset.create_scalar_index("x", "BTREE")
    dataset.delete("x = 3")
    dataset.tags.create("two", 2)
    return uri


def _indices(uri: str) -> list[pb_table.IndexMetadata]:
    section = lance_core.dataset(uri).manifest.index_section
    return [] if section is None else list(pb_table.IndexSection.FromString(section).indices)


def _comparable(uri: str) -> tuple[object, object]:
    message = lance_core.dataset(uri).manifest.message
    for part in ("timestamp", "writer_version", "transaction_file"):
        message.ClearField(part)
    # The reference writes them in any order.
    message.base_paths.sort(key=lambda base: base.id)
    return message, _indices(uri)


@pytest.mark.parametrize("kind", ["shallow_clone", "deep_clone"])
def test_clones_made_by_lance_core_and_pylance_are_equal(uri: str, tmp_path: Path, kind: str) -> None:
    first = str(tmp_path / "first")
    lance.dataset(uri).shallow_clone(first, (None, None))
    lance.write_dataset(numbered_rows(30, 33), first, mode="append")
    for source, reference in ((uri, 4), (uri, "two"), (first, (None, None)), (first, 4)):
        places = [str(tmp_path / f"{maker.__name__}-{reference}-{Path(source).name}") for maker in EACH]
        for maker, place in zip(EACH, places, strict=True):
            getattr(maker.dataset(source), kind)(place, reference)
        assert _comparable(places[0]) == _comparable(places[1])
        theirs, ours = (
            sorted(
                str(path.relative_to(place)) for path in Path(place).rglob("*") if path.suffix in (".lance", ".arrow")
            )
            for place in places
        )
        assert ours == theirs
        assert _values(places[1], lance) == _values(places[0], lance_core)
        made_by = [
            maker.dataset(place).read_transaction(maker.dataset(place).version)
            for maker, place in zip(EACH, places, strict=True)
        ]
        assert vars(made_by[0].operation) == vars(made_by[1].operation)


@BOTH
def test_a_clone_has_a_base_path_with_id_0(uri: str, tmp_path: Path, maker: ModuleType) -> None:
    clone = str(tmp_path / "clone")
    maker.dataset(uri).shallow_clone(clone, 4)
    manifest = lance_core.dataset(clone).manifest
    assert [(base.id, base.path) for base in manifest.base_paths] == [(0, uri)]
    assert all(file.HasField("base_id") for fragment in manifest.message.fragments for file in fragment.files)
    assert [(index.HasField("base_id"), index.base_id) for index in _indices(clone)] == [(True, 0)]
    for reader in EACH:
        assert _values(clone, reader) == ROWS
        assert {each.id: each.path for each in reader.dataset(clone).base_paths().values()} == {0: uri}
    assert lance.dataset(clone).to_table(filter="x = 15").num_rows == 1


@BOTH
def test_a_clone_starts_with_the_version_number_of_its_source(uri: str, tmp_path: Path, maker: ModuleType) -> None:
    clone = str(tmp_path / "clone")
    made = maker.dataset(uri).shallow_clone(clone, 2)
    assert (made.version, made.uri) == (2, clone)
    for reader in EACH:
        assert [each["version"] for each in reader.dataset(clone).versions()] == [2]


@pytest.mark.parametrize(("maker", "writer"), [(lance, lance_core), (lance_core, lance), (lance_core, lance_core)])
def test_changes_to_a_clone_and_to_its_source_do_not_affect_each_other(
    uri: str, tmp_path: Path, maker: ModuleType, writer: ModuleType
) -> None:
    clone, second = str(tmp_path / "clone"), str(tmp_path / "second")
    maker.dataset(uri).shallow_clone(clone, 4)
    writer.write_dataset(numbered_rows(50, 53), clone, mode="append")
    writer.dataset(clone).delete("x in (1, 51)")
    maker.dataset(clone).shallow_clone(second, (None, None))
    writer.dataset(second).delete("x = 2")
    writer.dataset(second).optimize.compact_files()
    for reader in EACH:
        assert _values(uri, reader) == ROWS
        assert _values(clone, reader) == sorted({*ROWS, 50, 52} - {1})
        assert _values(second, reader) == sorted({*ROWS, 50, 52} - {1, 2})
        assert {each.id: each.path for each in reader.dataset(second).base_paths().values()} == {0: uri, 1: clone}


@BOTH
def test_clones_of_branches_record_the_branch_as_a_named_base_path(uri: str, tmp_path: Path, maker: ModuleType) -> None:
    clone, deep = str(tmp_path / "clone"), str(tmp_path / "deep")
    maker.dataset(uri).create_branch("b")
    maker.write_dataset(numbered_rows(50, 53), f"{uri}/tree/b", mode="append")
    maker.dataset(uri).shallow_clone(clone, ("b", None))
    maker.dataset(uri).deep_clone(deep, ("b", 5))
    manifest = lance_core.dataset(clone).manifest
    assert {(base.id, base.name, base.path) for base in manifest.base_paths} == {
        (0, None, uri),
        (1, "b", f"{uri}/tree/b"),
    }
    assert manifest.message.branch == ""
    for reader in EACH:
        for place in (clone, deep):
            assert _values(place, reader) == sorted({*ROWS, 50, 51, 52})


@BOTH
def test_a_deep_clone_needs_neither_source_nor_base_paths(uri: str, tmp_path: Path, maker: ModuleType) -> None:
    first, deep, moved = (str(tmp_path / name) for name in ("first", "deep", "moved"))
    maker.dataset(uri).shallow_clone(first, 4)
    maker.dataset(first).deep_clone(deep, 4)
    shutil.rmtree(uri)
    shutil.rmtree(first)
    shutil.copytree(deep, moved)
    for place in (deep, moved):
        lance_core.write_dataset(numbered_rows(50, 51), place, mode="append")
        for reader in EACH:
            assert _values(place, reader) == [*ROWS, 50]
            assert reader.dataset(place).base_paths() == {}


def test_dataset_copied_to_another_location_can_be_read_and_appended_to(uri: str, tmp_path: Path) -> None:
    moved = str(tmp_path / "moved")
    shutil.copytree(uri, moved)
    shutil.rmtree(uri)
    lance_core.write_dataset(numbered_rows(50, 51), moved, mode="append")
    for reader in EACH:
        assert _values(moved, reader) == [*ROWS, 50]
        assert reader.dataset(moved, version="two").count_rows() == 20


def test_relative_paths_of_clones_are_recorded_as_absolute_paths(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lance_core.dataset("table").shallow_clone("clone", 2)
    lance_core.dataset("table").create_branch("b")
    for place in ("clone", "table/tree/b"):
        assert [base.path for base in lance_core.dataset(place).manifest.base_paths] == [uri]


def test_clones_and_branches_of_old_tables_use_new_manifest_names(tmp_path: Path) -> None:
    uri = str(tmp_path / "old")
    lance.write_dataset(numbered_rows(0, 3), uri, enable_v2_manifest_paths=False)
    lance_core.dataset(uri).shallow_clone(str(tmp_path / "clone"), 1)
    lance_core.dataset(uri).create_branch("b")
    for place in (tmp_path / "clone", tmp_path / "old/tree/b"):
        assert [path.name for path in (place / "_versions").glob("*.manifest")] == ["18446744073709551614.manifest"]


def test_clones_of_missing_versions_and_clones_to_the_location_of_a_table_are_refused(uri: str, tmp_path: Path) -> None:
    ours, place = lance_core.dataset(uri), str(tmp_path / "clone")
    for clone in (ours.shallow_clone, ours.deep_clone):
        with pytest.raises(VersionNotFoundError):
            clone(place, 9)
        with pytest.raises(RefNotFoundError):
            clone(place, "nope")
        with pytest.raises(AlreadyExistsError):
            clone(uri, 1)
    assert not Path(place).exists()
    assert lance.dataset(uri).latest_version == 4


def test_a_failed_deep_clone_can_be_repeated(uri: str, tmp_path: Path) -> None:
    deep = str(tmp_path / "deep")
    file = Path(uri) / "data" / lance_core.dataset(uri).manifest.message.fragments[1].files[0].path
    file.rename(tmp_path / "away")
    with pytest.raises(NotFoundError):
        lance_core.dataset(uri).deep_clone(deep, 4)
    assert not list(Path(deep).rglob("*.manifest"))
    (tmp_path / "away").rename(file)
    lance_core.dataset(uri).deep_clone(deep, 4)
    for reader in EACH:
        assert _values(deep, reader) == ROWS


def test_blobs_in_sidecars_are_copied_by_deep_clones(tmp_path: Path) -> None:
    uri, deep = str(tmp_path / "blobs"), str(tmp_path / "deep")
    values = [b"small", b"x" * 3_000_000, None]
    schema = pa.schema([lance_core.blob_field("b")])
    table = pa.table({"b": lance_core.blob_array(values)}, schema=schema)
    lance_core.write_dataset(table, uri)
    assert list(Path(uri).rglob("*.blob"))
    lance_core.dataset(uri).deep_clone(deep, 1)
    shutil.rmtree(uri)
    blobs = lance_core.dataset(deep).take_blobs("b", indices=[0, 1])
    assert [blob.readall() for blob in blobs] == values[:2]


def test_blobs_in_base_paths_are_copied_unless_they_are_references(tmp_path: Path) -> None:
    uri, outside = str(tmp_path / "blobs"), tmp_path / "bank"
    outside.mkdir()
    (outside / "value.bin").write_bytes(b"outside")
    schema = pa.schema([lance_core.blob_field("b")])
    bases = [
        lance_core.DatasetBasePath(str(tmp_path / "hot"), "hot"),
        lance_core.DatasetBasePath(str(outside), "bank"),
    ]
    values = [b"small", b"x" * 3_000_000, None]
    table = pa.table({"b": lance_core.blob_array(values)}, schema=schema)
    lance_core.write_dataset(table, uri, initial_bases=bases, target_bases=["hot"])
    lance_core.write_dataset(table, uri, mode="append")
    deep = str(tmp_path / "deep")
    lance_core.dataset(uri).deep_clone(deep, 2)
    referring = lance_core.blob_array([lance_core.Blob.from_uri((outside / "value.bin").as_uri())])
    dataset = lance_core.write_dataset(pa.table({"b": referring}, schema=schema), uri, mode="append")
    assert dataset.take_blobs("b", indices=[6])[0].readall() == b"outside"
    with pytest.raises(NotSupportedError, match="column 'b' refer, or may refer, to files in base paths"):
        dataset.deep_clone(str(tmp_path / "other"), 3)
    assert not (tmp_path / "other").exists()
    for place in ("blobs", "hot", "bank"):
        shutil.rmtree(tmp_path / place)
    blobs = lance_core.dataset(deep).take_blobs("b", indices=[0, 1, 3, 4])
    assert [blob.readall() for blob in blobs] == values[:2] * 2
    theirs = lance.dataset(deep).take_blobs("b", indices=[0, 1, 3, 4])
    assert [blob.readall() for blob in theirs] == values[:2] * 2
