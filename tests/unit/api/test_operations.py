"""Operations as users write them, and what the core makes of them."""

import uuid

import pyarrow as pa
import pytest

import lance_core
from lance_core import LanceOperation, Transaction
from lance_core.api.fragment_conversion import fragment_from_record
from lance_core.api.operation_conversion import transaction_from_core, transaction_to_core
from lance_core.errors import InvalidInputError, InvalidTypeError, NotSupportedError
from lance_core.proto import pb_table
from lance_core.transactions.operations.carried import CarriedOperation
from lance_core.transactions.transaction import Transaction as CoreTransaction
from tests.support.records import SCHEMA, fragment

FRAGMENT = fragment_from_record(fragment())
DELETED = fragment_from_record(
    fragment().with_deletion(pb_table.DeletionFile(id=5, read_version=1, num_deleted_rows=2))
)
Map = LanceOperation.UpdateMap


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
        LanceOperation.UpdateConfig(),
        LanceOperation.UpdateConfig(
            Map({"a": "1", "b": None}), Map({}, replace=True), Map({"c": "2"}), {3: Map({"d": None})}
        ),
    ],
    ids=lambda operation: type(operation).__name__,
)
def test_operations_round_trip(operation: LanceOperation.BaseOperation) -> None:
    transaction = Transaction(4, operation, transaction_properties={"by": "me"})
    core = transaction_to_core(transaction)
    assert transaction_from_core(CoreTransaction.parse(core.serialize(), "t")) == transaction


def test_operations_of_other_kinds_are_named_and_not_committed() -> None:
    seen = transaction_from_core(CoreTransaction(read_version=1, operation=CarriedOperation(arm="merge")))
    assert seen.operation == LanceOperation.Other("merge")
    with pytest.raises(NotSupportedError, match="'merge'"):
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


def test_numbers_that_do_not_fit_the_message_are_input_errors(uri: str) -> None:
    lance_core.write_dataset(pa.table({"a": [1]}), uri)
    for operation in (LanceOperation.ReserveFragments(2**40), LanceOperation.Restore(2**70)):
        with pytest.raises(InvalidInputError):
            lance_core.LanceDataset.commit(uri, operation, read_version=1)
    assert lance_core.dataset(uri).version == 1
