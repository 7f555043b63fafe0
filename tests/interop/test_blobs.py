"""Blob columns of both generations are read by each implementation when the other has written them."""

from datetime import timedelta
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core import Blob, blob_array, blob_field
from lance_core.errors import CorruptDataError, InvalidInputError, NotFoundError, NotSupportedError, RowOutOfRangeError

INLINE, PACKED, DEDICATED, EXTERNAL = range(4)
SIZES = [10, 64 * 1024, 64 * 1024 + 1, 100_000, 4 << 20, (4 << 20) + 1, 0]


def _v1_field(name: str = "b", value: str = "true") -> pa.Field:
    return pa.field(name, pa.large_binary(), metadata={"lance-encoding:blob": value})


def _table(array: pa.Array, field: pa.Field) -> pa.Table:
    numbers = pa.array(np.arange(len(array), dtype=np.int32))
    return pa.table([numbers, array], schema=pa.schema([pa.field("i", pa.int32()), field]))


def _v1(values: list[bytes | None]) -> pa.Table:
    return _table(pa.array(values, pa.large_binary()), _v1_field())


def _v2(values: list[object], **thresholds: int) -> pa.Table:
    return _table(blob_array(values), blob_field("b", **thresholds))


def _bytes(size: int, seed: int = 0) -> bytes:
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8).tobytes()


V1_VALUES = [b"hello", None, b"", b"x" * 100, _bytes(70_000)]
V2_VALUES = [None if size is None else _bytes(size, size) for size in [*SIZES, None]]


def _sidecars(uri: str) -> list[int]:
    return sorted(path.stat().st_size for path in Path(uri).glob("data/*/*.blob"))


