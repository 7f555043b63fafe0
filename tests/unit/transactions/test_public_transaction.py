"""Operations in the public API, and how they are converted to internal operations."""

import copy
import pickle
import uuid
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyroaring import BitMap

import lance_core
from lance_core import LanceOperation, Transaction
from lance_core.errors import InvalidInputError, InvalidTypeError, NotFoundError, NotSupportedError
from lance_core.io.memory_store import MemoryStore
from lance_core.proto import pb_table
from lance_core.public.fragment_conversion import fragment_from_record
from lance_core.schema.convert import fields_to_proto, schema_from_arrow
from lance_core.table.manifest import Manifest
from lance_core.table.version_log import VersionLog
from lance_core.transactions.operations.carried import CarriedOperation
from lance_core.transactions.public_transaction import (
    transaction_from_core,
    transaction_to_core,
    with_index_files,
    with_known_field_ids,
)
from lance_core.transactions.transaction import Transaction as CoreTransaction
from tests.support.records import SCHEMA, fragment

FRAGMENT = fragment_from_record(fragment())
DELETED = fragment_from_record(
    fragment().with_deletion(pb_table.DeletionFile(id=5, read_version=1, num_deleted_rows=2))
)
Map = LanceOperation.UpdateMap
INDEX = lance_core.Index(
    "0a0a1125-4d7a-4dce-b606-fa1f77c2725a",
    "x",
    [0, 1],
    7,
    {1, 4},
    2,
    datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC),
    0,
    [lance_core.IndexFile("page.lance", 12)],
    ("/lance.table.BTreeIndexDetails", b"\x00"),
    [1],
)


@pytest.mark.parametrize(
    "operation",
    [
        LanceOperation.Append([FRAGMENT]),
        LanceOperation.Overwrite(SCHEMA, [FRAGMENT, FRAGMENT]),
        LanceOperation.Delete([DELETED], [4, 5], "a < 3"),
        LanceOperation.Delete([], [], ""),
        LanceOperation.Restore(3),
        LanceOperation.ReserveFragments(7),
        LanceOperation.Rewrite([LanceOperation.RewriteGroup([DELETED], [FRAGMENT])], []),
        LanceOperation.Rewrite(
            [],
            [LanceOperation.RewrittenIndex(str(uuid.uuid4()), str(uuid.uuid4()), "/lance.table.X", b"\x00\x01", 3)],
        ),
        LanceOperation.Update([3], [DELETED], [FRAGMENT], [], [1], "rewrite_rows"),
        LanceOperation.Update(
            updated_fragments=[DELETED],
            fields_modified=[1],
            update_mode="rewrite_columns",
            updated_fragment_offsets={0: BitMap([1]).serialize()},
            inserted_rows=b"\x0a\x01\x00\x12\x00",
            compacted_sstables=[("767a1125-4d7a-4dce-b606-fa1f77c2725a", 4)],
        ),
        LanceOperation.Merge([FRAGMENT], SCHEMA, True),
        LanceOperation.Project(SCHEMA),
        LanceOperation.CreateIndex([INDEX], [lance_core.Index(INDEX.uuid, "y", [], 1, set(), 0)]),
        LanceOperation.DataReplacement([LanceOperation.DataReplacementGroup(4, FRAGMENT.files[0])]),
        LanceOperation.DataOverlay(
            [
                LanceOperation.DataOverlayGroup(
                    4,
                    [
                        LanceOperation.DataOverlayFile(FRAGMENT.files[0], [1, 5]),
                        LanceOperation.DataOverlayFile(FRAGMENT.files[0], [[1], [2, 3]], 7),
                    ],
                )
            ]
        ),
        LanceOperation.Clone(True, None, 4, "/x", "b"),
        LanceOperation.UpdateBases([lance_core.DatasetBasePath("/x", "n", True, 4), lance_core.DatasetBasePath("/y")]),
        LanceOperation.UpdateMemWalState([("767a1125-4d7a-4dce-b606-fa1f77c2725a", 4)]),
        LanceOperation.UpdateConfig(),
        LanceOperation.UpdateConfig(
            Map({"a": "1", "b": None}), Map({}, replace=True), Map({"c": "2"}), {3: Map({"d": None})}
        ),
    ],
    ids=lambda operation: type(operation).__name__,
)
def test_public_operations_survive_a_round_trip(operation: LanceOperation.BaseOperation) -> None:
    transaction = Transaction(4, operation, transaction_properties={"by": "me"})
    core = transaction_to_core(transaction)
    assert transaction_from_core(CoreTransaction.parse(core.serialize(), "t")) == transaction


