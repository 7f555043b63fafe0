"""Tables of every data file version: operations have the same results when lance_core and pylance run them in turn."""

from __future__ import annotations

import glob
from decimal import Decimal
from itertools import product
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.fragment import write_fragments as their_write_fragments

import lance_core
from lance_core.errors import (
    CorruptDataError,
    InvalidInputError,
    NotSupportedError,
    SchemaMismatchError,
    UnsupportedVersionError,
)
from lance_core.table.manifest_file import parse_manifest_file, serialize_manifest_file

VERSIONS = ["0.1", "2.0", "2.1", "2.2"]
MIXING = ["2.0", "2.1", "2.2"]


def rows(version: str, start: int, count: int) -> pa.Table:
    """Return rows that every version preserves, with nulls only where the version supports them."""
    ids = range(start, start + count)

    def sparse(value: object, every: int) -> list[object]:
        return [None if version != "0.1" and i % every == 0 else value for i in ids]

    structs = [{"x": i, "y": [i] * (i % 3), "z": {"t": f"t{i}"}} for i in ids]
    members = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.int16())), ("z", pa.struct([("t", pa.string())]))])
    # 2.0 does not support null structs, and 0.1 supports only null strings.
    if version in {"2.1", "2.2"}:
        structs = [None if i % 9 == 4 else each for i, each in zip(ids, structs, strict=True)]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "text": pa.array([f"row {i}" if i % 7 else None for i in ids]),
            "small": pa.array(sparse(7, 5), pa.int8()),
            "flag": pa.array([i % 3 == 0 for i in ids]),
            "when": pa.array(sparse(1_700_000_000_000_000, 4), pa.timestamp("us", "UTC")),
            "price": pa.array([Decimal(i) / 100 for i in ids], pa.decimal128(9, 2)),
            "vector": pa.array([[i, 0.5] for i in ids], pa.list_(pa.float32(), 2)),
            "blob": pa.array([bytes([i % 256]) * (1 + i % 5) for i in ids], pa.large_binary()),
            "struct": pa.array(structs, members),
            "structs": pa.array(
                [[{"a": i, "b": f"b{i}"}] * (i % 4) for i in ids],
                pa.list_(pa.struct([("a", pa.int64()), ("b", pa.string())])),
            ),
            "lists": pa.array([[[i], [], [i, i]][: i % 4] for i in ids], pa.list_(pa.large_list(pa.int32()))),
        }
    )


def same(uri: str, expected: pa.Table, version: str | None = None) -> lance_core.LanceDataset:
    """Read the table with both libraries, compare it with the expected rows, and validate it with both."""
    ours, theirs = lance_core.dataset(uri), lance.dataset(uri)
    assert ours.version == theirs.version
    assert ours.data_storage_version == theirs.data_storage_version
    if version is not None:
        assert ours.data_storage_version == version
    assert ours.to_table().equals(expected)
    assert theirs.to_table().equals(expected)
    assert ours.count_rows() == theirs.count_rows() == expected.num_rows
    assert [fragment.metadata.to_json() for fragment in ours.get_fragments()] == [
        fragment.metadata.to_json() for fragment in theirs.get_fragments()
    ]
    ours.validate()
    theirs.validate()
    return ours


def file_versions(uri: str) -> list[tuple[int, int]]:
    return [
        (file.file_major_version, file.file_minor_version)
        for fragment in lance_core.dataset(uri).get_fragments()
        for file in fragment.data_files()
    ]


def flags(uri: str) -> tuple[int, int]:
    message = lance_core.dataset(uri).manifest.message
    return message.reader_feature_flags, message.writer_feature_flags


def without(table: pa.Table, remainder: int, divisor: int = 10) -> pa.Table:
    return table.filter(pa.array([i % divisor != remainder for i in table["id"].to_pylist()]))