def _check_same(uri: str, values: list[bytes | None]) -> None:
    """Check that both libraries read the same descriptors, values, file objects, and schemas."""
    theirs, ours = lance.dataset(uri), lance_core.dataset(uri)
    theirs.validate()
    ours.validate()
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    for handling in (None, "all_binary", "blobs_descriptions", "all_descriptions"):
        expected = theirs.to_table(blob_handling=handling)
        found = ours.to_table(blob_handling=handling)
        assert found.schema.equals(expected.schema, check_metadata=True)
        assert found.to_pylist() == expected.to_pylist()
    assert ours.to_table(blob_handling="all_binary")["b"].to_pylist() == values
    rows = [len(values) - 1, 0, 0, len(values) // 2]
    every = ours.to_table(columns=["i"], with_row_address=True)["_rowaddr"]
    addresses = every.take(pa.array(rows))
    for selection in ({"indices": rows}, {"ids": addresses.to_pylist()}, {"addresses": addresses.combine_chunks()}):
        files = ours.take_blobs("b", **selection)
        assert [None if file is None else file.read() for file in files] == [values[row] for row in rows]
    assert ours.read_blobs("b", indices=rows) == theirs.read_blobs("b", indices=rows)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("writer", [lance, lance_core], ids=["pylance", "lance_core"])
def test_blobs_of_the_first_generation_are_read_by_lance_core_and_pylance(tmp_path, version: str, writer) -> None:
    uri = str(tmp_path / "table")
    writer.write_dataset(_v1(V1_VALUES), uri, data_storage_version=version)
    _check_same(uri, V1_VALUES)
    kind = "lance.blob.v2" if version == "2.2" else ""
    assert lance_core.dataset(uri).lance_schema.field("b").extension_name == kind


@pytest.mark.parametrize("version", ["2.0", "2.1"])
@pytest.mark.parametrize("values", [[None, None], [b"", b""], [b"x"]], ids=["null", "empty", "one"])
def test_uniform_pages_of_first_generation_blobs_are_read_by_both_libraries(
    tmp_path, version: str, values: list
) -> None:
    uri = str(tmp_path / "table")
    lance_core.write_dataset(_v1(values), uri, data_storage_version=version)
    _check_same(uri, values)


@pytest.mark.parametrize("writer", [lance, lance_core], ids=["pylance", "lance_core"])
def test_blobs_of_every_size_are_stored_inline_packed_or_dedicated(tmp_path, writer) -> None:
    uri = str(tmp_path / "table")
    writer.write_dataset(_v2(V2_VALUES), uri)
    _check_same(uri, V2_VALUES)
    described = lance_core.dataset(uri).to_table()["b"].to_pylist()
    kinds = [None if value is None else value["kind"] for value in described]
    assert kinds == [INLINE, INLINE, PACKED, PACKED, PACKED, DEDICATED, INLINE, None]
    assert _sidecars(uri) == [(4 << 20) + 1, 64 * 1024 + 1 + 100_000 + (4 << 20)]


def test_blob_size_thresholds_of_the_field_determine_the_sizes_of_sidecars(tmp_path) -> None:
    values = [b"a" * 10, b"b" * 20, b"c" * 100, b"d" * 50, b"e" * 60, b"f" * 15]
    thresholds = {"inline_size_threshold": 12, "dedicated_size_threshold": 80, "pack_file_size_threshold": 64}
    sizes = []
    for name, writer in (("theirs", lance), ("ours", lance_core)):
        uri = str(tmp_path / name)
        writer.write_dataset(_v2(values, **thresholds), uri)
        _check_same(uri, values)
        sizes.append(_sidecars(uri))
    assert sizes == [[15, 20, 50, 60, 100]] * 2


def test_the_pack_file_size_argument_limits_the_size_of_shared_sidecars(tmp_path) -> None:
    uri = str(tmp_path / "table")
    values = [_bytes(70_000, seed) for seed in range(4)]
    lance_core.write_dataset(_v2(values), uri, blob_pack_file_size_threshold=150_000)
    assert _sidecars(uri) == [140_000, 140_000]
    _check_same(uri, values)


@pytest.mark.parametrize("writer", [lance, lance_core], ids=["pylance", "lance_core"])
@pytest.mark.parametrize("generation", [1, 2])
def test_blobs_in_structs_are_read_by_lance_core_and_pylance(tmp_path, writer, generation: int) -> None:
    uri = str(tmp_path / "table")
    values = [b"a", None, b"x" * 70_000, b"hidden"]
    field = blob_field("bb") if generation == 2 else _v1_field("bb")
    array = blob_array(values) if generation == 2 else pa.array(values, pa.large_binary())
    mask = pa.array([False, False, False, True])
    struct = pa.StructArray.from_arrays(
        [array, pa.array([1, 2, 3, 4])], fields=[field, pa.field("k", pa.int64())], mask=mask
    )
    version = "2.2" if generation == 2 else "2.1"
    writer.write_dataset(_table(struct, pa.field("b", struct.type)), uri, data_storage_version=version)
    theirs, ours = lance.dataset(uri), lance_core.dataset(uri)
    for handling in (None, "all_binary"):
        assert ours.to_table(blob_handling=handling).to_pylist() == theirs.to_table(blob_handling=handling).to_pylist()
    found = ours.to_table(blob_handling="all_binary")["b"].to_pylist()
    assert found == [*({"bb": value, "k": k} for k, value in enumerate(values[:3], 1)), None]
    assert [file and file.size() for file in ours.take_blobs("b.bb", indices=[0, 1, 2, 3])] == [1, None, 70_000, None]
    ours.validate()


@pytest.mark.parametrize("writer", [lance, lance_core], ids=["pylance", "lance_core"])
def test_blobs_in_lists_are_read_by_lance_core_and_pylance(tmp_path, writer) -> None:
    uri = str(tmp_path / "table")
    array = pa.ListArray.from_arrays(pa.array([0, 1, 1, 3], pa.int32()), blob_array([b"a", None, b"x" * 70_000]))
    writer.write_dataset(_table(array, pa.field("b", array.type)), uri)
    for library in (lance, lance_core):
        found = library.dataset(uri).to_table(blob_handling="all_binary")["b"].to_pylist()
        assert found == [[b"a"], [], [None, b"x" * 70_000]]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("ours_writes", [True, False])
def test_files_with_first_generation_blobs_are_read_by_lance_core_and_pylance(
    tmp_path, version: str, ours_writes: bool
) -> None:
    path = str(tmp_path / "file.lance")
    rows = _v1(V1_VALUES)
    writer = lance_core.LanceFileWriter if ours_writes else lance.file.LanceFileWriter
    with writer(path, rows.schema, version=version) as file:
        file.write_batch(rows)
        file.write_batch(rows)
    for reader in (lance_core.LanceFileReader, lance.file.LanceFileReader):
        found = reader(path)
        assert found.read_all().to_table().equals(pa.concat_tables([rows, rows]).combine_chunks())
        assert found.take_rows([0, 3, 9]).to_table()["b"].to_pylist() == [b"hello", b"x" * 100, _bytes(70_000)]
        assert found.read_range(3, 4).to_table()["b"].to_pylist() == [b"x" * 100, _bytes(70_000), b"hello", None]


def test_lists_of_first_generation_blobs_are_refused(tmp_path) -> None:
    dtype = pa.list_(_v1_field("item"))
    rows = pa.table({"x": pa.array([[b"a"]], dtype)})
    for version in ("2.1", "2.2"):
        with pytest.raises(NotSupportedError, match=r"needs data storage version 2\.0"):
            lance_core.LanceFileWriter(str(tmp_path / "f.lance"), rows.schema, version=version)
    assert not list(tmp_path.iterdir())


def test_second_generation_blobs_require_a_table_in_format_2_2(tmp_path) -> None:
    rows = _v2([b"x"])
    for version in ("0.1", "2.0", "2.1"):
        with pytest.raises(NotSupportedError, match=r"needs data storage version 2\.2"):
            lance_core.write_dataset(rows, str(tmp_path / "t"), data_storage_version=version)
    with pytest.raises(NotSupportedError, match="write_dataset"):
        lance_core.LanceFileWriter(str(tmp_path / "f.lance"), rows.schema)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def outside(tmp_path) -> Path:
    place = tmp_path / "outside"
    (place / "sub").mkdir(parents=True)
    (place / "a.bin").write_bytes(b"0123456789" * 10)
    (place / "sub" / "b.bin").write_bytes(b"abcdefghij" * 10)
    return place


def _external(outside: Path) -> list[object]:
    return [
        Blob.from_uri(f"file://{outside}/a.bin"),
        Blob.from_uri(f"file://{outside}/sub/b.bin", 5, 7),
        b"inline",
        None,
        Blob.empty(),
    ]


EXTERNAL_VALUES = [b"0123456789" * 10, b"fghijab", b"inline", None, b""]


@pytest.mark.parametrize("writer", [lance, lance_core], ids=["pylance", "lance_core"])
@pytest.mark.parametrize("mode", ["reference", "ingest"])
def test_external_blobs_are_referenced_or_ingested(tmp_path, outside: Path, writer, mode: str) -> None:
    uri = str(tmp_path / "table")
    options = {"external_blob_mode": mode, "allow_external_blob_outside_bases": mode == "reference"}
    writer.write_dataset(_v2(_external(outside)), uri, **options)
    kinds = [value and value["kind"] for value in lance_core.dataset(uri).to_table()["b"].to_pylist()]
    kind = EXTERNAL if mode == "reference" else INLINE
    assert kinds == [kind, kind, INLINE, None, INLINE]
    _check_same(uri, EXTERNAL_VALUES)


def test_external_blobs_outside_the_base_paths_are_refused_unless_allowed(tmp_path, outside: Path) -> None:
    rows = _v2([f"file://{outside}/a.bin"])
    with pytest.raises(InvalidInputError, match="allow_external_blob_outside_bases"):
        lance_core.write_dataset(rows, str(tmp_path / "t"))
    with pytest.raises(InvalidInputError, match="not an absolute URI"):
        lance_core.write_dataset(_v2(["a.bin"]), str(tmp_path / "t"), allow_external_blob_outside_bases=True)
    with pytest.raises(InvalidInputError, match="only applies"):
        lance_core.write_dataset(
            rows, str(tmp_path / "t"), external_blob_mode="ingest", allow_external_blob_outside_bases=True
        )
    with pytest.raises(InvalidInputError, match="external_blob_mode"):
        lance_core.write_dataset(rows, str(tmp_path / "t"), external_blob_mode="copy")
    assert not [path for path in (tmp_path / "t").rglob("*") if path.is_file()]


def test_external_blobs_below_a_base_path_are_stored_with_the_id_of_the_base_path(tmp_path, outside: Path) -> None:
    uri = str(tmp_path / "table")
    base = lance.DatasetBasePath(f"file://{outside}", name="ext", is_dataset_root=False)
    lance.write_dataset(_v2([b"x"]), uri, initial_bases=[base])
    lance_core.write_dataset(_v2(_external(outside)), uri, mode="append")
    described = lance_core.dataset(uri).to_table()["b"].to_pylist()[1:3]
    assert [(value["blob_id"], value["blob_uri"]) for value in described] == [(1, "a.bin"), (1, "sub/b.bin")]
    _check_same(uri, [b"x", *EXTERNAL_VALUES])
    lance_core.dataset(uri).optimize.compact_files()
    assert lance_core.dataset(uri).to_table()["b"].to_pylist()[1]["blob_uri"] == "a.bin"
    _check_same(uri, [b"x", *EXTERNAL_VALUES])


def test_missing_external_blobs_raise_not_found(tmp_path, outside: Path) -> None:
    uri = str(tmp_path / "table")
    rows = _v2([f"file://{outside}/gone.bin", b"x"])
    lance_core.write_dataset(rows, uri, allow_external_blob_outside_bases=True)
    with pytest.raises(NotFoundError):
        lance_core.dataset(uri).to_table(blob_handling="all_binary")
    assert lance_core.dataset(uri).take_blobs("b", indices=[1])[0].read() == b"x"


def test_first_generation_blobs_are_appended_to_a_second_generation_column(tmp_path) -> None:
    uri = str(tmp_path / "table")
    lance.write_dataset(_v1(V1_VALUES), uri, data_storage_version="2.2")
    lance_core.write_dataset(_v1(V1_VALUES), uri, mode="append")
    lance_core.write_dataset(_v2([b"new"]), uri, mode="append")
    _check_same(uri, [*V1_VALUES, *V1_VALUES, b"new"])
    plain = _table(pa.array([b"x"], pa.large_binary()), pa.field("b", pa.large_binary()))
    with pytest.raises(lance_core.SchemaMismatchError):
        lance_core.write_dataset(plain, uri, mode="append")


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_filters_and_projections_of_blob_columns_return_descriptors(tmp_path, version: str) -> None:
    uri = str(tmp_path / "table")
    lance_core.write_dataset(_v1(V1_VALUES), uri, data_storage_version=version, max_rows_per_file=2)
    theirs, ours = lance.dataset(uri), lance_core.dataset(uri)
    for options in (
        {"filter": "b IS NULL"},
        {"filter": "b IS NOT NULL", "columns": ["i"]},
        {"filter": "i > 1", "blob_handling": "all_binary", "with_row_id": True},
        *([{"columns": ["b.size"]}, {"filter": "b.size > 50"}] if version == "2.2" else []),
        {"columns": ["i"], "limit": 2, "offset": 1},
    ):
        expected = theirs.to_table(**options)
        found = ours.to_table(**options)
        assert found.to_pylist() == expected.to_pylist()
        assert found.schema.equals(expected.schema, check_metadata=True)
    assert ours.take([3, 0]).equals(theirs.take([3, 0]))
    fragment = ours.get_fragments()[1]
    assert fragment.to_table(blob_handling="all_binary")["b"].to_pylist() == V1_VALUES[2:4]


def test_an_unknown_value_of_blob_handling_is_refused(tmp_path) -> None:
    ours = lance_core.write_dataset(_v1(V1_VALUES), str(tmp_path / "t"))
    with pytest.raises(InvalidInputError, match="Invalid blob_handling"):
        ours.scanner(blob_handling="some")


def test_invalid_blob_selections_are_refused(tmp_path) -> None:
    ours = lance_core.write_dataset(_v1(V1_VALUES), str(tmp_path / "t"))
    ours.delete("i = 0")
    for column, selection in (
        ("b", {}),
        ("b", {"ids": [1], "indices": [1]}),
        ("i", {"indices": [1]}),
        ("none", {"indices": [1]}),
        ("b", {"indices": [4]}),
        ("b", {"addresses": [9 << 32]}),
        ("b", {"addresses": [5]}),
        ("b", {"ids": [-1]}),
    ):
        with pytest.raises(InvalidInputError):
            ours.take_blobs(column, **selection)
    with pytest.raises(NotSupportedError, match="deleted"):
        ours.take_blobs("b", ids=[0])
    assert ours.take_blobs("b", indices=[]) == []


def test_ranges_of_blobs_equal_those_of_pylance(tmp_path) -> None:
    uri = str(tmp_path / "t")
    ours = lance_core.write_dataset(_v2(V2_VALUES), uri)
    requests = [(5, 100, 7), (0, 0, 10), (7, 3, 4), (5, (4 << 20) + 1, 0), (2, 64 * 1024, 1)]
    found = ours.read_blob_ranges("b", requests, selector="indices")
    assert found == lance.dataset(uri).read_blob_ranges("b", requests, selector="indices")
    assert found[0][2] == V2_VALUES[5][100:107]
    with pytest.raises(InvalidInputError, match="is not within the blob"):
        ours.read_blob_ranges("b", [(0, 8, 3)], selector="indices")
    with pytest.raises(InvalidInputError, match="selector"):
        ours.read_blob_ranges("b", [(0, 8, 1)], selector="rows")


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_compaction_and_cleanup_keep_every_blob(tmp_path, version: str) -> None:
    uri = str(tmp_path / "t")
    values = V1_VALUES if version != "2.2" else V2_VALUES
    for _ in range(3):
        rows = _v1(values) if version != "2.2" else _v2(values)
        lance_core.write_dataset(rows, uri, mode="append", data_storage_version=version)
    lance_core.dataset(uri).delete("i = 1")
    lance_core.dataset(uri).optimize.compact_files()
    left = [value for row, value in enumerate(values) if row != 1] * 3
    assert len(lance_core.dataset(uri).get_fragments()) == 1
    _check_same(uri, left)
    old = len(_sidecars(uri))
    lance_core.dataset(uri).cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    _check_same(uri, left)
    assert len(list(Path(uri).glob("data/*.lance"))) == 1
    if version == "2.2":
        assert 0 < len(_sidecars(uri)) < old
        assert len([path for path in Path(uri, "data").iterdir() if path.is_dir()]) == 1


def test_pylance_compacts_and_deletes_blobs_written_by_lance_core(tmp_path) -> None:
    uri = str(tmp_path / "t")
    for _ in range(2):
        lance_core.write_dataset(_v2(V2_VALUES), uri, mode="append")
    lance.dataset(uri).delete("i = 1")
    lance.dataset(uri).optimize.compact_files()
    _check_same(uri, [value for row, value in enumerate(V2_VALUES) if row != 1] * 2)


def test_failed_blob_writes_leave_no_sidecars(tmp_path) -> None:
    uri = str(tmp_path / "t")
    good = _v2([_bytes(70_000), _bytes(5_000_000)]).to_batches()[0]
    bad = _v2([Blob.from_uri("file:///nowhere")]).to_batches()[0]
    with pytest.raises(InvalidInputError):
        lance_core.write_dataset(iter([good, good, bad]), uri, max_rows_per_file=2)
    assert not [path for path in Path(uri).rglob("*") if path.is_file()]


def test_validate_raises_a_typed_error_for_a_damaged_or_missing_sidecar(tmp_path) -> None:
    uri = str(tmp_path / "t")
    lance_core.write_dataset(_v2(V2_VALUES), uri)
    sidecar = max(Path(uri).glob("data/*/*.blob"), key=lambda path: path.stat().st_size)
    content = sidecar.read_bytes()
    sidecar.write_bytes(content[:-1])
    with pytest.raises(CorruptDataError):
        lance_core.dataset(uri).validate()
    with pytest.raises(CorruptDataError):
        lance_core.dataset(uri).to_table(blob_handling="all_binary")
    sidecar.unlink()
    with pytest.raises(NotFoundError):
        lance_core.dataset(uri).validate()


def test_rows_without_the_blob_column_read_as_null(tmp_path) -> None:
    uri = str(tmp_path / "t")
    lance_core.write_dataset(_v2([b"x"]), uri)
    lance_core.write_dataset(pa.table({"i": pa.array([7], pa.int32())}), uri, mode="append")
    _check_same(uri, [b"x", None])


def test_a_blob_with_both_data_and_uri_is_refused(tmp_path) -> None:
    storage = pa.array(
        [{"data": b"x", "uri": "file:///a", "position": None, "size": None}], lance_core.BlobType().storage_type
    )
    both = pa.ExtensionArray.from_storage(lance_core.blob_field("b").type, storage)
    with pytest.raises(InvalidInputError, match="exactly one of the members 'data' and 'uri'"):
        lance_core.write_dataset(_table(both, blob_field("b")), str(tmp_path / "t"))


def test_blob_arrays_built_by_pylance_are_written_by_lance_core(tmp_path) -> None:
    """This holds regardless of which library registered the extension type."""
    uri = str(tmp_path / "t")
    rows = _table(lance.blob_array([b"x", lance.Blob.empty(), None]), lance.blob_field("b"))
    lance_core.write_dataset(rows, uri)
    _check_same(uri, [b"x", b"", None])


@pytest.mark.parametrize("mode", ["reference", "ingest"])
@pytest.mark.parametrize(("position", "size"), [(2**63, 2**63), (2**64 - 1, 1), (1, 2**64 - 1)])
def test_an_external_range_that_overflows_is_refused(tmp_path: Path, mode: str, position: int, size: int) -> None:
    rows = _v2([Blob.from_uri("file:///a.bin", position, size)])
    options = {"external_blob_mode": mode, "allow_external_blob_outside_bases": mode == "reference"}
    with pytest.raises(InvalidInputError, match="external blob range overflows"):
        lance_core.write_dataset(rows, str(tmp_path / "t"), **options)
    assert not list((tmp_path / "t").rglob("*.lance"))


def test_blobs_taken_by_stable_row_id_equal_those_of_pylance(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    values = [_bytes(100 + each, each) for each in range(10)]
    lance.write_dataset(_v2(values), uri, data_storage_version="2.2", enable_stable_row_ids=True, max_rows_per_file=4)
    lance.dataset(uri).delete("i = 1")
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=100)
    theirs, ours = lance.dataset(uri), lance_core.dataset(uri)
    ids = [7, 0, 9, 0]
    expected = [file.read() for file in theirs.take_blobs("b", ids=ids)]
    assert [file.read() for file in ours.take_blobs("b", ids=ids)] == expected == [values[each] for each in ids]
    assert ours.read_blobs("b", ids=ids) == theirs.read_blobs("b", ids=ids)
    for missing in (1, 77):
        with pytest.raises(ValueError, match=f"ID {missing}"):
            theirs.take_blobs("b", ids=[0, missing])
        with pytest.raises(
            RowOutOfRangeError,
            match=f"row id {missing} was deleted or never assigned; found 1 of 2 requested row ids",
        ):
            ours.take_blobs("b", ids=[0, missing])


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("library", [lance_core, lance], ids=["lance_core", "pylance"])
def test_committed_overwrite_with_a_first_generation_schema_declares_the_stored_blobs(
    tmp_path: Path, library, version: str
) -> None:
    rows = _v1([b"a", None, b"x" * 100_000])
    if library is lance_core:
        # pylance 14.0.2 refuses its own 2.2 fragments if another column follows.
        rows = rows.append_column("after", pa.array([1, 2, 3]))
    uri = str(tmp_path / "table")
    write = lance_core.write_fragments if library is lance_core else lance.fragment.write_fragments
    fragments = write(rows, uri, mode="create", data_storage_version=version)
    library.LanceDataset.commit(uri, library.LanceOperation.Overwrite(rows.schema, fragments))
    for reader in (lance, lance_core):
        dataset = reader.dataset(uri)
        assert _is_v2(dataset.schema.field("b")) == (version == "2.2")
        assert [blob and blob.readall() for blob in dataset.take_blobs("b", indices=[0, 2])] == [b"a", b"x" * 100_000]
        if library is lance_core:
            assert dataset.to_table(["after"])["after"].to_pylist() == [1, 2, 3]


def _is_v2(field: pa.Field) -> bool:
    return isinstance(field.type, pa.BaseExtensionType) and field.type.extension_name == "lance.blob.v2"
