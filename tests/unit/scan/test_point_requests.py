"""What a take of one row asks of its store, cold and warm: pinned for each format version and kind of column."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lance_core
from lance_core.io import local_store
from tests.support.fault_proxy import FaultProxy, fault_proxy
from tests.support.point_requests import VERSIONS, columns, field, measured, stores, table
from tests.support.s3_servers import S3Server

PAGE = Path(__file__).parents[3] / "docs" / "benchmarks.md"

MOST_WARM = {("0.1", "struct with a string"): 2, ("2.0", "struct with a string"): 2}
"""The bytes of a string are read after its offsets, which are kept. The first step reads the numbers beside it."""

MOST_COLD = {
    ("0.1", "string"): 4,
    ("0.1", "string, 50 distinct"): 4,
    ("0.1", "binary of 4 KiB"): 4,
    ("0.1", "list of int64"): 4,
    ("0.1", "list of strings"): 5,
    ("0.1", "struct with a string"): 4,
    ("2.0", "list of strings"): 4,
}
"""Tables of 0.1 do not record the sizes of files. In 0.1 and 2.0, lists and strings each have offsets to read first."""

CASES = [(version, kind) for version in VERSIONS for kind in columns() if stores(version, kind)]


@pytest.mark.parametrize(("version", "kind"), CASES)
def test_a_warm_take_reads_the_row_with_one_request_and_a_cold_one_with_at_most_three(version: str, kind: str) -> None:
    cold, warm = measured(version, kind)
    num_leaves = len(field(version, kind, columns()[kind]).type) if kind.startswith("struct") else 1
    assert warm.steps <= MOST_WARM.get((version, kind), 1)
    assert warm.requests <= num_leaves
    assert cold.steps <= MOST_COLD.get((version, kind), 3)
    # A chunk of some kilobytes, or the bytes of the row itself.
    assert warm.num_bytes <= 9_000 * num_leaves


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
def test_warm_take_of_a_local_dataset_maps_its_file_and_reads_nothing_else(
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


@pytest.mark.parametrize(
    ("version", "most_cold", "warm"), [("0.1", 11, 4), ("2.0", 9, 4), ("2.1", 9, 4), ("2.2", 9, 4)]
)
def test_warm_take_of_four_columns_on_s3_sends_one_request_for_each_column(
    server: S3Server, proxy: FaultProxy, version: str, most_cold: int, warm: int
) -> None:
    uri = server.uri()
    lance_core.write_dataset(_rows(), uri, data_storage_version=version, storage_options=server.options())
    dataset = lance_core.dataset(uri, storage_options=server.options(aws_endpoint=proxy.endpoint))
    assert _counted(dataset, 17_000, lambda: len(proxy.requests)) <= most_cold
    assert _counted(dataset, 17_007, lambda: len(proxy.requests)) == 4
