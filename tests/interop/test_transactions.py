"""Transactions of pylance are read and written by lance_core, and transactions are committed as a batch."""

import shutil
import warnings
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.mem_wal import CompactedSsTable

import lance_core
from lance_core import LanceOperation, Transaction
from lance_core.errors import AlreadyExistsError, IndexNotFoundError, InvalidInputError, NotSupportedError
from lance_core.proto import pb_transaction
from lance_core.transactions.transaction import Transaction as CoreTransaction
from tests.support.matrix_operations import OPERATIONS, create_table, to_ours
from tests.support.twin_operations import rows


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("base") / "table"
    create_table("stable", str(path))
    return path


@pytest.fixture
def uri(base: Path, tmp_path: Path) -> str:
    shutil.copytree(base, tmp_path / "table")
    return str(tmp_path / "table")


def _inline(uri: str) -> bytes:
    data = lance_core.dataset(uri).manifest.transaction
    assert data is not None
    return data


@pytest.mark.parametrize("name", [name for name in OPERATIONS if "overlay" not in name])
def test_every_transaction_of_pylance_survives_a_round_trip(name: str, uri: str) -> None:
    dataset = lance.dataset(uri)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        operation = OPERATIONS[name](dataset)
    lance.LanceDataset.commit(uri, operation, read_version=dataset.version, commit_message="why")
    before = pb_transaction.Transaction.FromString(_inline(uri))
    after = pb_transaction.Transaction.FromString(CoreTransaction.parse(_inline(uri), "t").serialize())
    assert after == before
    # Users see the values that were passed to the reference.
    seen = lance_core.dataset(uri).read_transaction(dataset.version + 1)
    assert seen.transaction_properties == {"__lance_commit_message": "why"}
    ours = to_ours(operation)
    if isinstance(ours, LanceOperation.Project):
        # The metadata of the schema is not stored.
        ours.schema = ours.schema.with_metadata({})
    if not isinstance(ours, (LanceOperation.Overwrite, LanceOperation.Merge)):
        assert seen.operation == ours


@pytest.mark.parametrize("name", [name for name in OPERATIONS if "overlay" not in name])
def test_pylance_reads_transactions_of_lance_core(name: str, uri: str) -> None:
    dataset = lance.dataset(uri)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        operation = OPERATIONS[name](dataset)
    made = lance_core.LanceDataset.commit(uri, to_ours(operation), read_version=dataset.version, commit_message="why")
    seen = lance.dataset(uri).read_transaction(made.version)
    assert type(seen.operation).__name__ == type(operation).__name__
    assert seen.transaction_properties == {"__lance_commit_message": "why"}
    lance.dataset(uri).validate()


