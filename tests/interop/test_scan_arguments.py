"""Scan arguments other than columns and filters: the same batches, rows, and errors as in pylance."""

import copy
import pickle
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.dataset import ScannerBuilder as TheirBuilder
from lance.dataset import serialize_row_addrs as their_rows

import lance_core
from lance_core.dataset import ScannerBuilder, serialize_row_addrs

NUM_ROWS = 90

LIMITS = [
    {},
    {"batch_size": 20},
    {"batch_size": 20, "filter": "a > 5"},
    {"batch_size": 20, "strict_batch_size": True},
    {"batch_size": 20, "strict_batch_size": True, "filter": "a > 5"},
    {"batch_size": 7, "strict_batch_size": True, "limit": 31, "offset": 8},
    {"strict_batch_size": True},
    {"strict_batch_size": True, "columns": []},
    {"batch_size_bytes": 0},
    {"batch_size_bytes": 10_000, "batch_size": 7},
    {"io_buffer_size": 0},
    {"batch_readahead": 1, "fragment_readahead": 0, "scan_in_order": False},
    {"late_materialization": True, "filter": "a > 5"},
    {"late_materialization": ["s"], "filter": "a > 5"},
    {"use_scalar_index": False, "fast_search": True, "prefilter": True, "disable_scoring_autoprojection": True},
]
WITH_DELETED = [
    {},
    {"columns": ["a"]},
    {"columns": ["a", "_rowid"]},
    {"columns": ["a"], "with_row_address": True},
    {"columns": ["a", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"]},
    {"columns": ["a"], "filter": "a < 25"},
    {"columns": ["a"], "filter": "_rowid is null"},
    {"columns": ["a"], "filter": "_rowaddr = 3"},
    {"columns": ["a"], "limit": 5, "offset": 2},
    {"columns": ["a"], "filter": "a >= 3", "limit": 4, "offset": 1},
    {"columns": ["s"], "batch_size": 11, "strict_batch_size": True},
]
INVALID = [
    {"batch_size_bytes": 100, "strict_batch_size": True},
    {"include_deleted_rows": True},
    {"include_deleted_rows": True, "with_row_address": True},
    {"batch_readahead": 0},
    {"batch_readahead": -1},
    {"fragment_readahead": -1},
    {"late_materialization": 3},
    {"late_materialization": [3]},
    {"limit": -1},
    {"offset": -1},
    {"blob_handling": "nope"},
    {"fragments": [3]},
]
DEFAULTS: list[dict[str, Any] | None] = [
    None,
    {},
    {"with_row_id": True},
    {"with_row_address": True, "batch_size": 7},
    {"columns": ["s"]},
    {"filter": "a > 70", "limit": 3},
]


@pytest.fixture(scope="module", params=[False, True], ids=["addresses", "stable ids"])
def uri(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of ninety rows in four fragments; every tenth row is deleted."""
    uri = str(tmp_path_factory.mktemp("scan") / "table.lance")
    table = pa.table({"a": np.arange(100), "s": [f"text {row % 7}" for row in range(100)]})
    dataset = lance.write_dataset(table, uri, max_rows_per_file=30, enable_stable_row_ids=request.param)
    dataset.delete("a % 10 = 3")
    return uri


def _sizes(dataset: Any, arguments: dict[str, Any]) -> list[int]:
    return [batch.num_rows for batch in dataset.scanner(**arguments).to_batches()]


@pytest.mark.parametrize("arguments", LIMITS, ids=str)
def test_scan_returns_the_same_rows_as_pylance_regardless_of_batch_limits(uri: str, arguments: dict[str, Any]) -> None:
    ours, theirs = lance_core.dataset(uri), lance.dataset(uri)
    assert ours.scanner(**arguments).to_table().to_pylist() == theirs.scanner(**arguments).to_table().to_pylist()
    if arguments.get("strict_batch_size") or arguments.get("batch_size_bytes") == 0:
        assert _sizes(ours, arguments) == _sizes(theirs, arguments)


def test_batches_exceed_the_byte_limit_only_if_they_have_one_row(uri: str) -> None:
    dataset = lance_core.dataset(uri)
    batches = list(dataset.to_batches(batch_size_bytes=200))
    assert max(batch.nbytes for batch in batches) <= 200
    assert len(batches) < NUM_ROWS / 3
    assert pa.Table.from_batches(batches).equals(dataset.to_table())


def test_table_has_a_chunk_per_decoded_page_unless_a_batch_size_is_requested(tmp_path: Path) -> None:
    written = pa.table({"a": range(20_000), "b": [f"{each}" for each in range(20_000)]})
    dataset = lance_core.write_dataset(written, tmp_path / "table")
    assert [batch.num_rows for batch in dataset.to_batches()] == [8192, 8192, 3616]
    assert [batch.num_rows for batch in dataset.to_table().to_batches()] == [20_000]
    assert [batch.num_rows for batch in dataset.to_table(batch_size=8000).to_batches()] == [8000, 8000, 4000]
    assert dataset.to_table().equals(written)


@pytest.mark.parametrize("arguments", WITH_DELETED, ids=str)
@pytest.mark.parametrize("of_fragment", [False, True], ids=["dataset", "fragment"])
def test_deleted_rows_are_returned_as_in_pylance(uri: str, arguments: dict[str, Any], of_fragment: bool) -> None:
    arguments = {"with_row_id": True, "include_deleted_rows": True, **arguments}
    ours, theirs = (
        (module.dataset(uri).get_fragment(1) if of_fragment else module.dataset(uri)).scanner(**arguments)
        for module in (lance_core, lance)
    )
    expected = theirs.to_table()
    found = ours.to_table()
    assert found.schema.equals(expected.schema)
    assert found.to_pylist() == expected.to_pylist()
    assert ours.count_rows() == expected.num_rows


def test_deleted_rows_can_be_selected_by_their_stored_values(uri: str) -> None:
    arguments = {"columns": ["a"], "filter": "a in (3, 4)", "with_row_id": True}
    assert lance_core.dataset(uri).to_table(**arguments)["a"].to_pylist() == [4]
    found = lance_core.dataset(uri).to_table(include_deleted_rows=True, **arguments)
    assert found["a"].to_pylist() == [3, 4]
    assert found["_rowid"].null_count == 1


@pytest.mark.parametrize("arguments", INVALID, ids=str)
def test_invalid_argument_raises_the_same_error_class_as_in_pylance(uri: str, arguments: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)) as theirs:
        lance.dataset(uri).scanner(**arguments).to_table()
    with pytest.raises(theirs.type):
        lance_core.dataset(uri).scanner(**arguments)


SOME_ROWS = [0, 1, 3, 17, 18, (1 << 32) | 2, (1 << 32) | 3, (2 << 32) | 29, 1 << 40]


@pytest.mark.parametrize(
    "masks",
    [
        {"row_addr_allowlist": SOME_ROWS},
        {"row_addr_blocklist": SOME_ROWS},
        {"row_addr_allowlist": SOME_ROWS, "row_addr_blocklist": [1, 17]},
        {"row_addr_allowlist": []},
        {"row_addr_blocklist": []},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"columns": ["s"], "with_row_id": True},
        {"columns": ["a"], "filter": "a > 1"},
        {"columns": ["s"], "filter": "a > 1 and _rowid < 40"},
        {"filter": "false"},
        {"filter": "true", "limit": 3, "offset": 1},
        {"limit": 2, "offset": 1},
    ],
    ids=str,
)
def test_row_ids_given_as_bytes_restrict_a_scan_as_in_pylance(
    uri: str, masks: dict[str, list[int]], arguments: dict[str, Any]
) -> None:
    given = {name: serialize_row_addrs(rows) for name, rows in masks.items()}
    ours, theirs = (module.dataset(uri).scanner(**given, **arguments) for module in (lance_core, lance))
    assert ours.to_table().to_pylist() == theirs.to_table().to_pylist()
    if "limit" not in arguments:
        assert ours.count_rows() == ours.to_table().num_rows


def test_set_of_row_ids_is_serialized_as_in_pylance() -> None:
    for rows in ([], [5], SOME_ROWS, range(100_000), [2**64 - 1]):
        assert serialize_row_addrs(rows) == their_rows(rows)


def test_row_id_set_entry_without_a_bitmap_selects_the_entire_fragment(uri: str) -> None:
    whole = bytes.fromhex("010000000000000000000000")
    ours, theirs = (module.dataset(uri).scanner(row_addr_allowlist=whole).to_table() for module in (lance_core, lance))
    assert ours.equals(theirs)
    assert ours.num_rows > 0


@pytest.mark.parametrize("given", [b"", b"abc", serialize_row_addrs([1, 2])[:-3], [1, 2], b"\1\0\0\0" * 5], ids=str)
def test_bytes_that_are_not_a_set_of_row_ids_raise_value_error(uri: str, given: object) -> None:
    for module in (lance_core, lance):
        with pytest.raises(ValueError, match="allowlist"):
            module.dataset(uri).scanner(row_addr_allowlist=given).to_table()


@pytest.mark.parametrize("defaults", DEFAULTS, ids=str)
def test_default_scan_options_apply_to_scans_as_in_pylance(uri: str, defaults: dict[str, Any] | None) -> None:
    ours, theirs = (module.dataset(uri, default_scan_options=defaults) for module in (lance_core, lance))
    assert ours.schema.equals(theirs.schema)
    for arguments in ({}, {"columns": ["a"]}, {"with_row_id": False, "filter": "a < 50"}, {"limit": 2}):
        assert ours.to_table(**arguments).to_pylist() == theirs.to_table(**arguments).to_pylist()
    assert ours.head(4).to_pylist() == theirs.head(4).to_pylist()
    assert ours.take([1, 5]).schema.equals(theirs.take([1, 5]).schema)
    assert ours.count_rows() == theirs.count_rows() == NUM_ROWS
    assert ours.get_fragment(0).to_table().schema.equals(theirs.get_fragment(0).to_table().schema)
    for twins in zip(_relatives(ours), _relatives(theirs), strict=True):
        mine, other = (twin.to_table() for twin in twins)
        assert mine.schema.equals(other.schema)
        assert mine.to_pylist() == other.to_pylist()


def _relatives(dataset: Any) -> list[Any]:
    return [dataset.checkout_version(1), copy.copy(dataset), pickle.loads(pickle.dumps(dataset))]


def test_opening_a_branch_or_a_version_by_time_keeps_the_default_scan_options(tmp_path: Path) -> None:
    lance_core.write_dataset(pa.table({"a": [1, 2]}), str(tmp_path / "t"))
    options = {"with_row_id": True}
    dataset = lance_core.dataset(str(tmp_path / "t"), default_scan_options=options, asof="2999-01-01")
    assert dataset.schema.names == dataset.create_branch("b").schema.names == ["a", "_rowid"]


def test_read_params_must_be_a_dictionary_and_have_no_effect(uri: str) -> None:
    params = {"cache_repetition_index": False, "validate_on_decode": True}
    for module in (lance_core, lance):
        assert module.dataset(uri, read_params=params).count_rows() == NUM_ROWS
        with pytest.raises(TypeError, match="read_params"):
            module.dataset(uri, read_params=3)


@pytest.mark.parametrize("options", [{"nope": 1}, {"ds": 1}, {"_with": 1}], ids=str)
def test_unknown_default_scan_option_fails_each_scan(uri: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Unknown option"):
        lance_core.dataset(uri, default_scan_options=options).to_table()


def test_methods_and_parameters_of_the_scanner_builder_equal_those_of_pylance(uri: str) -> None:
    ours, theirs = ({name for name in dir(each) if not name.startswith("_")} for each in (ScannerBuilder, TheirBuilder))
    assert ours == theirs


@pytest.mark.parametrize(
    "calls",
    [
        [],
        [("columns", ["a"]), ("filter", "a > 5"), ("limit", 3), ("offset", 2)],
        [("with_row_id",), ("with_row_address",), ("limit", 3)],
        [("filter", {"expr_filter": "a > 5"}), ("batch_size", 4), ("strict_batch_size", True)],
        [("batch_readahead",), ("fragment_readahead",), ("scan_in_order",), ("use_scalar_index",), ("use_stats",)],
        [("limit",), ("offset",), ("columns",), ("with_fragments", None), ("blob_handling", None), ("order_by", None)],
        [("include_deleted_rows", True), ("with_row_id", True)],
    ],
    ids=str,
)
def test_scanner_builder_plans_the_same_scan_as_in_pylance(uri: str, calls: list[tuple[Any, ...]]) -> None:
    tables = []
    for module, kind in ((lance_core, ScannerBuilder), (lance, TheirBuilder)):
        builder = kind(module.dataset(uri))
        for name, *arguments in calls:
            assert getattr(builder, name)(*arguments) is builder
        tables.append(builder.to_scanner().to_table().to_pylist())
    assert tables[0] == tables[1]


def test_scanner_builder_scans_the_given_fragments_in_the_given_order(uri: str) -> None:
    dataset = lance_core.dataset(uri)
    fragments = [dataset.get_fragment(2), dataset.get_fragment(0)]
    rows = ScannerBuilder(dataset).with_fragments(fragments).to_scanner().to_table()
    assert rows.equals(pa.concat_tables([each.to_table() for each in fragments]))
