"""Tables that record the highest assigned field id and never assign an id twice (writer flag 32768)."""

import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import LanceError
from lance_core.places.location import open_log
from lance_core.proto import pb_table
from lance_core.table.feature_flags import FeatureFlag
from lance_core.table.manifest_file import serialize_manifest_file

I64 = pa.int64()


def _create(uri: str, dropped: str | None = None) -> None:
    """Create a table whose last version records the highest assigned field id, which is 9."""
    lance.write_dataset(pa.table({"a": [1, 2, 3], "b": [4, 5, 6]}), uri)
    lance.write_dataset(pa.table({"a": [7], "b": [8]}), uri, mode="append")
    if dropped is not None:
        lance.dataset(uri).drop_columns([dropped])
    log = open_log(uri, None)
    name = log.latest()
    assert name is not None
    manifest = log.read(name)
    message = pb_table.Manifest()
    message.CopyFrom(manifest.message)
    message.max_allocated_field_id = 9
    message.writer_feature_flags |= FeatureFlag.UNIQUE_FIELD_IDS
    data = serialize_manifest_file(
        message, index_section=manifest.index_section, transaction=manifest.transaction, dictionaries={}
    )
    Path(log.path(name)).write_bytes(data)


def _state(uri: str) -> Any:
    dataset = lance.dataset(uri)
    dataset.validate()
    lance_core.dataset(uri).validate()
    assert lance_core.dataset(uri).to_table() == dataset.to_table()
    message = lance_core.dataset(uri).manifest.message
    fields = [(field.name, field.id) for field in message.fields]
    files = [[list(file.fields) for file in fragment.files] for fragment in message.fragments]
    return message.version, message.max_allocated_field_id, fields, files, dataset.to_table().to_pydict()


def _both(tmp_path: Path, change: Callable[[ModuleType, str], object], dropped: str | None = None) -> Any:
    """Return the result of both implementations, which must be the same."""
    states = []
    for library in (lance, lance_core):
        uri = str(tmp_path / library.__name__)
        _create(uri, dropped)
        change(library, uri)
        states.append(_state(uri))
        assert lance_core.dataset(uri).max_field_id == lance.dataset(uri).max_field_id == states[-1][1]
    assert states[0] == states[1]
    return states[0]


def _refused(tmp_path: Path, change: Callable[[ModuleType, str], object]) -> None:
    for library in (lance, lance_core):
        uri = str(tmp_path / library.__name__)
        _create(uri)
        before = _state(uri)
        with pytest.raises((OSError, LanceError), match=r"[Cc]annot"):
            change(library, uri)
        assert _state(uri) == before


def test_an_overwrite_assigns_field_ids_after_all_previously_assigned_ids(tmp_path: Path) -> None:
    def overwrite(library: ModuleType, uri: str) -> None:
        for _ in range(2):
            library.write_dataset(pa.table({"a": [1], "z": [{"x": 1}]}), uri, mode="overwrite")

    state = _both(tmp_path, overwrite)
    assert state[1:4] == (15, [("a", 13), ("z", 14), ("x", 15)], [[[13, 15]]])


def test_a_committed_overwrite_assigns_new_field_ids_to_its_files(tmp_path: Path) -> None:
    def overwrite(library: ModuleType, uri: str) -> None:
        written = library.write_dataset(pa.table({"s": [{"x": 1, "y": [1, 2]}], "t": ["q"]}), f"{uri}-side")
        shutil.copytree(f"{uri}-side/data", f"{uri}/data", dirs_exist_ok=True)
        fragments = [fragment.metadata for fragment in written.get_fragments()]
        library.LanceDataset.commit(uri, library.LanceOperation.Overwrite(written.schema, fragments), read_version=2)

    state = _both(tmp_path, overwrite)
    assert state[2] == [("s", 10), ("x", 11), ("y", 12), ("item", 13), ("t", 14)]


@pytest.mark.parametrize(
    ("dropped", "columns", "fields"),
    [
        (None, [("a", I64), ("b", I64), ("c", I64)], [("a", 0), ("b", 1), ("c", 10)]),
        (None, [("c", I64), ("b", I64), ("a", I64)], [("c", 10), ("b", 1), ("a", 0)]),
        (None, [("x", I64), ("b", I64)], [("x", 10), ("b", 1)]),
        (None, [("a", I64), ("s", pa.struct([("x", I64)]))], [("a", 0), ("s", 10), ("x", 11)]),
        ("a", [("b", I64), ("n", I64)], [("b", 1), ("n", 10)]),
        ("b", [("a", I64), ("n", pa.string())], [("a", 0), ("n", 10)]),
    ],
)
def test_a_merge_matches_columns_by_name(
    tmp_path: Path, dropped: str | None, columns: list[tuple[str, pa.DataType]], fields: list[tuple[str, int]]
) -> None:
    def merge(library: ModuleType, uri: str) -> None:
        dataset = library.dataset(uri)
        fragments = [fragment.metadata for fragment in dataset.get_fragments()]
        library.LanceDataset.commit(
            uri, library.LanceOperation.Merge(fragments, pa.schema(columns)), read_version=dataset.version
        )

    assert _both(tmp_path, merge, dropped)[2] == fields


def test_versions_older_than_the_field_id_count_cannot_be_restored(tmp_path: Path) -> None:
    _refused(tmp_path, lambda library, uri: library.dataset(uri, version=1).restore())


def test_restoring_a_later_version_keeps_the_field_id_count(tmp_path: Path) -> None:
    def restore(library: ModuleType, uri: str) -> None:
        library.write_dataset(pa.table({"z": [1]}), uri, mode="overwrite")
        library.dataset(uri, version=2).restore()

    assert _both(tmp_path, restore)[1:3] == (10, [("a", 0), ("b", 1)])


def test_a_detached_version_has_the_schema_of_its_table(tmp_path: Path) -> None:
    def project(library: ModuleType, uri: str) -> None:
        library.LanceDataset.commit(
            uri, library.LanceOperation.Project(pa.schema([("a", I64)])), read_version=2, detached=True
        )

    _refused(tmp_path, project)


@pytest.mark.parametrize("mode", ["append", "delete", "compact"])
def test_appends_deletes_and_compactions_keep_the_field_id_count(tmp_path: Path, mode: str) -> None:
    def change(library: ModuleType, uri: str) -> None:
        match mode:
            case "append":
                library.write_dataset(pa.table({"a": [1], "b": [1]}), uri, mode="append")
            case "delete":
                library.dataset(uri).delete("a = 1")
            case _:
                library.dataset(uri).optimize.compact_files()

    assert _both(tmp_path, change)[1] == 9
