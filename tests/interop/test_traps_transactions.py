"""Details of manifests and transactions that are easily overlooked, tested with both libraries."""

import random
from pathlib import Path

import lance
import lance.fragment
import pyarrow as pa
import pytest

import lance_core
from lance_core import LanceOperation
from lance_core.errors import InvalidInputError
from lance_core.proto import pb_file, pb_table, pb_transaction
from lance_core.schema.convert import fields_to_proto, schema_from_arrow
from lance_core.table.manifest_file import parse_manifest_file
from lance_core.transactions.conflicts import Verdict, judge
from lance_core.transactions.operations.append import Append
from lance_core.transactions.registry import operation_from_proto
from tests.support.matrix_operations import to_ours
from tests.support.twin_operations import rows


def _append(uri: str, start: int, writer: object = lance_core) -> None:
    writer.write_dataset(rows(start, start + 10), uri, mode="append")


def _manifest(uri: str) -> pb_table.Manifest:
    return lance_core.dataset(uri).manifest.message


def _reframed(uri: str, *, deprecated: bool) -> None:
    """Move the position of the inline transaction of version 1 from one of its two fields to the other."""
    (path,) = (Path(uri) / "_versions").glob("*.manifest")
    data = path.read_bytes()
    position = int.from_bytes(data[-16:-8], "little")
    message = parse_manifest_file(data, "m").message
    place = message.transaction_section
    message.ClearField("transaction_section")
    message.ClearField("transaction_section_deprecated")
    message.transaction_file = ""
    setattr(message, "transaction_section_deprecated" if deprecated else "transaction_section", place)
    body = message.SerializeToString()
    path.write_bytes(data[:position] + len(body).to_bytes(4, "little") + body + data[-16:])


@pytest.mark.parametrize("deprecated", [False, True])
def test_the_inline_transaction_is_found_by_its_position_in_either_field(uri: str, deprecated: bool) -> None:
    lance.write_dataset(rows(0, 10), uri)
    _reframed(uri, deprecated=deprecated)
    for file in (Path(uri) / "_transactions").iterdir():
        file.unlink()
    assert isinstance(lance_core.dataset(uri).read_transaction(1).operation, LanceOperation.Overwrite)
    assert type(lance.dataset(uri).read_transaction(1).operation).__name__ == "Overwrite"


def test_every_version_created_by_lance_core_contains_its_transaction(uri: str) -> None:
    lance_core.write_dataset(rows(0, 40), uri, max_rows_per_file=10)
    stale = lance.dataset(uri)
    lance_core.dataset(uri).delete("a = 3")
    lance_core.dataset(uri).update_config({"k": "v"})
    lance_core.dataset(uri).optimize.compact_files()
    lance_core.dataset(uri).restore()
    _append(uri, 40)
    for version in range(1, lance_core.dataset(uri).version + 1):
        manifest = lance_core.LanceDataset(uri, version).manifest
        assert manifest.transaction is not None
        assert (Path(uri) / "_transactions" / manifest.message.transaction_file).read_bytes() == manifest.transaction
    # A handle opened earlier has to read all of them.
    stale.delete("a = 7")
    assert lance.dataset(uri).count_rows() == 48


@pytest.mark.parametrize("seed", range(3))
def test_version_numbers_are_contiguous_and_appear_in_the_manifest_name(uri: str, seed: int) -> None:
    rng = random.Random(seed)
    lance_core.write_dataset(rows(0, 10), uri)
    for step in range(12):
        writer = rng.choice([lance, lance_core])
        match rng.randrange(4):
            case 0:
                _append(uri, 10 * step, writer)
            case 1:
                writer.dataset(uri).delete(f"a = {step}")
            case 2:
                writer.write_dataset(rows(0, 10), uri, mode="overwrite")
            case _:
                writer.LanceDataset.commit(uri, writer.LanceOperation.Restore(1))
    names = sorted((Path(uri) / "_versions").glob("*.manifest"), reverse=True)
    numbers = [2**64 - 1 - int(path.name.partition(".")[0]) for path in names]
    assert numbers == list(range(1, 14))
    assert [parse_manifest_file(path.read_bytes(), "m").message.version for path in names] == numbers


@pytest.mark.parametrize(("first", "second"), [(lance, lance_core), (lance_core, lance), (lance_core, lance_core)])
def test_fragment_ids_are_never_reused_after_an_overwrite_or_restore(uri: str, first: object, second: object) -> None:
    lance_core.write_dataset(rows(0, 20), uri, max_rows_per_file=10)
    seen = [0, 1]
    for writer in (first, second):
        writer.write_dataset(rows(0, 10), uri, mode="overwrite")
        writer.LanceDataset.commit(uri, writer.LanceOperation.Restore(1))
        _append(uri, 50, writer)
        new = [each.id for each in _manifest(uri).fragments if each.id not in (0, 1)]
        assert min(new) > max(seen)
        seen.extend(new)


