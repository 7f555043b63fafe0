"""Fixed-size lists of type null, in every format that supports them, exchanged with pylance 14.0.2."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core

VERSIONS = ["2.0", "2.1", "2.2"]
SOME = pa.array([True, False, True, False])


def lists(num_rows: int, mask: pa.Array | None = None) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.nulls(num_rows * 3), 3, mask=mask)


CASES = {
    "plain": lists(4),
    "null lists": lists(4, SOME),
    "only null lists": lists(4, pa.array([True] * 4)),
    "nested": pa.FixedSizeListArray.from_arrays(lists(8), 2),
    "nested, with nulls": pa.FixedSizeListArray.from_arrays(lists(8, pa.concat_arrays([SOME, SOME])), 2, mask=SOME),
    "in a list": pa.ListArray.from_arrays(pa.array([0, 1, 3, 4, 4], pa.int32()), lists(4, SOME)),
    "in a struct": pa.StructArray.from_arrays([lists(4), pa.array([1, 2, 3, 4])], ["f", "x"]),
    "many": lists(4000, pa.array([row % 7 == 0 for row in range(4000)])),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("writer", [lance, lance_core])
@pytest.mark.sampled(16)
def test_lists_of_nulls_are_read_by_both_libraries(tmp_path: Path, name: str, version: str, writer: object) -> None:
    table = pa.table({"f": CASES[name], "k": range(len(CASES[name]))})
    uri = str(tmp_path / "t")
    writer.write_dataset(table, uri, data_storage_version=version)  # type: ignore[attr-defined]
    rows = table.to_pylist()
    for reader in (lance, lance_core):
        dataset = reader.dataset(uri)
        assert dataset.schema == table.schema
        assert dataset.to_table().to_pylist() == rows
        assert dataset.take([3, 1]).to_pylist() == [rows[3], rows[1]]


def test_lists_of_nulls_are_refused_in_format_0_1(tmp_path: Path) -> None:
    with pytest.raises(lance_core.UnsupportedVersionError, match=r"a fixed-size list of nulls needs .* 2\.0, 2\.1"):
        lance_core.write_dataset(pa.table({"f": CASES["plain"]}), str(tmp_path / "t"), data_storage_version="0.1")
