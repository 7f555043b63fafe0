"""Columns that are split over several data files of a fragment, or missing from all of them."""

import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CorruptDataError, NotSupportedError
from lance_core.file.families import open_writer
from lance_core.file.write_config import WriteConfig
from lance_core.scan.read_plan import ColumnSources, assemble_column
from lance_core.schema.convert import schema_from_arrow, schema_to_arrow
from lance_core.schema.field import Field, Schema
from lance_core.schema.projection import project_by_ids
from tests.support.counting_store import CountingStore
from tests.support.records import data_file

ROWS = pa.table(
    {
        "a": pa.array(range(6), pa.int64()),
        "s": pa.array(
            [{"x": i, "t": {"y": f"y{i}", "z": i / 2}} if i % 3 else None for i in range(6)],
            pa.struct([("x", pa.int64()), ("t", pa.struct([("y", pa.string()), ("z", pa.float64())]))]),
        ),
        "l": pa.array([[{"p": i, "q": i}] * (i % 2) for i in range(6)]),
    }
)
SCHEMA = schema_from_arrow(ROWS.schema)
IDS = {path: SCHEMA.field(path).id for path in ("a", "s.x", "s.t.y", "s.t.z", "l.item.p", "l.item.q")}


def _pruned(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if not pa.types.is_struct(wanted):
        return array
    children = [_pruned(array.field(field.name), field.type) for field in wanted]
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=array.is_null())


def _write(store: CountingStore, name: str, paths: list[str]) -> lance_core.DataFile:
    """Write some leaves of ``ROWS`` as a separate data file."""
    here = project_by_ids(SCHEMA, {IDS[path] for path in paths})
    arrow = schema_to_arrow(here)
    arrays = [_pruned(ROWS[field.name].combine_chunks(), field.type) for field in arrow]
    writer = open_writer(store.create(f"table/data/{name}.lance"), here, WriteConfig())
    writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=arrow))
    written = writer.finish()
    return lance_core.DataFile(
        f"{name}.lance", list(written.field_ids), list(written.column_indices), 2, 2, written.num_bytes
    )


def _dataset(uri: str, store: CountingStore, *files: list[str]) -> lance_core.LanceDataset:
    data_files = [_write(store, f"file{number}", paths) for number, paths in enumerate(files)]
    fragment = lance_core.FragmentMetadata(0, data_files, ROWS.num_rows)
    return lance_core.LanceDataset.commit(uri, lance_core.LanceOperation.Overwrite(SCHEMA, [fragment]))


@pytest.mark.parametrize(
    "files",
    [
        [["a", "s.x", "s.t.y", "s.t.z"]],
        [["a"], ["s.x", "s.t.y", "s.t.z"]],
        [["s.t.y", "s.t.z"], ["a", "s.x"]],
        [["s.t.z"], ["s.x"], ["a"], ["s.t.y"]],
    ],
)
def test_structs_split_across_files_are_joined(uri: str, store: CountingStore, files: list[list[str]]) -> None:
    dataset = _dataset(uri, store, *files)
    dataset.validate()
    assert dataset.to_table(columns=["a", "s"]).equals(ROWS.select(["a", "s"]))
    assert dataset.to_table(columns=["s"], batch_size=2, offset=1, limit=3).equals(ROWS.select(["s"]).slice(1, 3))
    assert dataset.take([5, 0, 3], columns=["s", "a"]).equals(ROWS.select(["s", "a"]).take([5, 0, 3]))
    assert dataset.to_table(columns=["s.t.z"])["s.t.z"].to_pylist() == [i / 2 if i % 3 else None for i in range(6)]


def test_scan_opens_only_the_needed_data_files(uri: str, store: CountingStore) -> None:
    dataset = _dataset(uri, store, ["s.t.z"], ["s.x"], ["a"])
    store.reset()
    dataset.to_table(columns=["s.x"])
    assert {call.path for call in store.calls} == {"table/data/file1.lance"}


def test_struct_members_in_no_data_file_are_null(uri: str, store: CountingStore) -> None:
    dataset = _dataset(uri, store, ["a", "s.t.y"])
    rows = dataset.to_table(columns=["s", "l"]).to_pylist()
    assert [row["s"] for row in rows] == [
        {"x": None, "t": {"y": f"y{i}", "z": None}} if i % 3 else None for i in range(6)
    ]
    assert all(row["l"] is None for row in rows)
    assert dataset.to_table(columns=["l"]).schema.equals(ROWS.select(["l"]).schema)


def test_parts_of_lists_in_several_data_files_are_joined_if_their_lengths_are_equal() -> None:
    part = project_by_ids(SCHEMA, {IDS["l.item.p"]}).fields[0]
    other = project_by_ids(SCHEMA, {IDS["l.item.q"]}).fields[0]
    lists = pa.array([[{"p": 0}], [{"p": 1}, None], [], None, [{"p": 2}]]).slice(1)
    others = pa.array([[{"q": 5}, None], [], None, [{"q": 6}]])
    assert assemble_column(SCHEMA.field("l"), [(part, lists), (other, others)], 4).to_pylist() == [
        [{"p": 1, "q": 5}, None],
        [],
        None,
        [{"p": 2, "q": 6}],
    ]
    with pytest.raises(CorruptDataError, match=r"parts of list field 'l' .* record different lengths"):
        assemble_column(SCHEMA.field("l"), [(part, lists), (other, others.slice(1))], 4)


def test_list_members_in_no_data_file_are_null(uri: str, store: CountingStore) -> None:
    dataset = _dataset(uri, store, ["l.item.q"])
    assert dataset.to_table(columns=["l"])["l"].to_pylist() == [[{"p": None, "q": i}] * (i % 2) for i in range(6)]


def test_field_in_two_data_files_raises_corrupt_data() -> None:
    files = [data_file(field_ids=(0,), column_indices=(0,)), data_file(field_ids=(0, 2), column_indices=(0, 1))]
    with pytest.raises(CorruptDataError, match="field 0 is stored in two data files"):
        ColumnSources.plan(SCHEMA, files)


def test_required_field_in_no_data_file_raises_corrupt_data() -> None:
    required = schema_from_arrow(pa.schema([pa.field("a", pa.int64(), nullable=False)]))
    with pytest.raises(CorruptDataError, match=r"no data file has the non-nullable field 'a' "):
        ColumnSources.plan(required, [])


@pytest.mark.parametrize("path", ["s", "s.t", "l", "l.item"])
def test_data_file_with_a_column_for_a_container_field_raises_not_supported(path: str) -> None:
    field = SCHEMA.field(path)
    with pytest.raises(NotSupportedError, match=f"stores field '{field.name}'"):
        ColumnSources.plan(SCHEMA, [data_file(field_ids=(field.id,), column_indices=(0,))])


def test_data_file_may_list_containers_without_a_column() -> None:
    s, x = SCHEMA.field("s"), SCHEMA.field("s.x")
    file = data_file(field_ids=(s.id, x.id), column_indices=(-1, 0))
    [(_, here)] = ColumnSources.plan(SCHEMA, [file]).files
    assert [leaf.id for leaf in here.leaves()] == [x.id]


def test_blob_field_has_one_column() -> None:
    member = Field(id=1, name="data", logical_type="large_binary")
    blob = Field(id=0, name="b", logical_type="struct", extension_name="lance.blob.v2", children=(member,))
    schema = Schema(fields=(blob,))
    [(_, here)] = ColumnSources.plan(schema, [data_file(field_ids=(0,), column_indices=(0,))]).files
    assert here.fields == (blob,)
    assert ColumnSources.plan(schema, []).files == ()
