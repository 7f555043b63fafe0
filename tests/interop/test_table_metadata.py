"""Manifest contents other than fragments: fields, primary keys, flags, and what a commit preserves."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import pyarrow as pa
import pytest
from google.protobuf.unknown_fields import UnknownFieldSet

import lance_core
from lance_core.errors import InvalidInputError, LanceError
from lance_core.proto import pb_file, pb_table
from lance_core.table.manifest_file import parse_manifest_file, serialize_manifest_file
from lance_core.table.paths import manifest_name
from tests.support.type_catalogue import TYPES

KEY = "lance-schema:unenforced-primary-key"
CLUSTERING = "lance-schema:unenforced-clustering-key"
PAIRS = 256 | 1024 | 16384
MINUS_ONE = b"\xff" * 9 + b"\x01"
ROWS = pa.table({"a": pa.array(range(10), pa.int64()), "s": [str(each) for each in range(10)]})


def manifest(uri: Path | str, version: int | None = None) -> pb_table.Manifest:
    path = max(Path(uri, "_versions").glob("*.manifest"), key=lambda each: each.stat().st_mtime_ns)
    if version is not None:
        path = Path(uri, "_versions", manifest_name(version))
    return parse_manifest_file(path.read_bytes(), str(path)).message


def field_bytes(message: pb_table.Manifest) -> list[bytes]:
    return [field.SerializeToString(deterministic=True) for field in message.fields]


# --- fields --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.sampled(40)
def test_fields_of_every_type_are_written_as_in_pylance(tmp_path: Path, name: str) -> None:
    table = TYPES[name]()
    try:
        lance.write_dataset(table, str(tmp_path / "theirs"))
    except (OSError, ValueError, NotImplementedError, pa.ArrowException):
        pytest.skip("the reference does not write this type")
    lance_core.write_dataset(table, str(tmp_path / "ours"))
    assert field_bytes(manifest(tmp_path / "ours")) == field_bytes(manifest(tmp_path / "theirs"))


@pytest.mark.parametrize("library", [lance, lance_core])
def test_the_parent_id_of_a_top_level_field_is_minus_one_in_ten_bytes(tmp_path: Path, library: ModuleType) -> None:
    rows = pa.table({"a": [1], "s": [{"x": 1, "y": {"z": 2}}]})
    library.write_dataset(rows, str(tmp_path / "table"))
    fields = manifest(tmp_path / "table").fields
    assert [field.parent_id for field in fields] == [-1, -1, 1, 1, 3]
    for field in fields:
        data = field.SerializeToString(deterministic=True)
        assert (b"\x20" + MINUS_ONE in data) == (field.parent_id == -1)
        # A writer that encodes -1 as an unsigned 32-bit number would write only these five bytes.
        assert b"\x20\xff\xff\xff\xff\x0f" not in data


# --- primary keys --------------------------------------------------------------------------------


def keyed(**metadata: dict[str, str]) -> pa.Schema:
    fields = [
        pa.field("a", pa.int64(), nullable=False, metadata=metadata.get("a")),
        pa.field("b", pa.string(), nullable=False, metadata=metadata.get("b")),
        pa.field("c", pa.int32(), metadata=metadata.get("c")),
        pa.field(
            "s",
            pa.struct([pa.field("x", pa.int32(), nullable=False, metadata=metadata.get("x"))]),
            nullable=False,
            metadata=metadata.get("s"),
        ),
    ]
    return pa.schema(fields)


@pytest.mark.parametrize(
    "metadata",
    [
        {"a": {KEY: "true"}},
        {"a": {KEY: "TRUE"}},
        {"a": {KEY: "1"}},
        {"a": {KEY: "yes"}},
        {"a": {KEY: "Yes"}},
        {"a": {KEY: "false"}},
        {"a": {KEY: "0"}},
        {"a": {KEY: "on"}},
        {"a": {KEY: ""}},
        {"a": {KEY: " true"}},
        {"a": {KEY: "true"}, "b": {KEY: "true"}},
        {"a": {KEY: "true", f"{KEY}:position": "2"}, "b": {KEY: "true", f"{KEY}:position": "1"}},
        {"a": {f"{KEY}:position": "2"}, "b": {f"{KEY}:position": "1"}},
        {"a": {KEY: "true", f"{KEY}:position": "0"}},
        {"a": {KEY: "false", f"{KEY}:position": "3"}},
        {"c": {KEY: "true"}},
        {"s": {KEY: "true"}},
        {"x": {KEY: "true"}},
        {"a": {CLUSTERING: "true"}},
        {"c": {CLUSTERING: "true", f"{CLUSTERING}:position": "1"}},
        {"c": {f"{CLUSTERING}:position": "4"}},
    ],
)
def test_primary_keys_are_declared_or_refused_as_in_pylance(
    tmp_path: Path, metadata: dict[str, dict[str, str]]
) -> None:
    schema = keyed(**metadata)
    rows = pa.table({"a": [1], "b": ["x"], "c": pa.array([1], pa.int32()), "s": [{"x": 1}]}).cast(schema)
    outcomes: list[Any] = []
    for library in (lance, lance_core):
        uri = tmp_path / library.__name__
        try:
            library.write_dataset(rows, str(uri))
        except (OSError, ValueError, LanceError):
            outcomes.append("refused")
        else:
            outcomes.append(field_bytes(manifest(uri)))
    assert outcomes[1] == outcomes[0]


CHANGES: dict[str, Callable[[Any], object]] = {
    "declare": lambda each: each.update_field_metadata({"b": {KEY: "true"}}),
    "place": lambda each: each.update_field_metadata({"b": {f"{KEY}:position": "2"}}),
    "remove": lambda each: each.update_field_metadata({"a": {KEY: None}}),
    "change": lambda each: each.update_field_metadata({"a": {KEY: "false"}}),
    "forget": lambda each: each.update_field_metadata({"a": {}}, replace=True),
    "replace": lambda each: each.replace_field_metadata("a", {"other": "value"}),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_primary_keys_cannot_be_changed_later(tmp_path: Path, name: str) -> None:
    rows = pa.table({"a": [1], "b": ["x"], "c": pa.array([1], pa.int32()), "s": [{"x": 1}]})
    uri = str(tmp_path / "table")
    lance.write_dataset(rows.cast(keyed(a={KEY: "true"})), uri)
    for library in (lance, lance_core):
        with pytest.raises((OSError, ValueError, LanceError)):
            CHANGES[name](library.dataset(uri))
    assert lance_core.dataset(uri).latest_version == 1


@pytest.mark.parametrize("library", [lance, lance_core])
def test_primary_keys_survive_commits_by_both_libraries(tmp_path: Path, library: ModuleType) -> None:
    uri = str(tmp_path / "table")
    rows = pa.table({"a": [1], "b": ["x"], "c": pa.array([1], pa.int32()), "s": [{"x": 1}]})
    rows = rows.cast(keyed(a={KEY: "true", f"{KEY}:position": "2"}, b={KEY: "true", f"{KEY}:position": "1"}))
    lance.write_dataset(rows, uri)
    before = field_bytes(manifest(uri, 1))
    library.write_dataset(rows, uri, mode="append")
    library.dataset(uri).delete("a = 99")
    library.dataset(uri).update_field_metadata({"a": {"note": "1"}})
    library.dataset(uri).update_field_metadata({"a": {"note": None}})
    library.dataset(uri).optimize.compact_files()
    assert field_bytes(manifest(uri, library.dataset(uri).version)) == before


# --- flags ---------------------------------------------------------------------------------------


def test_paired_feature_flags_are_equal_in_both_words_of_every_manifest(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    lance.write_dataset(ROWS, uri, data_storage_version="2.1")
    new = lance_core.write_fragments(ROWS, uri, data_storage_version="2.2")
    lance_core.LanceDataset.commit(uri, lance_core.LanceOperation.Append(new), read_version=1)
    for library in (lance_core, lance):
        library.dataset(uri).delete("a = 3")
        library.dataset(uri).update_config({"key": library.__name__})
        library.write_dataset(ROWS, uri, mode="append")
        library.dataset(uri).optimize.compact_files()
        library.dataset(uri).create_branch(f"of-{library.__name__}")
        library.dataset(uri, version=1).restore()
        library.write_dataset(ROWS, uri, mode="overwrite")
    found = []
    for path in [*Path(uri).glob("_versions/*.manifest"), *Path(uri).glob("tree/*/_versions/*.manifest")]:
        message = parse_manifest_file(path.read_bytes(), str(path)).message
        found.append(message.reader_feature_flags & PAIRS)
        assert (message.reader_feature_flags ^ message.writer_feature_flags) & PAIRS == 0
    assert {0, 256} == set(found)


# --- what a commit keeps -------------------------------------------------------------------------


def _decorated(uri: Path) -> None:
    """Return a table whose manifest has every field except those of experimental features."""
    dataset = lance.write_dataset(ROWS, str(uri), max_rows_per_file=5)
    dataset.create_scalar_index("a", "BTREE")
    dataset.update_config({"config": "kept"})
    dataset.update_metadata({"table": "kept"})
    dataset.update_schema_metadata({"schema": "kept"})
    dataset.update_field_metadata({"a": {"field": "kept"}})
    version = dataset.version
    path = uri / "_versions" / manifest_name(version)
    file = parse_manifest_file(path.read_bytes(), str(path))
    message = file.message
    message.base_paths.add(id=7, name="elsewhere", path="/srv/elsewhere", is_dataset_root=True)
    message.base_paths.add(id=0, path="/srv/zero")
    message.reader_feature_flags |= 16
    message.writer_feature_flags |= 16
    message.next_row_id = 77
    message.max_fragment_id = 41
    message.version_aux_data = 5
    message.tag = "tag"
    message.fragments[0].metadata["fragment"] = "dropped by the reference"
    data = serialize_manifest_file(message, index_section=file.index_section, transaction=file.transaction)
    path.write_bytes(data)


VERBS: dict[str, Callable[[ModuleType, str], object]] = {
    "append": lambda library, uri: library.write_dataset(ROWS, uri, mode="append"),
    "delete": lambda library, uri: library.dataset(uri).delete("a = 3"),
    "config": lambda library, uri: library.dataset(uri).update_config({"more": "config"}),
    "overwrite": lambda library, uri: library.write_dataset(ROWS, uri, mode="overwrite"),
    "restore": lambda library, uri: library.dataset(uri, version=2).restore(),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_commit_keeps_the_manifest_fields_that_pylance_keeps(tmp_path: Path, verb: str) -> None:
    _decorated(tmp_path / "lance")
    shutil.copytree(tmp_path / "lance", tmp_path / "lance_core")
    kept = []
    for library in (lance, lance_core):
        uri = tmp_path / library.__name__
        VERBS[verb](library, str(uri))
        message = manifest(uri, library.dataset(str(uri)).version)
        assert len(UnknownFieldSet(message)) == 0
        kept.append(_comparable(message))
    theirs, ours = kept
    for name, value in theirs.items():
        assert ours[name] == value, name


def test_a_delete_preserves_metadata_values_that_are_not_valid_utf_8(tmp_path: Path) -> None:
    # The reference replaces such bytes with replacement characters.
    _decorated(tmp_path)
    path = tmp_path / "_versions" / manifest_name(lance_core.dataset(str(tmp_path)).version)
    file = parse_manifest_file(path.read_bytes(), "m")
    file.message.fields[0].metadata["binary"] = b"\xff\x00"
    file.message.schema_metadata["binary"] = b"\xff\xfe\x00"
    path.write_bytes(serialize_manifest_file(file.message, index_section=file.index_section, transaction=None))
    lance_core.dataset(str(tmp_path)).delete("a = 3")
    made = manifest(tmp_path, lance_core.dataset(str(tmp_path)).version)
    assert dict(made.fields[0].metadata)["binary"] == b"\xff\x00"
    assert dict(made.schema_metadata)["binary"] == b"\xff\xfe\x00"


def _comparable(message: pb_table.Manifest) -> dict[str, object]:
    """Return the manifest without paths, times, writer names, and section positions, which always differ."""
    fragments = []
    for fragment in message.fragments:
        copy = pb_table.DataFragment()
        copy.CopyFrom(fragment)
        copy.metadata.clear()
        for file in copy.files:
            file.path, file.file_size_bytes = "", 0
        copy.deletion_file.id = 0
        fragments.append(str(copy))
    return {
        "version": message.version,
        "fields": [pb_file.Field.SerializeToString(field, deterministic=True) for field in message.fields],
        "fragments": fragments,
        "schema_metadata": dict(message.schema_metadata),
        "config": dict(message.config),
        "table_metadata": dict(message.table_metadata),
        "base_paths": sorted(str(base) for base in message.base_paths),
        "data_format": str(message.data_format),
        "flags": (message.reader_feature_flags, message.writer_feature_flags),
        "max_fragment_id": (message.HasField("max_fragment_id"), message.max_fragment_id),
        "next_row_id": message.next_row_id,
        "branch": message.branch,
        "has_index_section": message.HasField("index_section"),
        "reset": (message.version_aux_data, message.tag),
    }


# --- old layouts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("stale", [b"", b"garbage", None])
def test_latest_manifest_file_written_by_releases_of_2023_is_ignored(tmp_path: Path, stale: bytes | None) -> None:
    uri = tmp_path / "table"
    lance.write_dataset(ROWS, str(uri), enable_v2_manifest_paths=False)
    lance.write_dataset(ROWS, str(uri), mode="append")
    first = (uri / "_versions" / "1.manifest").read_bytes()
    (uri / "_latest.manifest").write_bytes(first if stale is None else stale)
    for library in (lance_core, lance):
        assert library.dataset(str(uri)).version == 2
    lance_core.write_dataset(ROWS, str(uri), mode="append")
    for library in (lance_core, lance):
        assert library.dataset(str(uri)).count_rows() == 30


def _write_table_of_2023(uri: Path) -> None:
    lance.write_dataset(ROWS, str(uri), enable_v2_manifest_paths=False, data_storage_version="0.1")
    shutil.rmtree(uri / "_transactions")
    path = uri / "_versions" / "1.manifest"
    message = parse_manifest_file(path.read_bytes(), "m").message
    for name in (
        *("transaction_file", "transaction_section", "data_format", "writer_version", "max_fragment_id"),
        *("reader_feature_flags", "writer_feature_flags"),
    ):
        message.ClearField(name)
    for fragment in message.fragments:
        fragment.physical_rows = 0
    path.write_bytes(serialize_manifest_file(message, index_section=None, transaction=None))
    (uri / "_latest.manifest").write_bytes(path.read_bytes())


def test_manifest_written_by_a_release_of_2023_has_no_flags_and_no_transaction(tmp_path: Path) -> None:
    uri = tmp_path / "table"
    _write_table_of_2023(uri)
    ours, theirs = lance_core.dataset(str(uri)), lance.dataset(str(uri))
    assert ours.to_table() == theirs.to_table() == ROWS
    assert ours.count_rows() == 10
    assert ours.read_transaction(1) is None
    assert ours.data_storage_version == "0.1"
    lance_core.write_dataset(ROWS, str(uri), mode="append")
    lance.write_dataset(ROWS, str(uri), mode="append")
    for library in (lance_core, lance):
        dataset = library.dataset(str(uri))
        assert (dataset.version, dataset.count_rows()) == (3, 30)
        dataset.validate()


@pytest.mark.parametrize("claimed", [0, 1, 9, 10, 11])
@pytest.mark.parametrize("arm", ["merge", "update"])
def test_row_count_recorded_by_a_release_of_2023_is_checked_against_the_data_files(
    tmp_path: Path, arm: str, claimed: int
) -> None:
    uri = tmp_path / "table"
    _write_table_of_2023(uri)
    dataset = lance_core.dataset(str(uri))
    fragment = dataset.get_fragments()[0].metadata
    fragment.physical_rows = claimed
    operation = (
        lance_core.LanceOperation.Merge([fragment], dataset.lance_schema)
        if arm == "merge"
        else lance_core.LanceOperation.Update(updated_fragments=[fragment], fields_modified=[0])
    )
    if claimed == 10:
        lance_core.LanceDataset.commit(dataset, operation, read_version=1)
    else:
        with pytest.raises(InvalidInputError, match=f"10 rows in version 1, but the operation records {claimed}"):
            lance_core.LanceDataset.commit(dataset, operation, read_version=1)
    for library in (lance_core, lance):
        assert library.dataset(str(uri)).count_rows() == 10
        assert library.dataset(str(uri)).to_table() == ROWS
