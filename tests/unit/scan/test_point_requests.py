"""The requests that a take of one row sends, with cold and warm caches, for each format version and type of column."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.io import local_store
from lance_core.io.byte_range import coalesce_ranges
from lance_core.io.read_costs import REMOTE_COSTS
from tests.support.fault_proxy import FaultProxy, fault_proxy
from tests.support.point_requests import NUM_ROWS, VERSIONS, columns, field, measured, stores, table, written
from tests.support.s3_servers import S3Server

PAGE = Path(__file__).parents[3] / "docs" / "benchmarks.md"

CASES = [(version, kind) for version in VERSIONS for kind in columns() if stores(version, kind)]


@pytest.mark.parametrize(("version", "kind"), CASES)
def test_a_warm_take_reads_the_row_with_one_request_and_a_cold_one_with_at_most_three(version: str, kind: str) -> None:
    cold, warm = measured(version, kind)
    num_leaves = len(field(version, kind, columns()[kind]).type) if kind.startswith("struct") else 1
    assert warm.steps == 1
    assert warm.requests <= num_leaves
    assert cold.steps <= 3
    # Either a chunk of some kilobytes or the bytes of the row itself.
    assert warm.num_bytes <= 9_000 * num_leaves


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_warm_take_of_a_struct_reads_leaves_that_are_near_each_other_with_one_request(version: str) -> None:
    values = columns()["struct with a string"].slice(0, 1_500)
    with written(version, "struct with a string", pa.concat_arrays([values])) as (store, uri):
        dataset = lance_core.dataset(uri)
        dataset.take([1_000])
        store.reset()
        assert dataset.take([1_007])["c"].to_pylist() == [values[1_007].as_py()]
        [ranges] = store.reads
        assert len(ranges) == 3
        assert len(coalesce_ranges(ranges, max_gap_bytes=REMOTE_COSTS.near_bytes, max_extent_bytes=1 << 24)) == 1


def test_table_of_the_benchmarks_page_is_up_to_date() -> None:
    missing = [line for line in table() if line not in PAGE.read_text().splitlines()]
    assert not missing, "docs/benchmarks.md: run python -m tests.support.point_requests and replace the table"


def _rows() -> pa.Table:
    return pa.table({kind: columns()[kind] for kind in ("int64", "string", "list of strings", "dictionary")})


def _counted(dataset: lance_core.LanceDataset, row: int, count: Callable[[], int]) -> int:
    before = count()
    assert dataset.take([row]).to_pylist() == _rows().slice(row, 1).to_pylist()
    return count() - before


@pytest.mark.parametrize("version", VERSIONS)
def test_warm_take_of_a_local_dataset_only_maps_its_file(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lance_core.write_dataset(_rows(), tmp_path / "t", data_storage_version=version)
    reads: list[str] = []

    def noting(name: str) -> Callable[..., Any]:
        original = getattr(local_store, name)

        def read(*arguments: Any) -> Any:
            reads.append(name)
            return original(*arguments)

        return read

    dataset = lance_core.dataset(tmp_path / "t")
    for name in ("read_whole_file", "read_file_ranges"):
        monkeypatch.setattr(local_store, name, noting(name))
    _counted(dataset, 17_000, lambda: len(reads))
    assert len(reads) <= 3
    reads.clear()
    _counted(dataset, 17_007, lambda: len(reads))
    assert reads == ["read_whole_file"]


@pytest.fixture(scope="module")
def proxy(server: S3Server) -> FaultProxy:
    with fault_proxy(server.endpoint) as running:
        yield running


@pytest.mark.parametrize("version", ["0.1", "2.0"])
def test_strings_in_lists_of_uneven_length_are_found_after_a_wrong_guess_of_their_position(version: str) -> None:
    # Half of the items are in the first thousandth of the rows.
    lengths = np.where(np.arange(NUM_ROWS) < NUM_ROWS // 1000, 1000, 1)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    words = pa.array([f"word {number:08}" for number in range(offsets[-1].as_py())])
    values = pa.ListArray.from_arrays(offsets, words)
    with written(version, "list of strings", values) as (store, uri):
        dataset = lance_core.dataset(uri)
        for row in (0, 40, NUM_ROWS // 2, NUM_ROWS - 1):
            assert dataset.take([row])["c"].to_pylist() == [values[row].as_py()]
        assert max(len(ranges) for ranges in store.reads) > 1


@pytest.mark.parametrize(
    ("version", "most_cold", "warm"), [("0.1", 3, 1), ("2.0", 10, 4), ("2.1", 9, 4), ("2.2", 9, 4)]
)
def test_warm_take_of_four_columns_on_s3_sends_at_most_one_request_for_each_column(
    server: S3Server, proxy: FaultProxy, version: str, most_cold: int, warm: int
) -> None:
    uri = server.uri()
    lance_core.write_dataset(_rows(), uri, data_storage_version=version, storage_options=server.options())
    dataset = lance_core.dataset(uri, storage_options=server.options(aws_endpoint=proxy.endpoint))
    assert _counted(dataset, 17_000, lambda: len(proxy.requests)) <= most_cold
    assert _counted(dataset, 17_007, lambda: len(proxy.requests)) == warm
