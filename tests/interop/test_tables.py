"""Tables of each library are read and changed by the other."""

import inspect
import json
from datetime import timedelta
from pathlib import Path
from types import ModuleType

import lance
import lance.fragment
import pyarrow as pa
import pytest
from lance import LanceOperation as TheirOperation

import lance_core
from lance_core.errors import IncompatibleTransactionError, RetryableCommitConflictError
from lance_core.schema.convert import fields_to_proto
from lance_core.table.index_metadata import parse_index_section
from lance_core.write.request import WriteRequest

ROWS = pa.table(
    {
        "id": pa.array(range(100), pa.int64()),
        "text": pa.array([f"row {i}" if i % 7 else None for i in range(100)]),
        "s": pa.array([{"x": i, "y": [i] * (i % 3)} for i in range(100)]),
        "v": pa.array([[float(i), 0.5] for i in range(100)], pa.list_(pa.float32(), 2)),
    }
)


def _same(uri: str, version: int | None = None) -> pa.Table:
    """Read the table with both libraries, compare the rows, and validate it with both."""
    ours, theirs = lance_core.dataset(uri, version=version), lance.dataset(uri, version=version)
    assert ours.version == theirs.version
    rows = ours.to_table()
    assert rows.schema.equals(theirs.schema)
    assert rows.equals(theirs.to_table())
    assert ours.count_rows() == theirs.count_rows()
    _same_versions(ours.versions(), theirs.versions())
    assert [fragment.metadata.to_json() for fragment in ours.get_fragments()] == [
        fragment.metadata.to_json() for fragment in theirs.get_fragments()
    ]
    ours.validate()
    theirs.validate()
    return rows


def _same_versions(ours: list, theirs: list) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        # The reference computes the time in floating point.
        assert abs(mine.pop("timestamp") - other.pop("timestamp")) <= timedelta(microseconds=1)
        assert mine == other


def test_a_lance_core_table_is_read_and_changed_by_pylance(uri: str) -> None:
    lance_core.write_dataset(ROWS, uri, max_rows_per_file=40)
    assert _same(uri).equals(ROWS)
    lance.write_dataset(ROWS, uri, mode="append")
    lance_core.write_dataset(ROWS, uri, mode="append")
    assert _same(uri).num_rows == 300
    lance.dataset(uri).delete("id % 10 = 3")
    lance_core.write_dataset(ROWS, uri, mode="append")
    assert _same(uri).num_rows == 370
    lance.dataset(uri).optimize.compact_files()
    lance_core.write_dataset(ROWS, uri, mode="append")
    assert _same(uri).num_rows == 470
    lance.write_dataset(ROWS.select(["id"]), uri, mode="overwrite")
    lance_core.write_dataset(pa.table({"id": [1]}), uri, mode="append")
    assert _same(uri).num_rows == 101
    lance_core.write_dataset(ROWS, uri, mode="overwrite")
    assert _same(uri).equals(ROWS)
    for version in range(1, lance.dataset(uri).version + 1):
        _same(uri, version)


def test_a_pylance_table_is_read_and_changed_by_lance_core(uri: str) -> None:
    lance.write_dataset(ROWS, uri, max_rows_per_file=30)
    assert _same(uri).equals(ROWS)
    lance_core.write_dataset(ROWS, uri, mode="append")
    assert _same(uri).num_rows == 200
    lance.dataset(uri).restore()
    lance.dataset(uri, version=1).restore()
    assert _same(uri).num_rows == 100
    lance_core.write_dataset(ROWS, uri, mode="append")
    ids = [fragment.fragment_id for fragment in lance_core.dataset(uri).get_fragments()]
    assert ids == sorted(set(ids))
    assert ids[-1] > 4
    _same(uri)