# ── One version ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("turn", [0, 1], ids=["ours first", "theirs first"])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.sampled(2)
def test_a_table_keeps_its_rows_through_all_operations_of_both_libraries(uri: str, version: str, turn: int) -> None:
    libraries = [lance_core, lance]
    first, second = libraries[turn], libraries[1 - turn]
    first.write_dataset(rows(version, 0, 100), uri, max_rows_per_file=40, data_storage_version=version)
    expected = rows(version, 0, 100)
    same(uri, expected, version)

    second.write_dataset(rows(version, 100, 50), uri, mode="append")
    first.write_dataset(rows(version, 150, 30), uri, mode="append")
    expected = rows(version, 0, 180)
    same(uri, expected, version)

    first.dataset(uri).delete("id % 10 = 3")
    second.dataset(uri).delete("id % 10 = 4 AND text IS NOT NULL")
    gone = [i for i in range(180) if i % 10 == 3 or (i % 10 == 4 and i % 7)]
    expected = expected.filter(pa.array([i not in gone for i in range(180)]))
    before_compaction = same(uri, expected, version).version

    first.dataset(uri).optimize.compact_files(target_rows_per_fragment=90)
    same(uri, expected, version)
    second.write_dataset(rows(version, 200, 20), uri, mode="append")
    second.dataset(uri).optimize.compact_files()
    expected = pa.concat_tables([expected, rows(version, 200, 20)])
    same(uri, expected, version)
    assert len(lance_core.dataset(uri).get_fragments()) == 1

    first.write_dataset(rows(version, 7, 5), uri, mode="overwrite")
    same(uri, rows(version, 7, 5), version)
    restored = second.dataset(uri, version=before_compaction)
    restored.restore()
    same(uri, expected.slice(0, expected.num_rows - 20), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_results_of_takes_projections_and_filters_equal_those_of_pylance(uri: str, version: str) -> None:
    lance_core.write_dataset(rows(version, 0, 90), uri, max_rows_per_file=40, data_storage_version=version)
    lance_core.dataset(uri).delete("id = 5 OR id = 41")
    ours, theirs = lance_core.dataset(uri), lance.dataset(uri)
    picked = [0, 5, 40, 87, 86, 39, 0]
    columns = ["struct", "id", "structs", "text", "lists"]
    assert ours.take(picked, columns=columns).equals(theirs.take(picked, columns=columns))
    for arguments in (
        {"columns": ["struct.x", "text"]},
        {"columns": ["struct.z.t", "vector"], "limit": 11, "offset": 35},
        {"filter": "id > 30 AND id < 45"},
        {"filter": "text IS NULL", "columns": ["id"]},
        {"filter": "struct.x >= 80", "columns": ["price", "when"]},
        {"filter": "flag", "columns": ["id"], "with_row_address": True},
        {"filter": "id IN (1, 44, 88)", "use_stats": False, "batch_readahead": 2, "fragment_readahead": 2},
        {"columns": ["small"], "batch_size": 7},
    ):
        assert ours.to_table(**arguments).equals(theirs.to_table(**arguments)), arguments
    assert ours.count_rows("id >= 40") == theirs.count_rows("id >= 40")
    fragment, other = ours.get_fragments()[1], theirs.get_fragments()[1]
    assert fragment.to_table(filter="id < 60").equals(other.to_table(filter="id < 60"))
    assert fragment.take([0, 1, 38]).equals(other.take([0, 1, 38]))
    sizes = [batch.num_rows for batch in ours.to_batches(batch_size=16)]
    assert sum(sizes) == 88
    assert max(sizes) == 16


@pytest.mark.parametrize("version", VERSIONS)
def test_fragments_are_recorded_and_committed_as_in_pylance(uri: str, tmp_path: Path, version: str) -> None:
    other = str(tmp_path / "other")
    data = rows(version, 0, 10)
    for kind, writer in ((uri, lance_core.write_fragments), (other, their_write_fragments)):
        lance.write_dataset(data, kind, data_storage_version=version)
        writer(data, kind)
    ours, theirs = lance_core.write_fragments(data, uri), their_write_fragments(data, other)
    documents = []
    for fragment in (ours[0], theirs[0]):
        document = fragment.to_json()
        assert len(document["files"]) == 1
        file = document["files"][0]
        documents.append({key: value for key, value in file.items() if key not in {"path", "file_size_bytes"}})
    assert documents[0] == documents[1]
    assert lance_core.FragmentMetadata.from_json(ours[0].to_json()) == ours[0]
    # Each library commits the fragments written by the other.
    lance.LanceDataset.commit(
        uri, lance.LanceOperation.Append([lance.FragmentMetadata.from_json(_text(ours[0]))]), read_version=1
    )
    their_fragment = lance_core.FragmentMetadata.from_json(theirs[0].to_json())
    lance_core.LanceDataset.commit(other, lance_core.LanceOperation.Append([their_fragment]), read_version=1)
    for kind in (uri, other):
        same(kind, pa.concat_tables([data, data]), version)


def _text(fragment: lance_core.FragmentMetadata) -> str:
    import json

    return json.dumps(fragment.to_json())


@pytest.mark.parametrize("version", VERSIONS)
def test_tables_with_columns_added_dropped_or_cast_by_pylance_are_read_and_changed(uri: str, version: str) -> None:
    """The fragments have several data files, and files contain fields that are no longer in the schema."""
    lance.write_dataset(
        rows(version, 0, 30), uri, max_rows_per_file=20, max_rows_per_group=7, data_storage_version=version
    )
    lance.dataset(uri).add_columns({"double": "id * 2", "upper": "upper(text)"})
    lance.dataset(uri).drop_columns(["small", "struct.x"])
    lance.dataset(uri).alter_columns({"path": "id", "data_type": pa.int32()})
    theirs = lance.dataset(uri).to_table()
    ours = same(uri, theirs, version)
    assert ours.take([25, 3], columns=["double", "struct", "id"]).equals(
        lance.dataset(uri).take([25, 3], columns=["double", "struct", "id"])
    )
    lance_core.dataset(uri).delete("double = 10")
    lance_core.dataset(uri).optimize.compact_files(materialize_deletions_threshold=0.0)
    same(uri, theirs.filter(pa.array([i != 5 for i in range(30)])), version)


def test_a_struct_keeps_members_that_were_packed_in_format_2_0(uri: str) -> None:
    members = pa.struct([("a", pa.int32()), ("b", pa.float32())])
    fields = [pa.field("p", members, metadata={"packed": "true"}), pa.field("n", pa.int64())]
    data = pa.table(
        [pa.array([{"a": i, "b": i / 2} for i in range(20)], members), pa.array(range(20))], schema=pa.schema(fields)
    )
    lance.write_dataset(data, uri, data_storage_version="2.0")
    lance_core.write_dataset(data, uri, mode="append")
    ours = same(uri, pa.concat_tables([data, data]))
    assert [fragment.data_files()[0].fields for fragment in ours.get_fragments()] == [[0, 3], [0, 3]]
    assert ours.take([39, 1]).to_pylist() == [data.to_pylist()[19], data.to_pylist()[1]]


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_nullable_columns_may_be_missing_in_appended_rows(uri: str, version: str) -> None:
    lance_core.write_dataset(rows(version, 0, 5), uri, data_storage_version=version)
    lance_core.write_dataset(rows(version, 5, 5).select(["id", "lists"]), uri, mode="append")
    table = lance_core.dataset(uri).to_table()
    same(uri, table, version)
    assert table["text"].slice(5).null_count == 5
    assert table.select(["id", "lists"]).equals(rows(version, 0, 10).select(["id", "lists"]))


# ── Several versions ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("own", "added"), [pair for pair in product(MIXING, MIXING) if pair[0] != pair[1]])
@pytest.mark.sampled(3)
def test_file_versions_other_than_0_1_can_be_mixed_in_a_table(uri: str, own: str, added: str) -> None:
    expected = rows("2.0", 0, 60)
    lance_core.write_dataset(rows("2.0", 0, 20), uri, data_storage_version=own)
    assert flags(uri) == (0, 0)
    lance_core.write_dataset(rows("2.0", 20, 20), uri, mode="append", data_storage_version=added)
    assert flags(uri) == (256, 256)
    lance.write_dataset(rows("2.0", 40, 20), uri, mode="append")
    same(uri, expected, own)
    assert len(set(file_versions(uri))) == 2
    ours = lance_core.dataset(uri)
    assert ours.take([1, 21, 41, 20]).equals(lance.dataset(uri).take([1, 21, 41, 20]))
    assert ours.to_table(filter="id % 20 = 1").num_rows == 3
    ours.delete("id % 20 = 2")
    ours.optimize.compact_files(materialize_deletions_threshold=0.0)
    same(uri, without(expected, 2, 20), own)
    assert len(set(file_versions(uri))) == 1
    # Once set, the flag is kept.
    assert flags(uri) == (256, 256)


@pytest.mark.parametrize(("own", "asked"), [("2.0", "2.2"), ("2.2", "2.1"), ("2.1", "2.1")])
def test_compaction_may_change_the_version_of_files(uri: str, own: str, asked: str) -> None:
    expected = rows("2.0", 0, 40)
    lance_core.write_dataset(expected, uri, data_storage_version=own, max_rows_per_file=10)
    lance_core.dataset(uri).optimize.compact_files(data_storage_version=asked)
    assert file_versions(uri) == [tuple(map(int, asked.split(".")))]
    assert flags(uri) == ((0, 0) if own == asked else (256, 256))
    same(uri, expected, own)
    with pytest.raises(NotSupportedError, match=r"0\.1"):
        lance_core.dataset(uri).optimize.compact_files(data_storage_version="legacy")


@pytest.mark.parametrize(("before", "after"), [("0.1", "2.2"), ("2.2", "0.1"), ("2.0", "2.1"), ("2.1", "2.0")])
def test_overwriting_changes_the_file_version_and_restoring_changes_it_back(uri: str, before: str, after: str) -> None:
    old, new = rows("0.1", 0, 20), rows("0.1", 50, 20)
    lance_core.write_dataset(old, uri, data_storage_version=before)
    lance_core.write_dataset(new, uri, mode="overwrite")
    same(uri, new, before)
    lance_core.write_dataset(new, uri, mode="overwrite", data_storage_version=after)
    same(uri, new, after)
    lance_core.dataset(uri, version=1).restore()
    same(uri, old, before)
    lance.write_dataset(new, uri, mode="append")
    same(uri, pa.concat_tables([old, new]), before)


def test_committed_fragments_determine_the_file_version_of_an_overwrite(uri: str) -> None:
    data = rows("2.0", 0, 5)
    lance_core.write_dataset(data, uri, data_storage_version="2.2")
    fragments = lance_core.write_fragments(data, uri, mode="overwrite", data_storage_version="2.0")
    operation = lance_core.LanceOperation.Overwrite(data.schema, fragments)
    assert lance_core.LanceDataset.commit(uri, operation).data_storage_version == "2.0"
    same(uri, data, "2.0")


# ── Dictionaries of 0.1 ───────────────────────────────────────────────────────────────────────────────────────────


def _dictionaries(texts: list[str], numbers: list[int]) -> pa.Table:
    return pa.table(
        {
            "text": pa.array(texts).dictionary_encode(),
            "inner": pa.StructArray.from_arrays([pa.array(numbers).dictionary_encode()], ["number"]),
            "plain": pa.array(range(len(texts))),
        }
    )


def _values(uri: str, library: object) -> list[tuple[str, int]]:
    found = library.dataset(uri).to_table().to_pylist()
    return [(row["text"], row["inner"]["number"]) for row in found]


@pytest.mark.parametrize("creator", [lance_core, lance], ids=["ours", "theirs"])
def test_table_dictionaries_in_format_0_1_grow_when_rows_are_appended(uri: str, creator: object) -> None:
    creator.write_dataset(_dictionaries(["x", "y", "x"], [1, 2, 1]), uri, data_storage_version="0.1")
    lance_core.write_dataset(_dictionaries(["z", "x"], [2, 9]), uri, mode="append", max_rows_per_file=1)
    expected = [("x", 1), ("y", 2), ("x", 1), ("z", 2), ("x", 9)]
    assert _values(uri, lance_core) == _values(uri, lance) == expected
    # pylance appends only rows whose dictionary equals that of the table.
    again = pa.table(
        {
            "text": pa.DictionaryArray.from_arrays(pa.array([2, 0], pa.int32()), ["x", "y", "z"]),
            "inner": pa.StructArray.from_arrays(
                [pa.DictionaryArray.from_arrays(pa.array([2, 0], pa.int32()), [1, 2, 9])], ["number"]
            ),
            "plain": pa.array([7, 8]),
        }
    )
    lance.write_dataset(again, uri, mode="append")
    expected += [("z", 9), ("x", 1)]
    assert _values(uri, lance_core) == _values(uri, lance) == expected
    lance_core.dataset(uri).delete("plain = 1")
    lance_core.dataset(uri).optimize.compact_files(materialize_deletions_threshold=0.0)
    expected.remove(("y", 2))
    expected.remove(("x", 9))
    assert _values(uri, lance_core) == _values(uri, lance) == expected
    lance.dataset(uri).delete("plain = 8")
    lance_core.dataset(uri, version=1).restore()
    assert _values(uri, lance_core) == _values(uri, lance) == [("x", 1), ("y", 2), ("x", 1)]
    lance_core.dataset(uri).validate()


def test_a_table_in_format_0_1_without_rows_is_opened_by_both_libraries(uri: str) -> None:
    data = _dictionaries(["x", "y"], [1, 2])
    lance_core.write_dataset(data.slice(0, 0), uri, data_storage_version="0.1")
    assert lance.dataset(uri).count_rows() == 0
    lance_core.write_dataset(data, uri, mode="append")
    assert _values(uri, lance_core) == _values(uri, lance) == [("x", 1), ("y", 2)]


def test_appended_fragments_whose_dictionary_contradicts_that_of_the_table_are_refused(uri: str) -> None:
    lance_core.write_dataset(_dictionaries(["x", "y"], [1, 2]), uri, data_storage_version="0.1")
    first = lance_core.write_fragments(_dictionaries(["a"], [1]), uri)
    second = lance_core.write_fragments(_dictionaries(["b"], [1]), uri)
    committed = lance_core.LanceDataset.commit(uri, lance_core.LanceOperation.Append(first), read_version=1)
    with pytest.raises(SchemaMismatchError, match="'text': the dictionary of a new data file"):
        lance_core.LanceDataset.commit(uri, lance_core.LanceOperation.Append(second), read_version=1)
    assert lance_core.dataset(uri).version == committed.version
    assert _values(uri, lance) == [("x", 1), ("y", 2), ("a", 1)]


def test_fragments_written_by_pylance_add_their_dictionaries_to_the_table(uri: str) -> None:
    """pylance commits such fragments without their dictionaries, and then cannot open the table."""
    data = _dictionaries(["p", "q"], [3, 4])
    written = their_write_fragments(data, uri, mode="create", data_storage_version="0.1")
    fragments = [lance_core.FragmentMetadata.from_json(fragment.to_json()) for fragment in written]
    lance_core.LanceDataset.commit(uri, lance_core.LanceOperation.Overwrite(data.schema, fragments))
    assert _values(uri, lance_core) == _values(uri, lance) == [("p", 3), ("q", 4)]


def test_a_manifest_without_dictionaries_can_be_read_but_not_appended_to(uri: str) -> None:
    lance.write_dataset(_dictionaries(["p", "q"], [3, 4]), uri, data_storage_version="0.1")

    def lose(message: object) -> None:
        for field in message.fields:
            field.ClearField("dictionary")

    _edit_manifest(uri, lose, keep_dictionaries=False)
    with pytest.raises(ValueError, match="missing dictionary"):
        lance.dataset(uri)
    assert _values(uri, lance_core) == [("p", 3), ("q", 4)]
    with pytest.raises(NotSupportedError, match="lacks the dictionary of column 'text'"):
        lance_core.write_dataset(_dictionaries(["p"], [3]), uri, mode="append")
    lance_core.dataset(uri).delete("plain = 0")
    assert _values(uri, lance_core) == [("q", 4)]


# ── Versions in manifests ───────────────────────────────────────────────────────────────────────────────────────────


def _edit_manifest(uri: str, change: object, *, keep_dictionaries: bool = True) -> None:
    [path] = glob.glob(f"{uri}/_versions/*.manifest")
    file = parse_manifest_file(Path(path).read_bytes(), path)
    change(file.message)
    data = serialize_manifest_file(
        file.message,
        index_section=None,
        transaction=file.transaction,
        dictionaries=file.dictionaries if keep_dictionaries else {},
    )
    Path(path).write_bytes(data)


@pytest.mark.parametrize(("version", "early_flag"), [("0.1", 0), ("2.0", 4), ("2.0", 0), ("2.2", 0)])
def test_the_file_version_of_early_manifests_is_taken_from_the_data_files(
    uri: str, version: str, early_flag: int
) -> None:
    data = rows(version, 0, 10)
    lance.write_dataset(data, uri, data_storage_version=version)

    def strip(message: object) -> None:
        message.ClearField("data_format")
        message.writer_feature_flags |= early_flag
        message.reader_feature_flags |= early_flag

    _edit_manifest(uri, strip)
    assert lance_core.dataset(uri).to_table().equals(data)
    lance_core.write_dataset(data, uri, mode="append")
    ours = same(uri, pa.concat_tables([data, data]), version)
    assert ours.manifest.message.data_format.version == version
    assert flags(uri) == (0, 0)


def test_files_of_unsupported_versions_are_refused_and_named_in_the_error(uri: str, tmp_path: Path) -> None:
    data = rows("2.0", 0, 10)
    lance.write_dataset(data, uri, data_storage_version="2.3")
    with pytest.raises(UnsupportedVersionError, match=r"2\.3"):
        lance_core.dataset(uri)
    with pytest.raises(UnsupportedVersionError, match=r"2\.3"):
        lance_core.write_dataset(data, uri, mode="append")
    mixed = str(tmp_path / "mixed")
    lance.write_dataset(data, mixed, data_storage_version="2.2")
    lance.write_dataset(data, mixed, mode="append", data_storage_version="2.3")
    name = lance.dataset(mixed).get_fragments()[1].data_files()[0].path
    with pytest.raises(UnsupportedVersionError, match=rf"data file {name} has format 2\.3"):
        lance_core.dataset(mixed)
    assert lance_core.dataset(mixed, version=1).to_table().equals(data)


@pytest.mark.parametrize("named", ["2.4", "stable", "0.3", ""])
def test_tables_of_unknown_versions_are_refused_by_both_libraries(uri: str, named: str) -> None:
    lance.write_dataset(rows("2.0", 0, 3), uri)
    _edit_manifest(uri, lambda message: setattr(message.data_format, "version", named))
    with pytest.raises(UnsupportedVersionError, match=f"unknown data file version '{named}'"):
        lance_core.dataset(uri)
    with pytest.raises(ValueError, match="Unknown Lance storage version"):
        lance.dataset(uri)


def test_data_file_of_a_newer_version_is_named_in_the_error(uri: str) -> None:
    lance.write_dataset(rows("2.0", 0, 3), uri)
    name = lance.dataset(uri).get_fragments()[0].data_files()[0].path

    def newer(message: object) -> None:
        message.fragments[0].files[0].file_minor_version = 9

    _edit_manifest(uri, newer)
    with pytest.raises(UnsupportedVersionError, match=rf"{name}: data file version 2\.9 is newer"):
        lance_core.dataset(uri)
    _edit_manifest(uri, lambda message: setattr(message.fragments[0].files[0], "file_minor_version", 1))
    with pytest.raises(CorruptDataError, match=rf"data file {name} has format 2\.1, but the table has format 2\.2"):
        lance_core.dataset(uri)
    # The versions recorded in the manifest and in the file must agree.
    _edit_manifest(uri, lambda message: setattr(message.data_format, "version", "2.1"))
    with pytest.raises(CorruptDataError, match=rf"{name} has format 2\.2, but the manifest records 2\.1"):
        lance_core.dataset(uri).to_table()


def test_file_whose_version_differs_from_the_recorded_version_is_not_committed(uri: str) -> None:
    data = rows("2.0", 0, 3)
    lance_core.write_dataset(data, uri)
    [fragment] = lance_core.write_fragments(data, uri, data_storage_version="2.1")
    fragment.files[0].file_minor_version = 2
    with pytest.raises(InvalidInputError, match=r"has format 2\.1, but the fragment records 2\.2"):
        lance_core.LanceDataset.commit(uri, lance_core.LanceOperation.Append([fragment]), read_version=1)


# ── Row groups of 0.1 ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("rows_per_group", [1, 7, 20, 1024])
@pytest.mark.sampled(2)
def test_row_groups_in_format_0_1_have_the_requested_size(uri: str, tmp_path: Path, rows_per_group: int) -> None:
    data = rows("0.1", 0, 50)
    options = {"data_storage_version": "0.1", "max_rows_per_group": rows_per_group}
    lance_core.write_dataset(data, uri, **options)
    other = str(tmp_path / "other")
    lance.write_dataset(data, other, **options)
    sizes = [[batch.num_rows for batch in lance.dataset(each).to_batches()] for each in (uri, other)]
    assert sizes[0] == sizes[1]
    same(uri, data, "0.1")
    # The reference adds columns with the existing row groups.
    lance.dataset(uri).add_columns({"twice": "id * 2"})
    same(uri, data.append_column("twice", pa.array([2 * i for i in range(50)])), "0.1")
    lance_core.write_dataset(data, uri, mode="overwrite", max_rows_per_file=30)
    lance_core.dataset(uri).optimize.compact_files(max_rows_per_group=rows_per_group)
    assert [batch.num_rows for batch in lance.dataset(uri).to_batches()] == sizes[0]


def test_data_files_of_one_batch_equal_those_of_pylance(uri: str, tmp_path: Path) -> None:
    data = rows("0.1", 0, 40)
    other = str(tmp_path / "other")
    lance_core.write_dataset(data, uri, data_storage_version="0.1")
    lance.write_dataset(data, other, data_storage_version="0.1")
    [ours], [theirs] = (list(Path(each, "data").iterdir()) for each in (uri, other))
    assert ours.read_bytes() == theirs.read_bytes()
