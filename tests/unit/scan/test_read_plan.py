"""A scan is planned once for all fragments with the same file layout, and a session keeps their files open."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_core.file.session import Session
from lance_core.file.write_config import WriteConfig
from lance_core.io.memory_store import MemoryStore
from lance_core.scan import read_plan
from lance_core.scan.read_plan import ColumnSources
from lance_core.scan.scan_source import ScanSource
from lance_core.scan.scanner import LanceScanner
from lance_core.scan.take import take_rows
from lance_core.schema.convert import schema_from_arrow
from lance_core.table.base_paths import FileLocator
from lance_core.table.fragment import Fragment
from lance_core.versions import LanceFileVersion
from lance_core.write.fragment_writer import NewDataFile
from tests.support.counting_store import CountingStore

ROWS = pa.table({"a": range(600), "s": [{"x": row, "y": f"t{row}"} for row in range(600)]})
SCHEMA = schema_from_arrow(ROWS.schema)
VERSIONS = ["0.1", "2.0", "2.1", "2.2"]


def _fragments(store: CountingStore, version: str, num_fragments: int = 6) -> list[Fragment]:
    """Return the rows in fragments of one file each, all with the same layout."""
    place, config = FileLocator(store, "t").data_place(None), WriteConfig(version=LanceFileVersion(version))
    step = ROWS.num_rows // num_fragments
    fragments = []
    for number in range(num_fragments):
        file = NewDataFile(place, SCHEMA, config)
        file.write(ROWS.slice(number * step, step).combine_chunks().to_batches()[0])
        written = file.finish()
        written.message.id = number
        fragments.append(written)
    return fragments


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The layouts that were planned, in order."""
    calls: list[object] = []
    plan = ColumnSources.plan

    def counted(*arguments: object) -> ColumnSources:
        calls.append(arguments)
        return plan(*arguments)

    monkeypatch.setattr(read_plan.ColumnSources, "plan", staticmethod(counted))
    read_plan.ReadPlan.of.cache_clear()
    return calls


@pytest.mark.parametrize("version", VERSIONS)
def test_scan_of_equal_fragments_is_planned_once(version: str, planned: list[object]) -> None:
    store = CountingStore(MemoryStore())
    source = ScanSource(SCHEMA, _fragments(store, version), FileLocator(store, "t"))
    assert LanceScanner(source).to_table().equals(ROWS)
    assert len(planned) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_take_from_equal_fragments_is_planned_once(version: str, planned: list[object]) -> None:
    store = CountingStore(MemoryStore())
    source = ScanSource(SCHEMA, _fragments(store, version), FileLocator(store, "t"))
    rows = np.arange(0, 600, 50)
    assert take_rows(source, rows, ["s.y"]).to_pylist() == [{"s": {"y": f"t{row}"}} for row in rows]
    assert len(planned) == 1


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_scans_of_one_session_open_files_once(version: str) -> None:
    store = CountingStore(MemoryStore())
    fragments, locator = _fragments(store, version), FileLocator(store, "t")
    source = ScanSource(SCHEMA, fragments, locator, session=Session(metadata_cache_size_bytes=1 << 26))
    for columns, condition in ((None, None), (["a"], "a % 2 = 0"), (["s.x"], None)):
        expected = LanceScanner(ScanSource(SCHEMA, fragments, locator), columns=columns, filter=condition).to_table()
        store.reset()
        assert LanceScanner(source, columns=columns, filter=condition).to_table().equals(expected)
    assert take_rows(source, [5, 599], ["a"])["a"].to_pylist() == [5, 599]
    # Rows are read again, but the metadata at the end of the files is not.
    sizes = {file.file_size_bytes for fragment in fragments for file in fragment.message.files}
    assert sizes
    assert 0 not in sizes
    assert all(extent.stop not in sizes for ranges in store.reads for extent in ranges)


@pytest.mark.parametrize("version", VERSIONS)
def test_scans_without_a_session_open_files_again(version: str) -> None:
    store = CountingStore(MemoryStore())
    source = ScanSource(SCHEMA, _fragments(store, version), FileLocator(store, "t"))
    store.reset()
    LanceScanner(source).to_table()
    first = len(store.reads)
    LanceScanner(source).to_table()
    assert len(store.reads) == 2 * first > 0
