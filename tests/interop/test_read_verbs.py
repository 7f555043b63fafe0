"""Data frames, samples, and statistics: the same results and errors as in pylance."""

import random
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pytest

import lance_core
from lance_core.errors import IndexNotFoundError

BYTES = [b"ten bytes.", None, b"", b"abc"]


def _old_blobs() -> tuple[pa.Table, str]:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([field, pa.field("i", pa.int64())])
    return pa.table([pa.array(BYTES, pa.large_binary()), pa.array(range(4))], schema=schema), "2.0"


def _blobs() -> tuple[pa.Table, str]:
    schema = pa.schema([pa.field("i", pa.int64()), lance.blob_field("b"), pa.field("s", pa.string())])
    return pa.table(
        [pa.array(range(4)), lance.blob_array(BYTES), pa.array(["a", None, "c", "d"])], schema=schema
    ), "2.2"


def _blobs_in_structs() -> tuple[pa.Table, str]:
    fields = [lance.blob_field("b"), pa.field("i", pa.int64())]
    struct = pa.StructArray.from_arrays([lance.blob_array(BYTES), pa.array(range(4))], fields=fields)
    return pa.table({"st": struct, "j": pa.array(range(4))}), "2.2"


def _no_blobs() -> tuple[pa.Table, str]:
    return pa.table({"i": pa.array([1, None, 3, 4]), "s": ["a", "b", None, "d"], "l": [[1], [], None, [2, 3]]}), "2.1"


TABLES = {"old blobs": _old_blobs, "blobs": _blobs, "in structs": _blobs_in_structs, "none": _no_blobs}