# ── Deleted rows ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "condition", ["id % 3 = 0", "id < 40", "id >= 60", "id = 0 or id = 99", "id between 10 and 89"]
)
@pytest.mark.sampled(3)
def test_every_kind_of_read_omits_deleted_rows(uri: str, condition: str) -> None:
    lance.write_dataset(ROWS, uri, max_rows_per_file=30)
    lance.dataset(uri).delete(condition)
    ours, theirs = lance_core.dataset(uri), lance.dataset(uri)
    left = _same(uri)
    for offset in (0, 1, 7, 25, 60):
        for limit in (None, 0, 1, 10, 33):
            assert ours.to_table(offset=offset, limit=limit, batch_size=8).equals(left.slice(offset, limit))
    rows = list(range(0, left.num_rows, 3))[::-1]
    assert ours.take(rows).equals(theirs.take(rows))
    assert ours.to_table(columns=[]).num_rows == left.num_rows
    for mine, other in zip(ours.get_fragments(), theirs.get_fragments(), strict=True):
        assert (mine.num_deletions, mine.count_rows()) == (other.num_deletions, other.count_rows())
        assert mine.deletion_file() == other.deletion_file()
        assert mine.to_table().equals(other.to_table())


def test_many_deleted_rows_are_stored_as_a_bitmap(uri: str) -> None:
    lance.write_dataset(pa.table({"id": range(20_000)}), uri)
    lance.dataset(uri).delete("id % 3 = 0")
    [fragment] = lance_core.dataset(uri).get_fragments()
    assert fragment.deletion_file().endswith(".bin")
    assert _same(uri)["id"].to_pylist() == [i for i in range(20_000) if i % 3]


# ── Schemas that changed ──────────────────────────────────────────────────────────────────────────────────────────


def test_columns_added_later_are_read_from_their_files_or_as_nulls(uri: str) -> None:
    lance.write_dataset(ROWS, uri, max_rows_per_file=40)
    lance.dataset(uri).delete("id = 5")
    lance.dataset(uri).add_columns({"twice": "id * 2"})
    lance.dataset(uri).add_columns(pa.field("nothing", pa.string()))
    rows = _same(uri)
    assert rows["twice"].to_pylist() == [2 * i for i in range(100) if i != 5]
    assert rows["nothing"].null_count == 99
    ours = lance_core.dataset(uri)
    assert ours.to_table(columns=["nothing"]).num_rows == 99
    assert ours.to_table(columns=["twice", "s.x"], offset=40, limit=5).equals(
        lance.dataset(uri).to_table(columns=["twice", "s.x"], offset=40, limit=5)
    )
    lance_core.write_dataset(ROWS, uri, mode="append")
    assert _same(uri)["twice"].null_count == 100


def test_a_table_with_dropped_renamed_or_cast_columns_is_read_and_changed(uri: str) -> None:
    lance.write_dataset(ROWS, uri)
    lance.dataset(uri).drop_columns(["text"])
    lance.dataset(uri).alter_columns({"path": "v", "name": "vector"})
    lance.dataset(uri).alter_columns({"path": "id", "data_type": pa.int32()})
    rows = _same(uri)
    assert rows.schema.field("id").type == pa.int32()
    appended = rows.slice(0, 3)
    lance_core.write_dataset(appended, uri, mode="append")
    assert _same(uri).num_rows == 103
    assert lance_core.dataset(uri).max_field_id == lance.dataset(uri).max_field_id