@pytest.mark.parametrize("writer", [lance, lance_core])
def test_fragment_ids_continue_after_the_last_fragment_was_removed(uri: str, writer: object) -> None:
    lance_core.write_dataset(rows(0, 30), uri, max_rows_per_file=10)
    writer.dataset(uri).delete("true")
    assert (_manifest(uri).max_fragment_id, len(_manifest(uri).fragments)) == (2, 0)
    _append(uri, 0)
    assert [each.id for each in _manifest(uri).fragments] == [3]


def test_row_versions_are_assigned_by_run_length_and_not_by_offset(uri: str) -> None:
    lance.write_dataset(rows(0, 20), uri, max_rows_per_file=10, enable_stable_row_ids=True)
    _append(uri, 20, lance)
    lance.dataset(uri).delete("a in (3, 12, 13)")
    lance.dataset(uri).optimize.compact_files()
    dataset = lance.dataset(uri)
    columns = ["a", "_row_created_at_version"]
    before = {row["a"]: row["_row_created_at_version"] for row in dataset.to_table(columns=columns).to_pylist()}
    moved = lance.fragment.LanceFragment.create(uri, rows(22, 24))
    moved.row_id_meta = lance.fragment.RowIdSequence([22, 23]).to_inline_metadata()
    fragment = dataset.get_fragments()[0]
    update = lance.LanceOperation.Update(updated_fragments=[fragment.delete("a in (22, 23)")], new_fragments=[moved])
    lance_core.LanceDataset.commit(uri, to_ours(update), read_version=dataset.version)
    after = {
        row["a"]: row["_row_created_at_version"] for row in lance.dataset(uri).to_table(columns=columns).to_pylist()
    }
    assert after == before
    assert {version for number, version in after.items() if number >= 20} == {2}


NESTED = pa.table(
    {
        "a": pa.array([1, 2], pa.int64()),
        "s": pa.array(
            [{"x": 1, "l": [1]}, {"x": 2, "l": []}], pa.struct([("x", pa.int32()), ("l", pa.list_(pa.int8()))])
        ),
    }
)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_data_files_list_the_same_fields_and_columns_as_in_pylance(uri: str, version: str) -> None:
    lance_core.write_dataset(NESTED, uri, data_storage_version=version)
    lance.write_dataset(NESTED, f"{uri}-theirs", data_storage_version=version)
    ours, theirs = (_manifest(path).fragments[0].files[0] for path in (uri, f"{uri}-theirs"))
    assert list(ours.fields) == list(theirs.fields)
    assert list(ours.column_indices) == list(theirs.column_indices)
    assert len(ours.column_indices) == len(ours.fields)
    lance.dataset(uri).validate()


def test_schema_fields_are_serialized_as_in_pylance(uri: str) -> None:
    lance.write_dataset(NESTED, uri)
    theirs = [pb_file.Field.SerializeToString(field, deterministic=True) for field in _manifest(uri).fields]
    ours = fields_to_proto(schema_from_arrow(NESTED.schema))
    assert [field.SerializeToString(deterministic=True) for field in ours] == theirs
    assert ours[0].parent_id == -1


def _flags(uri: str) -> tuple[int, int]:
    message = _manifest(uri)
    return message.reader_feature_flags, message.writer_feature_flags


def test_the_mixed_file_versions_flag_is_kept_in_both_flag_words(uri: str) -> None:
    lance.write_dataset(rows(0, 10), uri, data_storage_version="2.1")
    new = lance_core.write_fragments(rows(10, 20), uri, data_storage_version="2.2")
    lance_core.LanceDataset.commit(uri, LanceOperation.Append(new), read_version=1)
    assert _flags(uri) == (256, 256)
    lance_core.dataset(uri).optimize.compact_files()
    assert [flag & 256 for flag in _flags(uri)] == [256, 256]
    schema = lance_core.dataset(uri).lance_schema
    version = lance_core.dataset(uri).version
    lance_core.LanceDataset.commit(uri, LanceOperation.Project(schema.project(["a"])), read_version=version)
    lance_core.LanceDataset.commit(uri, LanceOperation.Restore(1))
    lance_core.write_dataset(rows(0, 10), uri, mode="overwrite", data_storage_version="2.1")
    assert [flag & 256 for flag in _flags(uri)] == [256, 256]
    assert lance.dataset(uri).count_rows() == 10


def test_the_deletion_flag_is_cleared_with_the_last_deletion_file(uri: str) -> None:
    lance_core.write_dataset(rows(0, 20), uri, max_rows_per_file=10)
    lance_core.dataset(uri).delete("a < 9")
    assert _flags(uri) == (1, 1)
    lance_core.dataset(uri).optimize.compact_files()
    assert _flags(uri) == (0, 0)


