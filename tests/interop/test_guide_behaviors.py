"""Statements of the Lance user guides about changing columns and rows, tested with both libraries.

Source: the pages "Data Evolution", "Distributed Write", and "Read and Write Data" of the documentation of Lance, and
the docstrings of pylance 14.0.2. Each test checks one statement, with either library as the writer and both as readers.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_core

LIBRARIES = {"pylance": lance, "lance_core": lance_core}
IDS = pa.table({"id": [1, 2, 3]})
NAMES = pa.table({"id": [1, 2, 3], "name": ["Alice", "Bob", "Carla"]})


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> ModuleType:
    return LIBRARIES[request.param]


def _rows(uri: Path) -> list[dict[str, Any]]:
    """Return the rows, as both libraries read them."""
    (theirs, ours) = (each.dataset(str(uri)).to_table() for each in LIBRARIES.values())
    assert theirs == ours
    return ours.to_pylist()


def _data_files(uri: Path) -> set[str]:
    return {path.name for path in (uri / "data").iterdir()}


# ── Adding columns without values ────────────────────────────────────────────────────────────────────────────────────


def test_columns_without_values_are_added_from_a_field_a_list_or_a_schema(library: ModuleType, tmp_path: Path) -> None:
    uri = tmp_path / "t"
    dataset = library.write_dataset(IDS, uri)
    files = _data_files(uri)
    vectors = pa.list_(pa.float32(), 4)
    dataset.add_columns(pa.field("embedding", vectors))
    dataset.add_columns([pa.field("label", pa.string())])
    dataset.add_columns(pa.schema({"score": pa.float32()}))
    assert dataset.schema == pa.schema(
        {"id": pa.int64(), "embedding": vectors, "label": pa.string(), "score": pa.float32()}
    )
    assert _data_files(uri) == files
    assert _rows(uri)[2] == {"id": 3, "embedding": None, "label": None, "score": None}


def test_columns_added_without_values_can_be_filled_later(library: ModuleType, tmp_path: Path) -> None:
    uri = tmp_path / "t"
    dataset = library.write_dataset(IDS, uri, max_rows_per_file=2)
    dataset.add_columns(pa.field("label", pa.string()))
    labels = pa.table({"id": [1, 3], "label": ["one", "three"]})
    changed = [fragment.update_columns(labels, "id") for fragment in dataset.get_fragments()]
    operation = library.LanceOperation.Update(
        updated_fragments=[fragment for fragment, _ in changed], fields_modified=changed[0][1]
    )
    library.LanceDataset.commit(uri, operation, read_version=dataset.version)
    assert [row["label"] for row in _rows(uri)] == ["one", None, "three"]


STRUCTS = {
    "a struct": (pa.table({"p": [{"name": "x"}]}), pa.struct([pa.field("city", pa.string())])),
    "a struct in a struct": (
        pa.table({"p": [{"q": {"name": "x"}}]}),
        pa.struct([pa.field("q", pa.struct([pa.field("city", pa.string())]))]),
    ),
    "items of a list": (pa.table({"p": [[{"name": "x"}, None]]}), pa.list_(pa.struct([pa.field("city", pa.string())]))),
}


@pytest.mark.parametrize("kind", STRUCTS)
def test_members_can_be_added_to_structs_in_format_2_2_and_later(
    library: ModuleType, tmp_path: Path, kind: str
) -> None:
    rows, extended = STRUCTS[kind]
    for version in ("2.1", "2.2"):
        uri = tmp_path / version
        dataset = library.write_dataset(rows, uri, data_storage_version=version)
        if version == "2.1":
            with pytest.raises(OSError, match=r"2\.1"):
                dataset.add_columns(pa.field("p", extended))
            assert _rows(uri) == rows.to_pylist()
        else:
            dataset.add_columns(pa.field("p", extended))
            (row,) = _rows(uri)
            (before,) = rows.to_pylist()
            assert json.dumps(row) == json.dumps(before).replace('"x"}', '"x", "city": null}')


def test_adding_values_to_items_of_lists_is_refused(tmp_path: Path) -> None:
    """Pylance adds such values, but does not check that the lists are as long as those of the table."""
    rows, _ = STRUCTS["items of a list"]
    dataset = lance_core.write_dataset(rows, tmp_path / "t")
    with pytest.raises(lance_core.NotSupportedError, match="items of list 'p'"):
        dataset.add_columns(pa.table({"p": [[{"city": "Rome"}, None]]}))
    assert dataset.latest_version == 1


# ── Adding columns with values ───────────────────────────────────────────────────────────────────────────────────────


def test_column_values_may_be_sql_expressions_or_literals(library: ModuleType, tmp_path: Path) -> None:
    uri = tmp_path / "t"
    library.write_dataset(NAMES, uri).add_columns({"hash": "sha256(name)", "status": "'active'", "twice": "id * 2"})
    rows = _rows(uri)
    assert [row["status"] for row in rows] == ["active"] * 3
    assert [row["twice"] for row in rows] == [2, 4, 6]
    assert rows[0]["hash"].hex().startswith("3bc51062973c458d5a6f2d8d64a02324")


def test_column_values_may_be_batches_or_data_frames_returned_by_a_function(
    library: ModuleType, tmp_path: Path
) -> None:
    uri = tmp_path / "t"
    dataset = library.write_dataset(NAMES, uri)

    @library.batch_udf()
    def lengths(batch: pa.RecordBatch) -> pd.DataFrame:
        return pd.DataFrame({"length": batch.to_pandas()["name"].str.len()})

    dataset.add_columns(lengths)
    dataset.add_columns(lambda batch: pa.record_batch([pc.utf8_upper(batch["name"])], ["upper"]), read_columns=["name"])
    assert [(row["length"], row["upper"]) for row in _rows(uri)] == [(5, "ALICE"), (3, "BOB"), (5, "CARLA")]


def test_a_function_with_a_checkpoint_continues_where_it_failed(library: ModuleType, tmp_path: Path) -> None:
    uri, checkpoint = tmp_path / "t", tmp_path / "checkpoint.sqlite"
    dataset = library.write_dataset(pa.table({"id": range(6)}), uri, max_rows_per_file=2)
    calls: list[int] = []

    def add(fails_at: int | None) -> None:
        def tenfold(batch: pa.RecordBatch) -> pa.RecordBatch:
            (first, *_) = batch["id"].to_pylist()
            calls.append(first)
            if first == fails_at:
                raise RuntimeError("out of memory")
            return pa.record_batch([pc.multiply(batch["id"], 10)], ["ten"])

        schema = pa.schema({"ten": pa.int64()})
        dataset.add_columns(library.batch_udf(schema, checkpoint)(tenfold))

    with pytest.raises(Exception, match="out of memory"):
        add(fails_at=4)
    assert checkpoint.exists()
    calls.clear()
    add(fails_at=None)
    assert set(calls) == {4}
    assert not checkpoint.exists()
    assert [row["ten"] for row in _rows(uri)] == [0, 10, 20, 30, 40, 50]


def test_column_values_are_read_from_a_stream_in_row_order(library: ModuleType, tmp_path: Path) -> None:
    uri = tmp_path / "t"
    dataset = library.write_dataset(IDS, uri, max_rows_per_file=2)
    values = pa.table({"label": ["one", "two", "three"]})
    dataset.add_columns(values.to_reader())
    assert [row["label"] for row in _rows(uri)] == ["one", "two", "three"]
    for wrong in (values.slice(1), pa.concat_tables([values, values])):
        with pytest.raises((ValueError, OSError), match=r"rows|values"):
            dataset.add_columns(wrong.rename_columns(["other"]).to_reader())


def test_existing_files_are_kept_when_columns_are_added(library: ModuleType, tmp_path: Path) -> None:
    uri = tmp_path / "t"
    dataset = library.write_dataset(IDS, uri, max_rows_per_file=2)
    before = {path.name: path.stat() for path in (uri / "data").iterdir()}
    dataset.add_columns({"twice": "id * 2"})
    after = {path.name: path.stat() for path in (uri / "data").iterdir()}
    assert len(after) == 2 * len(before)
    assert all(
        (after[name].st_mtime_ns, after[name].st_ino) == (old.st_mtime_ns, old.st_ino) for name, old in before.items()
    )


def test_columns_of_another_table_are_joined_by_key(library: ModuleType, tmp_path: Path) -> None:
    uri = tmp_path / "t"
    dataset = library.write_dataset(IDS, uri)
    dataset.merge(pa.table({"id": [3, 1], "label": ["cat", "horse"]}), "id")
    dataset.merge(pa.table({"key": [2], "age": [7]}), left_on="id", right_on="key")
    assert [(row["label"], row["age"]) for row in _rows(uri)] == [("horse", None), (None, 7), ("cat", None)]


# ── Dropping columns ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_dropped_column_remains_on_disk_until_compaction_and_cleanup(library: ModuleType, tmp_path: Path) -> None:
    uri = tmp_path / "t"
    dataset = library.write_dataset(NAMES, uri)
    files = _data_files(uri)
    dataset.drop_columns(["name"])
    assert dataset.schema.names == ["id"]
    assert _data_files(uri) == files
    # As long as the old version is kept, the drop can be reverted.
    assert library.dataset(uri, version=1).to_table() == NAMES
    library.dataset(uri, version=1).restore()
    assert _rows(uri) == NAMES.to_pylist()
    dataset = library.dataset(uri)
    dataset.drop_columns(["name"])
    library.write_dataset(IDS, uri, mode="append")
    dataset = library.dataset(uri)
    dataset.optimize.compact_files()
    dataset.cleanup_old_versions(retain_versions=1)
    assert not files & _data_files(uri)
    assert [row["id"] for row in _rows(uri)] == [1, 2, 3, 1, 2, 3]


def test_members_are_dropped_by_their_path(library: ModuleType, tmp_path: Path) -> None:
    uri = tmp_path / "t"
    rows = pa.table({"s": [{"a": 1, "b": {"c": 2, "d": 3}}], "people": [[{"name": "x", "city": "y"}]]})
    library.write_dataset(rows, uri, data_storage_version="2.2").drop_columns(["s.b.c", "people.item.city"])
    assert _rows(uri) == [{"s": {"a": 1, "b": {"d": 3}}, "people": [{"name": "x"}]}]


# ── Renaming and casting columns ─────────────────────────────────────────────────────────────────────────────────────


def test_columns_and_members_are_renamed_without_rewriting_data(library: ModuleType, tmp_path: Path) -> None:
    uri = tmp_path / "t"
    dataset = library.write_dataset(pa.table({"id": [1], "meta": [{"id": 1, "name": "Alice"}]}), uri)
    files = _data_files(uri)
    dataset.alter_columns({"path": "id", "name": "key"}, {"path": "meta.id", "name": "new_id"})
    assert _data_files(uri) == files
    assert _rows(uri) == [{"key": 1, "meta": {"new_id": 1, "name": "Alice"}}]


@pytest.mark.parametrize("alteration", [{"name": "key"}, {"data_type": pa.int32()}], ids=["rename", "cast"])
def test_a_renamed_column_keeps_its_index_and_a_cast_column_loses_it(
    library: ModuleType, tmp_path: Path, alteration: dict[str, Any]
) -> None:
    uri = tmp_path / "t"
    dataset = lance.write_dataset(NAMES, uri)
    dataset.create_scalar_index("id", "BTREE")
    dataset.create_scalar_index("name", "BTREE")
    if library is lance and "data_type" in alteration:
        # Pylance 14.0.2 requires that the index be dropped first, although its documentation says otherwise.
        with pytest.raises(OSError, match="drop_index"):
            library.dataset(uri).alter_columns({"path": "id", **alteration})
        return
    library.dataset(uri).alter_columns({"path": "id", **alteration})
    kept = ["id_idx", "name_idx"] if "name" in alteration else ["name_idx"]
    for each in LIBRARIES.values():
        assert sorted(index.name for index in each.dataset(uri).describe_indices()) == kept
    assert lance.dataset(uri).to_table(filter="name = 'Bob'").num_rows == 1


def test_a_cast_writes_only_the_column_that_is_cast(library: ModuleType, tmp_path: Path) -> None:
    uri = tmp_path / "t"
    dataset = library.write_dataset(NAMES, uri)
    before = _data_files(uri)
    dataset.alter_columns({"path": "id", "data_type": pa.int16()})
    (new,) = _data_files(uri) - before
    assert lance.file.LanceFileReader(str(uri / "data" / new)).metadata().schema.names == ["id"]
    assert before < _data_files(uri)
    assert dataset.schema.field("id").type == pa.int16()
    assert _rows(uri) == NAMES.to_pylist()


def test_vectors_are_cast_to_lower_precision(library: ModuleType, tmp_path: Path) -> None:
    """This includes a tensor column, which becomes a column of lists."""
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(12, dtype=np.float32).reshape(3, 4))
    for name, vectors in {"tensors": tensors, "lists": tensors.storage}.items():
        uri = tmp_path / name
        dataset = library.write_dataset(pa.table({"id": [1, 2, 3], "embedding": vectors}), uri)
        dataset.alter_columns({"path": "embedding", "data_type": pa.list_(pa.float16(), 4)})
        assert dataset.schema.field("embedding").type == pa.list_(pa.float16(), 4)
        assert not dataset.schema.field("embedding").metadata
        assert _rows(uri)[1] == {"id": 2, "embedding": [4.0, 5.0, 6.0, 7.0]}


def test_a_cast_fails_if_a_value_does_not_fit(library: ModuleType, tmp_path: Path) -> None:
    dataset = library.write_dataset(pa.table({"id": [1, 1 << 40]}), tmp_path / "t")
    with pytest.raises((OSError, ValueError), match=r"fit|cast"):
        dataset.alter_columns({"path": "id", "data_type": pa.int32()})
    assert _rows(tmp_path / "t") == [{"id": 1}, {"id": 1 << 40}]


def test_a_column_can_always_become_nullable_but_required_only_without_nulls(
    library: ModuleType, tmp_path: Path
) -> None:
    uri = tmp_path / "t"
    dataset = library.write_dataset(pa.table({"full": [1, 2], "some": [1, None]}), uri)
    dataset.alter_columns({"path": "full", "nullable": False})
    assert not dataset.schema.field("full").nullable
    with pytest.raises(OSError, match="some"):
        dataset.alter_columns({"path": "some", "nullable": False})
    dataset.alter_columns({"path": "full", "nullable": True})
    assert dataset.schema.field("full").nullable
    assert _rows(uri) == [{"full": 1, "some": 1}, {"full": 2, "some": None}]


# ── Other writers ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("change", ["add", "cast"])
def test_a_schema_change_concurrent_with_an_append_loses_no_row(
    library: ModuleType, tmp_path: Path, change: str
) -> None:
    """In pylance, one of them fails; this library plans the change again."""
    uri = tmp_path / "t"
    dataset = library.write_dataset(IDS, uri)
    lance.write_dataset(pa.table({"id": [4]}), uri, mode="append")

    def act() -> None:
        if change == "add":
            dataset.add_columns({"twice": "id * 2"})
        else:
            dataset.alter_columns({"path": "id", "data_type": pa.int32()})

    if library is lance:
        with pytest.raises(OSError, match="conflict"):
            act()
    else:
        act()
        assert dataset.version == 3
    assert [row["id"] for row in _rows(uri)] == [1, 2, 3, 4]


# ── Distributed changes ──────────────────────────────────────────────────────────────────────────────────────────────


def test_workers_add_columns_to_fragments_and_one_of_them_commits(library: ModuleType, tmp_path: Path) -> None:
    uri = tmp_path / "t"
    dataset = library.write_dataset(NAMES, uri, max_rows_per_file=2)

    def length(names: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch([pc.utf8_length(names["name"])], ["length"])

    changed = [fragment.merge_columns(length, ["name"]) for fragment in dataset.get_fragments()]
    operation = library.LanceOperation.Merge([fragment for fragment, _ in changed], schema=changed[0][1])
    library.LanceDataset.commit(uri, operation, read_version=dataset.version)
    assert [row["length"] for row in _rows(uri)] == [5, 3, 5]


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
def test_workers_update_columns_of_fragments_and_one_of_them_commits(
    library: ModuleType, tmp_path: Path, stable: bool
) -> None:
    uri = tmp_path / "t"
    rows = pa.table({"id": [1, 2, 3, 4], "name": ["Alice", "Bob", "Charlie", "David"], "score": [85, 90, 75, 80]})
    dataset = library.write_dataset(rows, uri, max_rows_per_file=2, enable_stable_row_ids=stable)
    new = pa.table({"id": [1, 3], "name": ["Alan", "Chase"], "score": [95, 85]})
    changed = [fragment.update_columns(new, left_on="id", right_on="id") for fragment in dataset.get_fragments()]
    operation = library.LanceOperation.Update(
        updated_fragments=[fragment for fragment, _ in changed],
        fields_modified=sorted({field_id for _, field_ids in changed for field_id in field_ids}),
    )
    library.LanceDataset.commit(uri, operation, read_version=dataset.version)
    assert [(row["name"], row["score"]) for row in _rows(uri)] == [
        ("Alan", 95),
        ("Bob", 90),
        ("Chase", 85),
        ("David", 80),
    ]


def test_an_update_of_columns_finds_rows_by_their_ids(library: ModuleType, tmp_path: Path) -> None:
    uri = tmp_path / "t"
    dataset = library.write_dataset(NAMES, uri)
    ids = dataset.to_table(filter="name = 'Bob'", with_row_id=True)["_rowid"]
    changed, field_ids = dataset.get_fragment(0).update_columns(pa.table({"_rowid": ids, "name": ["Robert"]}))
    operation = library.LanceOperation.Update(updated_fragments=[changed], fields_modified=field_ids)
    library.LanceDataset.commit(uri, operation, read_version=dataset.version)
    assert [row["name"] for row in _rows(uri)] == ["Alice", "Robert", "Carla"]


# ── Metadata ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_metadata_is_updated_by_key_or_replaced_as_a_whole(library: ModuleType, tmp_path: Path) -> None:
    dataset = library.write_dataset(IDS, tmp_path / "t")
    for change, read in (
        (dataset.update_metadata, lambda each: each.metadata),
        (dataset.update_schema_metadata, lambda each: each.schema_metadata),
        (dataset.update_config, lambda each: {key: value for key, value in each.config().items() if key in "abc"}),
    ):
        assert change({"a": "1", "b": "2"}) == read(dataset)
        change({"a": None, "c": "3"})
        for each in LIBRARIES.values():
            assert read(each.dataset(tmp_path / "t")) == {"b": "2", "c": "3"}
        change({"a": "4"}, replace=True)
        assert read(lance.dataset(tmp_path / "t")) == read(lance_core.dataset(tmp_path / "t")) == {"a": "4"}


def test_metadata_of_fields_is_changed_by_path(library: ModuleType, tmp_path: Path) -> None:
    uri = tmp_path / "t"
    dataset = library.write_dataset(pa.table({"id": [1], "s": [{"x": 1}]}), uri)
    dataset.update_field_metadata({"id": {"unit": "m", "note": "n"}, "s.x": {"unit": "kg"}})
    dataset.update_field_metadata({"id": {"note": None}})
    for each in LIBRARIES.values():
        schema = each.dataset(uri).schema
        assert schema.field("id").metadata == {b"unit": b"m"}
        assert schema.field("s").type.field("x").metadata == {b"unit": b"kg"}
    dataset.update_field_metadata({"id": {"only": "this"}}, replace=True)
    assert lance.dataset(uri).schema.field("id").metadata == {b"only": b"this"}


def test_deprecated_methods_replace_metadata_and_warn(library: ModuleType, tmp_path: Path) -> None:
    dataset = library.write_dataset(IDS, tmp_path / "t")
    dataset.update_schema_metadata({"old": "1"})
    with pytest.warns(DeprecationWarning, match="replace_schema_metadata"):
        dataset.replace_schema_metadata({"new": "2"})
    with pytest.warns(DeprecationWarning, match="replace_field_metadata"):
        dataset.replace_field_metadata("id", {"unit": "m"})
    for each in LIBRARIES.values():
        assert each.dataset(tmp_path / "t").schema_metadata == {"new": "2"}
        assert each.dataset(tmp_path / "t").schema.field("id").metadata == {b"unit": b"m"}
    with pytest.raises(NotImplementedError):
        dataset.replace_schema(pa.schema({"id": pa.int32()}))


# ── Versions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_truncating_a_table_keeps_its_columns_and_versions(library: ModuleType, tmp_path: Path) -> None:
    dataset = library.write_dataset(NAMES, tmp_path / "t")
    dataset.truncate_table()
    assert dataset.schema == NAMES.schema
    assert _rows(tmp_path / "t") == []
    assert library.dataset(tmp_path / "t", version=1).to_table() == NAMES


def test_restoring_a_version_restores_its_columns(library: ModuleType, tmp_path: Path) -> None:
    dataset = library.write_dataset(NAMES, tmp_path / "t")
    dataset.drop_columns(["name"])
    dataset.checkout_version(1).restore()
    assert library.dataset(tmp_path / "t").version == 3
    assert _rows(tmp_path / "t") == NAMES.to_pylist()


def test_a_delta_shows_inserted_updated_and_deleted_rows_and_transactions(library: ModuleType, tmp_path: Path) -> None:
    dataset = library.write_dataset(NAMES, tmp_path / "t", enable_stable_row_ids=True)
    dataset = library.write_dataset(pa.table({"id": [4], "name": ["Dan"]}), tmp_path / "t", mode="append")
    dataset.delete("id = 1")
    delta = dataset.delta(compared_against=1)
    assert delta.get_inserted_rows().read_all()["id"].to_pylist() == [4]
    assert delta.get_updated_rows().read_all().num_rows == 0
    assert delta.get_deleted_row_ids().read_all()["_rowid"].to_pylist() == [0]
    names = [type(each.operation).__name__ for each in delta.list_transactions()]
    assert sorted(names) == ["Append", "Delete"]


# ── Changing rows ────────────────────────────────────────────────────────────────────────────────────────────────────


PEOPLE = pa.table({"name": ["Alice", "Bob", "Carla"], "age": [20, 30, 45]})


def _ages(uri: Path) -> dict[str, int]:
    return {row["name"]: row["age"] for row in _rows(uri)}


def _people(**ages: int) -> pa.Table:
    return pa.table({"name": list(ages), "age": list(ages.values())})


def test_rows_are_added_by_insert_or_by_a_write_in_append_mode(library: ModuleType, tmp_path: Path) -> None:
    uri = tmp_path / "t"
    dataset = library.write_dataset(PEOPLE, uri)
    dataset.insert(_people(Dan=42))
    library.write_dataset((batch for batch in _people(Eve=43).to_batches()), dataset, PEOPLE.schema, mode="append")
    assert _ages(uri) == {"Alice": 20, "Bob": 30, "Carla": 45, "Dan": 42, "Eve": 43}


def test_deleted_rows_are_marked_and_their_files_are_kept(library: ModuleType, tmp_path: Path) -> None:
    uri = tmp_path / "t"
    dataset = library.write_dataset(PEOPLE, uri)
    files = _data_files(uri)
    assert dataset.delete("name = 'Bob'")["num_deleted_rows"] == 1
    assert _data_files(uri) == files
    assert _ages(uri) == {"Alice": 20, "Carla": 45}


def test_rows_are_updated_with_sql_expressions_over_their_columns(library: ModuleType, tmp_path: Path) -> None:
    uri = tmp_path / "t"
    dataset = library.write_dataset(PEOPLE, uri)
    assert dataset.update({"name": "'Bobby'"}, where="name = 'Bob'") == {"num_rows_updated": 1}
    assert dataset.update({"age": "age + 2"}) == {"num_rows_updated": 3}
    assert _ages(uri) == {"Alice": 22, "Bobby": 32, "Carla": 47}


def test_a_merge_updates_rows_by_their_key(library: ModuleType, tmp_path: Path) -> None:
    uri = tmp_path / "t"
    dataset = library.write_dataset(PEOPLE, uri)
    done = dataset.merge_insert("name").when_matched_update_all().execute(_people(Alice=2, Bob=3, Zoe=1))
    assert (done["num_updated_rows"], done["num_inserted_rows"], done["num_deleted_rows"]) == (2, 0, 0)
    assert _ages(uri) == {"Alice": 2, "Bob": 3, "Carla": 45}


def test_a_merge_inserts_only_rows_whose_keys_are_new(library: ModuleType, tmp_path: Path) -> None:
    uri = tmp_path / "t"
    dataset = library.write_dataset(PEOPLE, uri)
    done = dataset.merge_insert("name").when_not_matched_insert_all().execute(_people(Bob=99, Dan=37))
    assert (done["num_updated_rows"], done["num_inserted_rows"]) == (0, 1)
    assert _ages(uri) == {"Alice": 20, "Bob": 30, "Carla": 45, "Dan": 37}


def test_an_upsert_updates_rows_or_inserts_them(library: ModuleType, tmp_path: Path) -> None:
    uri = tmp_path / "t"
    dataset = library.write_dataset(PEOPLE, uri)
    upsert = dataset.merge_insert("name").when_matched_update_all().when_not_matched_insert_all()
    done = upsert.execute(_people(Carla=27, Dan=42))
    assert (done["num_updated_rows"], done["num_inserted_rows"]) == (1, 1)
    assert _ages(uri) == {"Alice": 20, "Bob": 30, "Carla": 27, "Dan": 42}


def test_an_upsert_with_a_condition_updates_only_rows_that_satisfy_it(library: ModuleType, tmp_path: Path) -> None:
    uri = tmp_path / "t"
    dataset = library.write_dataset(PEOPLE, uri)
    upsert = dataset.merge_insert("name").when_matched_update_all("target.age < source.age")
    upsert.execute(_people(Alice=21, Bob=29))
    assert _ages(uri) == {"Alice": 21, "Bob": 30, "Carla": 45}


def test_a_merge_replaces_the_target_rows_that_satisfy_a_condition(library: ModuleType, tmp_path: Path) -> None:
    uri = tmp_path / "t"
    dataset = library.write_dataset(PEOPLE, uri)
    replace = dataset.merge_insert("name").when_not_matched_insert_all()
    done = replace.when_not_matched_by_source_delete("age >= 40").execute(_people(Edgar=46, Fay=44))
    assert (done["num_inserted_rows"], done["num_deleted_rows"]) == (2, 1)
    assert _ages(uri) == {"Alice": 20, "Bob": 30, "Edgar": 46, "Fay": 44}


def test_a_merge_of_some_columns_keeps_the_other_columns(library: ModuleType, tmp_path: Path) -> None:
    uri = tmp_path / "t"
    dataset = library.write_dataset(PEOPLE.append_column("city", [["Rome", "Bern", "Oslo"]]), uri)
    dataset.merge_insert("name").when_matched_update_all().execute(_people(Bob=31))
    assert {(row["name"], row["age"], row["city"]) for row in _rows(uri)} == {
        ("Alice", 20, "Rome"),
        ("Bob", 31, "Bern"),
        ("Carla", 45, "Oslo"),
    }