def test_a_table_with_rows_updated_by_pylance_is_read_and_changed(uri: str) -> None:
    lance.write_dataset(ROWS, uri, max_rows_per_file=40)
    lance.dataset(uri).update({"text": "'changed'"}, where="id % 20 = 1")
    lance.dataset(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(
        pa.concat_tables([ROWS.slice(10, 2), ROWS.slice(99, 1)])
    )
    _same(uri)
    lance_core.write_dataset(ROWS, uri, mode="append")
    _same(uri)


def test_field_ids_of_an_overwrite_start_at_zero_as_in_pylance(uri: str) -> None:
    lance.write_dataset(ROWS, uri)
    other = pa.table({"z": [1], "text": ["x"], "id": [2]})
    lance_core.write_dataset(other, uri, mode="overwrite")
    ours = lance_core.dataset(uri)
    lance.write_dataset(other, uri, mode="overwrite")
    assert lance_core.dataset(uri).lance_schema == ours.lance_schema
    assert ours.get_fragment(1).data_files()[0].fields == [0, 1, 2]


# ── Inherited manifest content ────────────────────────────────────────────────────────────────────────────────────


def test_settings_and_indices_survive_commits_of_lance_core(uri: str) -> None:
    theirs = lance.write_dataset(ROWS, uri, max_rows_per_file=50)
    theirs.update_config({"lance.compaction.target_rows_per_fragment": "1000", "mine": "1"})
    theirs.update_metadata({"owner": "me"})
    theirs.create_scalar_index("id", "BTREE")
    before = lance_core.dataset(uri)
    assert before.has_index
    lance_core.write_dataset(ROWS, uri, mode="append")
    after = lance_core.dataset(uri)
    assert after.manifest.index_section == before.manifest.index_section
    assert (after.config(), after.metadata) == (before.config(), {"owner": "me"})
    assert after.manifest.message.writer_feature_flags == before.manifest.message.writer_feature_flags == 8
    theirs = lance.dataset(uri)
    assert theirs.to_table(filter="id = 7").num_rows == 2
    assert theirs.list_indices()[0]["name"] == "id_idx"
    theirs.optimize.optimize_indices()
    assert lance.dataset(uri).to_table(filter="id = 7").num_rows == 2
    lance_core.write_dataset(ROWS, uri, mode="overwrite")
    overwritten = lance_core.dataset(uri)
    assert parse_index_section(overwritten.manifest.index_section) == ()
    assert overwritten.config() == before.config()
    assert lance.dataset(uri).to_table(filter="id = 7").num_rows == 1


def test_schema_messages_of_tables_equal_those_of_pylance(uri: str) -> None:
    schema = ROWS.schema.with_metadata({"k": "v"})
    lance.write_dataset(ROWS.cast(schema), uri)
    theirs = lance_core.dataset(uri).manifest.message
    lance_core.write_dataset(ROWS.cast(schema), uri, mode="overwrite")
    ours = lance_core.dataset(uri).manifest.message
    assert [field.SerializeToString(deterministic=True) for field in ours.fields] == [
        field.SerializeToString(deterministic=True) for field in theirs.fields
    ]
    assert ours.schema_metadata == theirs.schema_metadata == {"k": b"v"}
    assert list(ours.fields) == fields_to_proto(lance_core.dataset(uri).lance_schema)


def test_stable_row_ids_continue_after_those_of_pylance(uri: str) -> None:
    lance.write_dataset(ROWS, uri, enable_stable_row_ids=True)
    lance_core.write_dataset(ROWS, uri, mode="append")
    lance.write_dataset(ROWS, uri, mode="append")
    _same(uri)
    rows = lance.dataset(uri).to_table(columns=["_rowid", "_row_created_at_version", "_row_last_updated_at_version"])
    assert rows["_rowid"].to_pylist() == list(range(300))
    assert rows["_row_created_at_version"].to_pylist() == [1] * 100 + [2] * 100 + [3] * 100
    assert rows["_row_last_updated_at_version"].to_pylist() == [1] * 100 + [2] * 100 + [3] * 100
    lance_core.write_dataset(ROWS, uri, mode="overwrite")
    assert lance.dataset(uri).to_table(columns=["_rowid"])["_rowid"].to_pylist() == list(range(300, 400))


def test_stable_row_ids_of_new_tables_equal_those_of_pylance(uri: str) -> None:
    lance_core.write_dataset(ROWS, uri, enable_stable_row_ids=True)
    assert lance.dataset(uri).has_stable_row_ids
    lance.dataset(uri).delete("id = 3")
    lance_core.write_dataset(ROWS, uri, mode="append")
    lance.dataset(uri).optimize.compact_files()
    lance_core.write_dataset(ROWS, uri, mode="append")
    ids = lance.dataset(uri).to_table(columns=["_rowid"])["_rowid"].to_pylist()
    assert sorted(ids) == [i for i in range(300) if i != 3]
    _same(uri)


def test_tables_with_old_manifest_names_are_changed_and_migrated(uri: str) -> None:
    lance.write_dataset(ROWS, uri, enable_v2_manifest_paths=False)
    lance_core.write_dataset(ROWS, uri, mode="append")
    lance.write_dataset(ROWS, uri, mode="append")
    assert _same(uri).num_rows == 300
    assert _same(uri, 2).num_rows == 200
    lance.dataset(uri).migrate_manifest_paths_v2()
    lance_core.write_dataset(ROWS, uri, mode="append")
    assert _same(uri).num_rows == 400


def test_a_version_can_be_opened_by_its_tag(uri: str) -> None:
    lance.write_dataset(ROWS, uri)
    lance.dataset(uri).tags.create("good", 1)
    lance_core.write_dataset(ROWS, uri, mode="append")
    assert lance_core.dataset(uri, version="good").version == 1
    with pytest.raises(ValueError, match="does not exist"):
        lance_core.dataset(uri, version="bad")


def test_branches_and_clones_of_pylance_are_read_and_changed(uri: str, tmp_path) -> None:
    lance.write_dataset(ROWS, uri)
    lance_core.write_dataset(ROWS, uri, mode="append")
    lance.dataset(uri).delete("id = 4")
    branch = lance.dataset(uri).create_branch("work")
    assert branch.version == 3
    place = f"{uri}/tree/work"
    ours = lance_core.dataset(place)
    assert ours.version == 3
    assert ours.to_table().equals(branch.to_table())
    lance_core.write_dataset(ROWS, place, mode="append")
    assert lance.dataset(uri).checkout_version(("work", None)).count_rows() == 298
    assert lance_core.dataset(place).manifest.message.branch == "work"
    clone = str(tmp_path / "clone")
    lance.dataset(uri).shallow_clone(clone, 2)
    assert lance_core.dataset(clone).to_table().equals(lance.dataset(uri, version=2).to_table())
    lance_core.write_dataset(ROWS, clone, mode="append")
    _same(clone)


# ── Transactions ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_fragments_written_by_one_library_are_committed_by_the_other(uri: str) -> None:
    lance.write_dataset(ROWS, uri)
    mine = [json.dumps(each.to_json()) for each in lance_core.write_fragments(ROWS, uri, max_rows_per_file=60)]
    theirs = [json.dumps(each.to_json()) for each in lance.fragment.write_fragments(ROWS, uri)]
    lance_core.LanceDataset.commit(
        uri,
        lance_core.LanceOperation.Append([lance_core.FragmentMetadata.from_json(each) for each in theirs]),
        read_version=1,
    )
    lance.LanceDataset.commit(
        uri, TheirOperation.Append([lance.FragmentMetadata.from_json(each) for each in mine]), read_version=1
    )
    assert _same(uri).num_rows == 300


def test_transactions_are_exchanged_with_pylance(uri: str) -> None:
    lance.write_dataset(ROWS, uri, commit_message="theirs")
    lance_core.write_dataset(ROWS, uri, mode="append", commit_message="ours")
    lance.dataset(uri).delete("id = 1")
    lance.dataset(uri).optimize.compact_files()
    lance.dataset(uri).update_config({"a": "b"})
    ours, theirs = lance_core.dataset(uri), lance.dataset(uri)
    for version in (1, 2):
        mine, other = ours.read_transaction(version), theirs.read_transaction(version)
        assert (mine.uuid, mine.read_version) == (other.uuid, other.read_version)
        assert mine.transaction_properties == other.transaction_properties
        assert [each.to_json() for each in mine.operation.fragments] == [
            each.to_json() for each in other.operation.fragments
        ]
    names = [type(each.operation).__name__ for each in ours.get_transactions(20)]
    assert names == ["UpdateConfig", "Rewrite", "ReserveFragments", "Delete", "Append", "Overwrite"]


@pytest.mark.parametrize(
    "change",
    [
        lambda theirs: theirs.delete("id < 50"),
        lambda theirs: theirs.optimize.compact_files(),
        lambda theirs: theirs.create_scalar_index("id", "BTREE"),
        lambda theirs: theirs.update({"text": "'x'"}),
        lambda theirs: theirs.update_config({"a": "b"}),
        lambda theirs: theirs.add_columns(pa.field("more", pa.int64())),
        lambda theirs: theirs.drop_columns(["text"]),
    ],
    ids=["delete", "compact", "index", "update", "config", "add", "drop"],
)
def test_an_append_planned_before_a_pylance_change_is_committed_after_it(uri: str, change) -> None:
    lance.write_dataset(ROWS, uri, max_rows_per_file=50)
    fragments = lance_core.write_fragments(ROWS, uri)
    change(lance.dataset(uri))
    before = lance.dataset(uri)
    made = lance_core.LanceDataset.commit(uri, lance_core.LanceOperation.Append(fragments), read_version=1)
    assert made.version == before.version + 1
    assert made.count_rows() == before.count_rows() + 100
    _same(uri)


def test_an_append_planned_before_a_column_became_required_is_refused(uri: str) -> None:
    lance.write_dataset(ROWS, uri)
    fragments = lance_core.write_fragments(ROWS, uri)
    lance.dataset(uri).alter_columns({"path": "id", "nullable": False})
    with pytest.raises(RetryableCommitConflictError, match="'project'"):
        lance_core.LanceDataset.commit(uri, lance_core.LanceOperation.Append(fragments), read_version=1)


def test_pylance_can_delete_with_a_stale_handle_after_lance_core_commits(uri: str) -> None:
    lance_core.write_dataset(ROWS, uri)
    stale = lance.dataset(uri)
    lance_core.write_dataset(ROWS, uri, mode="append")
    lance_core.write_dataset(ROWS, uri, mode="append")
    # It reads our transactions to check its own transaction for conflicts.
    stale.delete("id = 1")
    assert lance.dataset(uri).version == 4
    assert _same(uri).num_rows == 299


def test_tables_with_old_data_files_are_appended_to_and_overwritten(uri: str) -> None:
    lance.write_dataset(ROWS, uri, data_storage_version="2.1")
    ours = lance_core.dataset(uri)
    assert ours.data_storage_version == "2.1"
    assert ours.to_table().equals(ROWS)
    assert lance_core.write_dataset(ROWS, uri, mode="append").data_storage_version == "2.1"
    assert _same(uri).num_rows == 200
    lance_core.write_dataset(ROWS, uri, mode="overwrite", data_storage_version="2.2")
    assert lance.dataset(uri).data_storage_version == "2.2"
    _same(uri)


def test_errors_are_caught_by_the_same_except_clauses_as_in_pylance(uri: str) -> None:
    """Code that catches the built-in exceptions of the reference works with this library."""
    lance_core.write_dataset(ROWS, uri)
    attempts = [
        lambda module: module.write_dataset(ROWS, uri),
        lambda module: module.dataset(f"{uri}-no"),
        lambda module: module.dataset(uri, version=99),
        lambda module: module.dataset(uri, version="tag"),
        lambda module: module.dataset(uri).checkout_version(99),
        lambda module: module.dataset(uri).to_table(columns=["nope"]),
        lambda module: module.dataset(uri).to_table(limit=-1),
        lambda module: module.write_dataset(ROWS, uri, mode="bogus"),
        lambda module: module.dataset(uri).read_transaction(99),
        lambda module: module.LanceDataset.commit(uri, module.LanceOperation.Append([])),
        lambda module: module.LanceDataset.commit(f"{uri}-no", module.LanceOperation.Append([]), read_version=1),
        lambda module: module.LanceDataset.commit(uri, 3),
    ]
    for number, attempt in enumerate(attempts):
        with pytest.raises((OSError, ValueError, TypeError)) as theirs:
            attempt(lance)
        with pytest.raises((OSError, ValueError, TypeError)) as ours:
            attempt(lance_core)
        base = next(kind for kind in (OSError, ValueError, TypeError) if isinstance(theirs.value, kind))
        assert isinstance(ours.value, base), number


def test_an_append_planned_before_a_rename_is_committed_after_it(uri: str) -> None:
    lance.write_dataset(ROWS, uri)
    planned_before = lance_core.write_fragments(ROWS, uri)
    lance.dataset(uri).alter_columns({"path": "text", "name": "words"})
    made = lance_core.LanceDataset.commit(uri, lance_core.LanceOperation.Append(planned_before), read_version=1)
    assert _same(uri)["words"].null_count == 2 * ROWS["text"].null_count
    assert made.version == 3


def test_a_commit_planned_on_a_removed_version_is_refused(uri: str) -> None:
    lance.write_dataset(ROWS, uri)
    transaction = lance_core.write_fragments(ROWS, uri, return_transaction=True)
    late = lance_core.write_fragments(ROWS, uri, return_transaction=True)
    assert lance_core.LanceDataset.commit(uri, transaction).version == 2
    for _ in range(3):
        lance_core.write_dataset(ROWS, uri, mode="append")
    lance.dataset(uri).tags.create("keep", 3)
    lance.dataset(uri).cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False, delete_unverified=True)
    assert [each["version"] for each in lance_core.dataset(uri).versions()] == [3, 5]
    # The content of the removed versions is unknown, so neither commit may create a version.
    for unsure in (transaction, late):
        with pytest.raises(IncompatibleTransactionError, match="was removed"):
            lance_core.LanceDataset.commit(uri, unsure)
    assert lance_core.write_dataset(ROWS, uri, mode="append").version == 6