@pytest.fixture(scope="module", params=TABLES)
def frames(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URI of a table of four rows in two fragments."""
    uri = str(tmp_path_factory.mktemp("frames") / "t.lance")
    table, version = TABLES[request.param]()
    lance.write_dataset(table, uri, data_storage_version=version, max_rows_per_file=3)
    return uri


def _plain(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """Return the columns of a frame as lists, with the bytes of file objects."""
    return {name: [_content(value) for value in frame[name].tolist()] for name in frame.columns}


def _content(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _content(member) for name, member in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if hasattr(value, "readall"):
        return "file", value.readall()
    return None if value is None or value != value else value


@pytest.mark.parametrize("mode", ["lazy", "bytes", "descriptions"])
@pytest.mark.parametrize(
    "arguments",
    [{}, {"limit": 2, "offset": 1}, {"with_row_address": True}, {"with_row_id": True, "with_row_address": True}],
    ids=str,
)
def test_frame_has_the_same_columns_and_values_as_in_pylance(frames: str, arguments: dict[str, Any], mode: str) -> None:
    for part in (lambda dataset: dataset, lambda dataset: dataset.get_fragment(0)):
        ours, theirs = (
            part(module.dataset(frames)).to_pandas(blob_mode=mode, **arguments) for module in (lance_core, lance)
        )
        assert list(ours.columns) == list(theirs.columns)
        assert _plain(ours) == _plain(theirs)
        assert ours.index.equals(theirs.index)


def test_values_of_a_blob_column_are_file_objects_by_default(tmp_path: Path) -> None:
    table, _ = _blobs()
    lance_core.write_dataset(table, str(tmp_path / "t"), data_storage_version="2.2")
    frame = lance_core.dataset(str(tmp_path / "t")).to_pandas(columns=["b"], filter="i <> 2")
    assert [file and file.readall() for file in frame["b"]] == [b"ten bytes.", None, b"abc"]
    assert isinstance(frame["b"][0], lance_core.BlobFile)


def test_file_objects_of_a_struct_member_that_is_projected_alone_can_be_read(tmp_path: Path) -> None:
    # pylance looks for a column with the dotted name, and fails.
    table, _ = _blobs_in_structs()
    dataset = lance_core.write_dataset(table, str(tmp_path / "t"), data_storage_version="2.2")
    frame = dataset.to_pandas(columns=["st.b"])
    assert [file and file.readall() for file in frame["st.b"]] == BYTES


def test_renamed_blob_columns_are_file_objects_as_in_pylance(tmp_path: Path) -> None:
    table, version = _blobs()
    lance.write_dataset(table, str(tmp_path / "t"), data_storage_version=version)
    columns = {"x": "b", "n": "i + 1"}
    ours, theirs = (module.dataset(str(tmp_path / "t")).to_pandas(columns=columns) for module in (lance_core, lance))
    assert list(ours.columns) == list(theirs.columns)
    assert _plain(ours) == _plain(theirs)


def test_to_pandas_passes_its_arguments_to_arrow(frames: str) -> None:
    options = {"types_mapper": {pa.int64(): pd.Int64Dtype()}.get}
    column = {"columns": ["j" if "st" in lance.dataset(frames).schema.names else "i"]}
    ours, theirs = (module.dataset(frames).to_pandas(**column, **options) for module in (lance_core, lance))
    pd.testing.assert_frame_equal(ours, theirs)


def test_unknown_blob_mode_raises_value_error(frames: str) -> None:
    for module in (lance_core, lance):
        with pytest.raises(ValueError, match="blob_mode must be one of"):
            module.dataset(frames).to_pandas(blob_mode="nope")


@pytest.mark.parametrize("randomize_order", [True, False])
def test_sample_with_the_same_seed_gives_the_same_rows_as_in_pylance(tmp_path: Path, randomize_order: bool) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": range(100), "s": [str(row) for row in range(100)]}), uri).delete("a % 7 = 3")
    samples = []
    for module in (lance_core, lance):
        random.seed(5)
        samples.append(module.dataset(uri).sample(20, ["a"], randomize_order=randomize_order))
    assert samples[0].equals(samples[1])
    assert len(set(samples[0]["a"].to_pylist())) == 20
    for num_rows in (-1, 87):
        for module in (lance_core, lance):
            with pytest.raises(ValueError, match=r"num_rows|Sample larger"):
                module.dataset(uri).sample(num_rows)


@pytest.fixture(scope="module", params=["0.1", "2.0", "2.1", "2.2"])
def figures(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of three fragments with deleted rows, and columns that have several buffers or none."""
    uri = str(tmp_path_factory.mktemp("figures") / "t.lance")
    rows = range(5000)
    table = pa.table(
        {
            "a": rows,
            "s": [f"text {row}" for row in rows],
            "st": [{"x": row, "y": None if row % 3 else str(row)} for row in rows],
            "l": [[row] * (row % 3) for row in rows],
            "d": pa.array(["a", "b"] * 2500).dictionary_encode(),
        }
    )
    version = "legacy" if request.param == "0.1" else request.param
    lance.write_dataset(table, uri, max_rows_per_file=2000, data_storage_version=version).delete("a < 10")
    return uri


def test_dataset_statistics_equal_those_of_pylance(figures: str) -> None:
    ours, theirs = (module.dataset(figures).stats for module in (lance_core, lance))
    for limit in (0, 999, 1000, 1001, 1990, 1991, 2000, 2001):
        assert ours.dataset_stats(max_rows_per_group=limit) == theirs.dataset_stats(max_rows_per_group=limit)
    assert ours.dataset_stats() == theirs.dataset_stats()
    mine, other = ours.data_stats(), theirs.data_stats()
    assert [(each.id, each.bytes_on_disk) for each in mine.fields] == [
        (each.id, each.bytes_on_disk) for each in other.fields
    ]
    assert isinstance(mine, lance_core.DataStatistics)


def test_missing_index_is_named_in_the_error_of_its_statistics(figures: str) -> None:
    with pytest.raises(IndexNotFoundError, match="nope"):
        lance_core.dataset(figures).stats.index_stats("nope")


def test_statistics_of_an_existing_index_are_not_supported(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": range(100)}), uri).create_scalar_index("a", "BTREE", name="by_a")
    with pytest.raises(NotImplementedError, match="describe_indices"):
        lance_core.dataset(uri).stats.index_stats("by_a")


def test_datasets_and_scanners_of_pylance_and_arrow_can_be_written(tmp_path: Path) -> None:
    rows = pa.table({"a": range(10), "s": [str(row) for row in range(10)]})
    uri = str(tmp_path / "t")
    lance.write_dataset(rows, uri, max_rows_per_file=4)
    ours, theirs, arrows = lance_core.dataset(uri), lance.dataset(uri), pyarrow.dataset.dataset(rows)
    view = ours.filter(pc.field("a") >= 0)
    sources = [ours, theirs, arrows, view, *(each.scanner() for each in (ours, theirs, arrows, view))]
    for index, source in enumerate(sources):
        copy = lance_core.write_dataset(source, str(tmp_path / f"copy {index}"))
        assert copy.to_table().equals(rows)
    assert lance.write_dataset(ours.scanner(), str(tmp_path / "theirs")).to_table().equals(rows)
    # A dataset that pylance scans through Arrow is refused instead of crashing the process.
    with pytest.raises(NotImplementedError, match="use the dataset's scanner"):
        lance.write_dataset(ours, str(tmp_path / "refused"))
