"""Transactions and operations: records, bytes, and the registry."""

import pytest

from lance_core.errors import CorruptDataError, InvalidInputError, NotSupportedError
from lance_core.proto import pb_table, pb_transaction
from lance_core.table.manifest import Manifest
from lance_core.transactions.operations.append import Append
from lance_core.transactions.operations.carried import CarriedOperation
from lance_core.transactions.operations.overwrite import Overwrite
from lance_core.transactions.registry import EXECUTABLE
from lance_core.transactions.transaction import Transaction
from tests.support.manifests import on
from tests.support.records import SCHEMA, append, fragment

UUID = "93adea1b-ffcc-43bf-a62c-f078ef77475f"


def test_every_operation_of_the_transaction_message_is_executable() -> None:
    arms = {field.name for field in pb_transaction.Transaction.DESCRIPTOR.oneofs_by_name["operation"].fields}
    assert arms == EXECUTABLE.keys()
    assert all(operation.arm == arm for arm, operation in EXECUTABLE.items())


@pytest.mark.parametrize(
    "operation",
    [
        Append(fragments=(fragment(),)),
        Overwrite(schema=SCHEMA, fragments=(fragment(), fragment())),
        Overwrite(
            schema=SCHEMA.with_metadata({"k": b"v"}),
            fragments=(),
            config_upserts={"a": "b"},
            initial_bases=(pb_table.BasePath(id=1, path="/x"),),
        ),
    ],
)
def test_append_and_overwrite_transactions_survive_a_round_trip(operation: Append | Overwrite) -> None:
    transaction = Transaction(read_version=3, operation=operation, uuid=UUID, properties={"by": "me"})
    assert Transaction.parse(transaction.serialize(), "t") == transaction
    assert transaction.file_name == f"3-{UUID}.txn"


@pytest.mark.parametrize("uuid", ["", "x", UUID.upper(), UUID.replace("-", ""), f"{{{UUID}}}", None])
def test_transaction_with_a_malformed_uuid_is_refused(uuid: str) -> None:
    with pytest.raises(InvalidInputError, match="transaction UUID"):
        Transaction(read_version=0, operation=Append(fragments=()), uuid=uuid).serialize()


def test_unknown_operation_is_refused_and_the_error_says_that_it_is_unknown() -> None:
    # Field 120, length-delimited and empty.
    data = pb_transaction.Transaction(uuid=UUID).SerializeToString() + bytes.fromhex("c20700")
    transaction = Transaction.parse(data, "t")
    assert transaction.operation == CarriedOperation()
    with pytest.raises(NotSupportedError, match="unknown"):
        transaction.serialize()
    with pytest.raises(NotSupportedError, match="unknown"):
        transaction.operation.apply(on(Manifest.empty()))


def test_damaged_transaction_raises_corrupt_data() -> None:
    for data in (b"\xff\xff", pb_transaction.Transaction(uuid=UUID).SerializeToString()):
        with pytest.raises(CorruptDataError):
            Transaction.parse(data, "t")


def _table(**values: object) -> Manifest:
    message = Manifest.empty().message
    message.MergeFrom(pb_table.Manifest(version=1, max_fragment_id=4, **values))
    message.fields.extend(_fields())
    return Manifest(message=message, naming=Manifest.empty().naming)


def _fields() -> list[object]:
    return list(Overwrite(schema=SCHEMA, fragments=()).to_proto().schema)


def _commit(operation: Append | Overwrite, manifest: Manifest) -> Manifest:
    return operation.apply(on(manifest)).seal(transaction=b"", transaction_file="f", timestamp_ns=0).manifest


def test_append_adds_fragments_and_keeps_everything_else() -> None:
    current = _table(fragments=[{"id": 4, "physical_rows": 1}], config={"a": "b"})
    made = _commit(Append(fragments=(fragment(), fragment())), current)
    assert [each.id for each in made.fragments] == [4, 5, 6]
    assert made.schema == current.schema
    assert made.message.config == {"a": "b"}


def test_overwrite_replaces_only_rows_schema_and_indices() -> None:
    current = _table(
        fragments=[{"id": 4, "physical_rows": 1}],
        config={"a": "b"},
        table_metadata={"c": "d"},
        base_paths=[{"id": 0, "path": "/x"}],
        schema_metadata={"old": b"1"},
        next_row_id=9,
    )
    current = Manifest(message=current.message, naming=current.naming, index_section=b"\x0a\x00")
    operation = Overwrite(schema=SCHEMA.with_metadata({"new": b"2"}), fragments=(fragment(),))
    made = _commit(operation, current)
    assert [each.id for each in made.fragments] == [5]
    assert dict(made.message.schema_metadata) == {"new": b"2"}
    assert made.index_section is None
    assert (made.message.config, made.message.table_metadata) == ({"a": "b"}, {"c": "d"})
    assert len(made.message.base_paths) == 1
    assert made.message.next_row_id == 9


def test_overwrite_takes_the_format_of_the_new_files() -> None:
    current = _table()
    current.message.data_format.version = "2.1"
    assert _commit(Overwrite(schema=SCHEMA, fragments=(fragment(),)), current).file_version.value == "2.2"
    assert _commit(Overwrite(schema=SCHEMA, fragments=()), current).file_version.value == "2.1"


def test_initial_base_paths_are_accepted_only_for_a_new_table() -> None:
    operation = Overwrite(schema=SCHEMA, fragments=(), initial_bases=(pb_table.BasePath(id=1, path="/x"),))
    assert len(_commit(operation, Manifest.empty()).message.base_paths) == 1
    with pytest.raises(InvalidInputError, match="initial_bases"):
        operation.apply(on(_table()))


def test_overwrite_of_a_table_that_never_reuses_field_ids_assigns_new_field_ids() -> None:
    current = _table(max_allocated_field_id=5, writer_feature_flags=32768)
    assert _commit(Append(fragments=()), current).message.max_allocated_field_id == 5
    result = _commit(Overwrite(schema=SCHEMA, fragments=(fragment(),)), current)
    assert [field.id for field in result.schema.fields] == [6, 7]
    assert list(result.message.fragments[0].files[0].fields) == [6, 7]
    assert result.message.max_allocated_field_id == 7
    renewed = Overwrite(schema=SCHEMA.with_ids(6), fragments=(fragment(field_ids=(6, 7)),))
    assert _commit(renewed, current).message.max_allocated_field_id == 7


def test_new_fragments_of_a_transaction_have_id_0() -> None:
    message = pb_transaction.Transaction.FromString(append(fragment(), read_version=1).serialize())
    assert [each.id for each in message.append.fragments] == [0]