def test_unknown_public_operations_are_not_committed_and_are_named_in_the_error() -> None:
    seen = transaction_from_core(CoreTransaction(read_version=1, operation=CarriedOperation()))
    assert seen.operation == LanceOperation.Other("unknown")
    with pytest.raises(NotSupportedError, match="'unknown'"):
        transaction_to_core(seen)


@pytest.mark.parametrize(
    "make",
    [
        lambda: LanceOperation.Append((FRAGMENT,)),
        lambda: LanceOperation.Delete([3], [], "x"),
        lambda: LanceOperation.Delete({}, [], "x"),
        lambda: LanceOperation.Rewrite([LanceOperation.RewriteGroup([FRAGMENT], [None])], []),
        lambda: LanceOperation.Rewrite([LanceOperation.RewriteGroup(["x"], [FRAGMENT])], []),
    ],
)
def test_fragments_are_checked_when_an_operation_is_made(make) -> None:
    with pytest.raises(InvalidTypeError, match="fragments must be"):
        make()


_ID = "0" * 32


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        (LanceOperation.Delete([], [-1], "x"), InvalidInputError),
        (LanceOperation.Delete([], ["1"], "x"), InvalidTypeError),
        (LanceOperation.Restore(0), InvalidInputError),
        (LanceOperation.Restore("1"), InvalidTypeError),
        (LanceOperation.ReserveFragments(1.5), InvalidTypeError),
        (LanceOperation.ReserveFragments(0), InvalidInputError),
        (LanceOperation.Delete([], [2**64], "x"), InvalidInputError),
        (LanceOperation.Delete([], [], None), InvalidTypeError),
        (LanceOperation.UpdateConfig(Map({1: "a"})), InvalidTypeError),
        (LanceOperation.UpdateConfig(Map({"a": "\ud800"})), InvalidInputError),
        (LanceOperation.UpdateConfig(field_metadata_updates={2**31: Map({})}), InvalidInputError),
        (LanceOperation.UpdateConfig(Map(["a"])), InvalidTypeError),
        (LanceOperation.UpdateConfig(field_metadata_updates={"a": Map({})}), InvalidTypeError),
        (LanceOperation.Update(update_mode="both"), InvalidInputError),
        (LanceOperation.Update(removed_fragment_ids=[-1]), InvalidInputError),
        (LanceOperation.Update(fields_modified=["a"]), InvalidTypeError),
        (LanceOperation.Update(updated_fragment_offsets={0: "x"}), InvalidTypeError),
        (LanceOperation.Update(inserted_rows=b"\xff"), InvalidInputError),
        (LanceOperation.Update(compacted_sstables=[("x", 1)]), InvalidInputError),
        (LanceOperation.Update(compacted_sstables=[3]), InvalidInputError),
        (LanceOperation.Merge([], None), InvalidInputError),
        (LanceOperation.CreateIndex([replace(INDEX, uuid="x")], []), InvalidInputError),
        (LanceOperation.CreateIndex(["x"], []), InvalidTypeError),
        (LanceOperation.CreateIndex([replace(INDEX, fragment_ids=[2**32])], []), InvalidInputError),
        (LanceOperation.CreateIndex([], [replace(INDEX, name=3)]), InvalidTypeError),
        (LanceOperation.UpdateBases(["/x"]), InvalidTypeError),
        (LanceOperation.Clone(True, None, 0, "/x", None), InvalidInputError),
        (LanceOperation.Clone(True, 3, 1, "/x", None), InvalidTypeError),
        (
            LanceOperation.DataOverlay(
                [LanceOperation.DataOverlayGroup(4, [LanceOperation.DataOverlayFile(FRAGMENT.files[0], [1, 1])])]
            ),
            InvalidInputError,
        ),
        (
            LanceOperation.Rewrite([], [LanceOperation.RewrittenIndex("x", _ID, "", b"", 1)]),
            InvalidInputError,
        ),
    ],
)
def test_values_are_checked_when_an_operation_is_committed(
    operation: LanceOperation.BaseOperation, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        transaction_to_core(Transaction(1, operation))


def test_operation_numbers_out_of_range_raise_invalid_input(uri: str) -> None:
    lance_core.write_dataset(pa.table({"a": [1]}), uri)
    for operation in (LanceOperation.ReserveFragments(2**40), LanceOperation.Restore(2**70)):
        with pytest.raises(InvalidInputError):
            lance_core.LanceDataset.commit(uri, operation, read_version=1)
    assert lance_core.dataset(uri).version == 1


def test_merge_with_an_arrow_schema_assigns_ids_and_warns() -> None:
    with pytest.warns(DeprecationWarning, match="field ids"):
        operation = LanceOperation.Merge([FRAGMENT], pa.schema([("a", pa.int64()), ("b", pa.string())]))
    core = transaction_to_core(Transaction(1, operation)).operation
    assert core.schema.field_ids() == [0, 1]


def test_base_paths_compare_and_hash_by_value() -> None:
    base = lance_core.DatasetBasePath("/x", "n", True, 4)
    assert copy.copy(base) == pickle.loads(pickle.dumps(base)) == base
    assert base != lance_core.DatasetBasePath("/x", "n", True)
    assert len({base, copy.copy(base)}) == 1
    assert repr(base) == "DatasetBasePath('/x', name='n', is_dataset_root=True, id=4)"
    for arguments in ((3,), ("/x", 3), ("",), ("/x", None, False, -1)):
        with pytest.raises(InvalidInputError):
            lance_core.DatasetBasePath(*arguments)


# ── What users leave out ──────────────────────────────────────────────────────────────────────────────────────────


def _manifest(*, counts_ids: bool) -> Manifest:
    manifest = Manifest.empty()
    manifest.message.version = 1
    manifest.message.fields.extend(fields_to_proto(schema_from_arrow(pa.schema({"a": pa.int64(), "b": pa.string()}))))
    if counts_ids:
        manifest.message.max_allocated_field_id = 9
    return manifest


def test_merge_into_a_table_that_counts_field_ids_keeps_only_the_ids_of_equal_columns() -> None:
    merged = LanceOperation.Merge([FRAGMENT], pa.schema({"b": pa.int64(), "a": pa.int64(), "c": pa.int64()}))
    log = VersionLog(MemoryStore(), "t")
    completed = with_known_field_ids(Transaction(1, merged), log, _manifest(counts_ids=True))
    schema = transaction_to_core(completed).operation.new_schema()
    assert schema is not None
    assert [(field.name, field.id) for field in schema.fields] == [("b", 10), ("a", 0), ("c", 11)]


@pytest.mark.parametrize("version", [1, 2], ids=["no counter", "no such version"])
def test_merge_without_a_known_field_id_counter_is_returned_unchanged(version: int) -> None:
    transaction = Transaction(version, LanceOperation.Merge([FRAGMENT], pa.schema({"a": pa.int64()})))
    log = VersionLog(MemoryStore(), "t")
    assert with_known_field_ids(transaction, log, _manifest(counts_ids=False)) is transaction


def test_rewritten_index_gets_the_files_in_its_directory() -> None:
    new_id = str(uuid.uuid4())
    index = LanceOperation.RewrittenIndex(str(uuid.uuid4()), new_id, "/lance.table.X", b"", 3)
    planned = transaction_to_core(Transaction(1, LanceOperation.Rewrite([], [index])))
    store = MemoryStore()
    log = VersionLog(store, "t")
    with pytest.raises(NotFoundError, match="has no files"):
        with_index_files(log, planned)
    store.put(f"t/_indices/{new_id}/page.lance", b"1234")
    completed = with_index_files(log, planned)
    [listed] = completed.operation.rebuilt_indices()
    assert [(file.path, file.size_bytes) for file in listed.new_index_files] == [("page.lance", 4)]
    assert with_index_files(log, completed) is completed