@pytest.mark.parametrize("limit", [{}, {"max_rows_per_file": None}], ids=["not given", "None"])
def test_files_are_limited_to_the_default_row_count_of_pylance(tmp_path: Path, limit: dict[str, None]) -> None:
    rows = pa.table({"a": pa.nulls(2**20 + 1, pa.int8())})
    theirs = lance.write_dataset(rows, str(tmp_path / "theirs"))
    ours = lance_core.write_dataset(rows, str(tmp_path / "ours"), **limit)
    counts = [[each.count_rows() for each in dataset.get_fragments()] for dataset in (theirs, ours)]
    assert counts == [[2**20, 1]] * 2


def test_default_file_limits_equal_those_of_pylance() -> None:
    limits = WriteRequest.of(mode="create").files
    reference = inspect.signature(lance.write_dataset).parameters
    found = (limits.max_rows_per_file, limits.max_bytes_per_file, limits.max_rows_per_group)
    names = ("max_rows_per_file", "max_bytes_per_file", "max_rows_per_group")
    assert found == tuple(reference[name].default for name in names)


@pytest.mark.parametrize("library", [lance, lance_core], ids=lambda library: library.__name__)
def test_insert_advances_the_handle_to_the_version_with_the_new_rows(tmp_path: Path, library: ModuleType) -> None:
    lance.write_dataset(pa.table({"a": [1]}), tmp_path / "t")
    dataset = library.dataset(tmp_path / "t")
    dataset.insert(pa.table({"a": [2]}), max_rows_per_file=1, commit_message="more")
    assert (dataset.version, dataset.to_table()["a"].to_pylist()) == (2, [1, 2])
    dataset.insert(pa.table({"b": ["x"]}), mode="overwrite")
    assert dataset.to_table().to_pydict() == {"b": ["x"]}
    with pytest.raises((OSError, ValueError)):
        dataset.insert(pa.table({"c": [1]}))
    assert lance.dataset(tmp_path / "t").latest_version == 3