def test_appending_files_of_another_version_sets_a_feature_flag(uri: str) -> None:
    """Without the flag, the reference cannot open a table with files of several versions."""
    lance.write_dataset(rows(0, 10), uri, data_storage_version="2.2")
    older = lance_core.write_fragments(rows(10, 20), uri, data_storage_version="2.1")
    lance_core.LanceDataset.commit(uri, LanceOperation.Append(older), read_version=1)
    assert _flags(uri) == (256, 256)
    assert lance.dataset(uri).count_rows() == 20
    earliest = lance_core.write_fragments(rows(10, 20), f"{uri}-x", mode="create", data_storage_version="0.1")
    with pytest.raises(InvalidInputError):
        lance_core.LanceDataset.commit(uri, LanceOperation.Append(earliest), read_version=2)


def test_a_merged_column_has_values_for_deleted_rows(uri: str) -> None:
    """A new file has values for deleted rows too; a rewritten column keeps its position in the old file."""
    lance.write_dataset(rows(0, 10), uri)
    lance_core.dataset(uri).delete("a = 3")
    dataset = lance.dataset(uri)
    fragment, schema = dataset.get_fragment(0).merge_columns(
        lambda batch: pa.record_batch([pa.array([1] * batch.num_rows, pa.int32())], ["z"]), columns=["a"]
    )
    merge = lance.LanceOperation.Merge([fragment], schema)
    lance_core.LanceDataset.commit(uri, to_ours(merge), read_version=dataset.version)
    lance.dataset(uri).validate()
    assert lance.dataset(uri).to_table(filter="a > 2")["z"].to_pylist() == [1] * 6
    assert lance_core.dataset(uri).to_table(filter="a > 2")["z"].to_pylist() == [1] * 6
    dataset = lance.dataset(uri)
    updated, fields = dataset.get_fragment(0).update_columns(
        pa.table({"a": pa.array([5], pa.int64()), "s": ["new"]}), left_on="a", right_on="a"
    )
    update = lance.LanceOperation.Update(
        updated_fragments=[updated], fields_modified=fields, update_mode="rewrite_columns"
    )
    lance_core.LanceDataset.commit(uri, to_ours(update), read_version=dataset.version)
    file = _manifest(uri).fragments[0].files[0]
    assert (list(file.fields), list(file.column_indices)) == ([0, -2], [0, 1])
    for opened in (lance.dataset(uri), lance_core.dataset(uri)):
        assert opened.to_table()["s"].to_pylist() == ["v0", "v1", "v2", "v4", "new", "v6", "v7", "v8", "v9"]
        assert opened.to_table()["a"].to_pylist() == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_the_field_id_of_a_removed_column_is_reused_when_no_data_file_lists_it(uri: str) -> None:
    lance.write_dataset(rows(0, 10), uri)
    lance.dataset(uri).add_columns({"z": "a + 1"})
    dataset = lance_core.dataset(uri)
    assert dataset.max_field_id == 2
    schema = dataset.lance_schema.project(["a", "s"])
    lance_core.LanceDataset.commit(uri, LanceOperation.Project(schema, True), read_version=dataset.version)
    assert lance_core.dataset(uri).max_field_id == 1
    lance.dataset(uri).add_columns({"y": "a + 2"})
    assert [(field.name, field.id) for field in lance_core.dataset(uri).lance_schema.fields][-1] == ("y", 2)


def test_a_merge_by_key_stores_a_single_key_filter(uri: str) -> None:
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"})]
    )
    lance.write_dataset(pa.table({"id": pa.array(range(5), pa.int64())}, schema=schema), uri)
    for number in range(10, 13):
        new = pa.table({"id": pa.array([number], pa.int64())}, schema=schema)
        lance.dataset(uri).merge_insert("id").when_not_matched_insert_all().execute(new)
    sizes = [len(lance_core.LanceDataset(uri, version).manifest.transaction) for version in (2, 3, 4)]
    assert max(sizes) < 2**15 + 1000
    lance_core.dataset(uri).update_config({"k": "v"})
    assert len(lance_core.dataset(uri).manifest.transaction) < 1000


def test_merges_by_key_conflict_with_appends_and_with_each_other(uri: str) -> None:
    """The reference wrote the key filters, and both libraries interpret them in the same way."""
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"})]
    )
    lance.write_dataset(pa.table({"id": pa.array(range(5), pa.int64())}, schema=schema), uri)
    operations = []
    for keys in ([10, 11], [11, 12], [20]):
        new = pa.table({"id": pa.array(keys, pa.int64())}, schema=schema)
        lance.LanceDataset.commit(uri, lance.LanceOperation.Restore(1))
        lance.dataset(uri).merge_insert("id").when_not_matched_insert_all().execute(new)
        message = pb_transaction.Transaction.FromString(lance_core.dataset(uri).manifest.transaction)
        operations.append(operation_from_proto(message))
    first, overlapping, apart = operations
    assert judge(first, overlapping) is Verdict.RETRYABLE
    assert judge(first, apart) is Verdict.COMPATIBLE
    assert judge(first, Append(fragments=())) is Verdict.RETRYABLE
    assert judge(Append(fragments=()), first) is Verdict.COMPATIBLE