def test_a_rewrite_with_rewritten_indices_is_read(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    dataset = lance.write_dataset(rows(0, 40), uri, max_rows_per_file=10)
    dataset.create_scalar_index("a", "BTREE")
    lance.dataset(uri).optimize.compact_files()
    ours = lance_core.dataset(uri)
    operation = ours.read_transaction(ours.version).operation
    assert isinstance(operation, LanceOperation.Rewrite)
    (index,) = operation.rewritten_indices
    assert index.new_id == ours.describe_indices()[0].segments[0].uuid
    assert len(ours.get_transactions()) == ours.version


def test_every_transaction_of_a_history_is_read(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    schema = pa.schema(
        [pa.field("id", pa.int64(), metadata={"lance-schema:unenforced-primary-key": "true"}, nullable=False)]
    )
    dataset = lance.write_dataset(pa.table({"id": pa.array(range(5), pa.int64())}, schema=schema), uri)
    dataset.initialize_mem_wal(unsharded=True)
    lance.dataset(uri).add_bases([lance.DatasetBasePath(str(tmp_path / "base"), name="n")])
    builder = lance.dataset(uri).merge_insert("id").when_not_matched_insert_all()
    shard = "767a1125-4d7a-4dce-b606-fa1f77c2725a"
    builder.mark_sstables_as_compacted([CompactedSsTable(shard, 3)]).execute(
        pa.table({"id": pa.array([9], pa.int64())}, schema=schema)
    )
    lance.dataset(uri).shallow_clone(str(tmp_path / "clone"), 4)
    operations = [each.operation for each in reversed(lance_core.dataset(uri).get_transactions())]
    assert [type(each).__name__ for each in operations] == ["Overwrite", "CreateIndex", "UpdateBases", "Update"]
    assert operations[1].new_indices[0].name == "__lance_mem_wal"
    assert operations[2].new_bases == [lance_core.DatasetBasePath(str(tmp_path / "base"), "n")]
    assert operations[3].compacted_sstables == [(shard, 3)]
    assert operations[3].inserted_rows is not None
    clone = lance_core.dataset(str(tmp_path / "clone"))
    assert isinstance(clone.read_transaction(clone.version).operation, LanceOperation.Clone)
    # One key filter per version; the filters do not accumulate.
    sizes = [len(lance_core.LanceDataset(uri, version).manifest.transaction) for version in (3, 4)]
    assert sizes[1] - sizes[0] < 2**15 + 1000


def test_a_table_with_a_mem_wal_index_can_be_changed_by_either_library(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    schema = pa.schema(
        [pa.field("id", pa.int64(), metadata={"lance-schema:unenforced-primary-key": "true"}, nullable=False)]
    )
    lance.write_dataset(pa.table({"id": pa.array(range(5), pa.int64())}, schema=schema), uri).initialize_mem_wal(
        unsharded=True
    )
    before = lance.dataset(uri).mem_wal_index_details()
    shard = "767a1125-4d7a-4dce-b606-fa1f77c2725a"
    operation = LanceOperation.UpdateMemWalState([(shard, 4)])
    lance_core.LanceDataset.commit(uri, operation, read_version=2)
    assert lance.dataset(uri).mem_wal_index_details() == before
    lance.write_dataset(pa.table({"id": pa.array([7], pa.int64())}, schema=schema), uri, mode="append")
    assert lance.dataset(uri).count_rows() == 6
    lance.dataset(uri).validate()


# ── Batches ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _append(uri: str, start: int, read_version: int, **properties: str) -> Transaction:
    fragments = lance_core.write_fragments(rows(start, start + 2), uri, mode="append")
    return Transaction(read_version, LanceOperation.Append(fragments), transaction_properties=properties)


def test_a_batch_of_appends_creates_one_version(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    lance_core.write_dataset(rows(0, 4), uri)
    lance_core.dataset(uri).delete("a = 0")
    batch = [_append(uri, 10, 2, a="1", b="1"), _append(uri, 20, 1, b="2")]
    result = lance_core.LanceDataset.commit_batch(uri, batch)
    assert result["dataset"].version == 3
    assert result["merged"].read_version == 1
    assert result["merged"].transaction_properties == {"a": "1", "b": "2"}
    assert lance.dataset(uri).to_table()["a"].to_pylist() == [1, 2, 3, 10, 11, 20, 21]
    seen = lance_core.dataset(uri).read_transaction(3)
    assert (seen.uuid, len(seen.operation.fragments)) == (result["merged"].uuid, 2)
    # Committing the batch again creates no version.
    assert lance_core.LanceDataset.commit_batch(lance_core.dataset(uri), batch)["dataset"].version == 3


def test_only_appends_are_committed_as_a_batch(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    lance_core.write_dataset(rows(0, 4), uri)
    with pytest.raises(NotSupportedError, match="Restore"):
        lance_core.LanceDataset.commit_batch(uri, [_append(uri, 10, 1), Transaction(1, LanceOperation.Restore(1))])
    with pytest.raises(InvalidInputError, match="transactions is empty"):
        lance_core.LanceDataset.commit_batch(uri, [])
    with pytest.raises(InvalidInputError, match="Transaction objects"):
        lance_core.LanceDataset.commit_batch(uri, [LanceOperation.Restore(1)])


# ── Clones ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_clone_transaction_is_committed_as_in_pylance(uri: str, tmp_path: Path) -> None:
    version = lance.dataset(uri).version
    theirs, ours = str(tmp_path / "theirs"), str(tmp_path / "ours")
    lance.LanceDataset.commit(theirs, lance.LanceOperation.Clone(True, None, version, uri, None), read_version=0)
    made = lance_core.LanceDataset.commit(ours, LanceOperation.Clone(True, None, version, uri, None), read_version=0)
    assert made.version == version
    messages = [lance_core.dataset(path).manifest.message for path in (theirs, ours)]
    for message in messages:
        for name in ("timestamp", "writer_version", "transaction_file", "index_section", "transaction_section"):
            message.ClearField(name)
    assert messages[0] == messages[1]
    assert lance.dataset(ours).to_table().equals(lance.dataset(uri).to_table())
    assert lance.dataset(ours).to_table(filter="s = 'v7'").num_rows == 1
    with pytest.raises(AlreadyExistsError):
        lance_core.LanceDataset.commit(ours, LanceOperation.Clone(True, None, version, uri, None), read_version=0)
    with pytest.raises(NotSupportedError, match="deep clone"):
        lance_core.LanceDataset.commit(
            str(tmp_path / "deep"), LanceOperation.Clone(False, None, version, uri, None), read_version=0
        )


# ── Reading indices ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def indexed(tmp_path: Path) -> str:
    uri = str(tmp_path / "indexed")
    dataset = lance.write_dataset(rows(0, 40), uri, max_rows_per_file=10)
    dataset.create_scalar_index("a", "BTREE")
    dataset.create_scalar_index("s", "INVERTED", name="words")
    lance.write_dataset(rows(40, 50), uri, mode="append")
    lance.dataset(uri).delete("a = 3")
    return uri


def test_indices_are_described_as_in_pylance(indexed: str) -> None:
    ours, theirs = lance_core.dataset(indexed).describe_indices(), lance.dataset(indexed).describe_indices()
    assert len(ours) == len(theirs) == 2
    for mine, other in zip(ours, theirs, strict=True):
        for name in ("name", "type_url", "index_type", "fields", "field_names", "total_size_bytes"):
            assert getattr(mine, name) == getattr(other, name), name
        for part, their_part in zip(mine.segments, other.segments, strict=True):
            assert part.fragment_ids == set(their_part.fragment_ids)
            for name in (
                "uuid",
                "dataset_version_at_last_update",
                "index_version",
                "created_at",
                "base_id",
                "size_bytes",
            ):
                assert getattr(part, name) == getattr(their_part, name), name
    with pytest.warns(DeprecationWarning, match="describe_indices"):
        listed = lance_core.dataset(indexed).list_indices()
    with pytest.warns(DeprecationWarning, match="describe_indices"):
        assert listed == [
            {**each, "fragment_ids": set(each["fragment_ids"])} for each in lance.dataset(indexed).list_indices()
        ]


def test_indices_are_listed_by_both_libraries_after_a_lance_core_commit(indexed: str) -> None:
    lance_core.write_dataset(rows(60, 70), indexed, mode="append")
    assert [each.name for each in lance.dataset(indexed).describe_indices()] == ["a_idx", "words"]
    assert [each.name for each in lance_core.dataset(indexed).describe_indices()] == ["a_idx", "words"]


def test_an_index_can_be_dropped_by_name(indexed: str) -> None:
    dataset = lance_core.dataset(indexed)
    dataset.drop_index("a_idx")
    assert [each.name for each in dataset.describe_indices()] == ["words"]
    assert [each.name for each in lance.dataset(indexed).describe_indices()] == ["words"]
    assert lance.dataset(indexed).to_table(filter="a = 7").num_rows == 1
    with pytest.raises(IndexNotFoundError, match=r"no index 'a_idx'; existing indices: \['words'\]"):
        dataset.drop_index("a_idx")
    with pytest.raises(RuntimeError):
        lance.dataset(indexed).drop_index("a_idx")
    dataset.drop_index("words")
    assert not lance.dataset(indexed).has_index
