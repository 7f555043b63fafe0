"""Columns computed by SQL expressions have the same names, types, and values as in pylance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError, InvalidTypeError, NotSupportedError

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table(
    {
        "i": pa.array([3, 1, None, 2, 2], pa.int64()),
        "u": pa.array([1, 2, 3, None, 5], pa.uint64()),
        "f": pa.array([1.5, -0.0, None, float("nan"), 0.0], pa.float32()),
        "Text": pa.array(["a", "B", None, "", "b"]),
        "l": pa.array([[1, 2], [], None, [3], [4]]),
        "st": pa.array(
            [{"x": 1, "y z": "q"}, {"x": None, "y z": None}, None, {"x": 4, "y z": "r"}, {"x": 5, "y z": "s"}]
        ),
        "d": pa.array(["a", "b", None, "b", "a"]).dictionary_encode(),
        "ts": pa.array([1, 2, 3, None, 5], pa.timestamp("us")),
        "vec": pa.array([[1, 2], [3, 4], None, [5, 6], [7, 8]], pa.list_(pa.float32(), 2)),
        "js": pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a":1}', None, "[1]", "2", '"x"'])),
        "uid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"a" * 16] * 5, pa.binary(16))),
    }
)
ROWS = ROWS.append_column(pa.field("req", pa.int64(), nullable=False, metadata={"k": "v"}), pa.array(range(5)))
ROWS = ROWS.append_column(
    pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
    pa.array([b"x", None, b"", b"yy", b"z"], pa.large_binary()),
)

SAME: list[dict[str, str]] = [
    {"a": "i + 1", "b": "lower(`Text`)", "c": "`Text`"},
    {"i": "f", "f": "i"},
    {},
    {"x": "st.x", "st": "st", "yz": "st['y z']", "quoted": "`st`.`x`"},
    {"plain": "req", "sum": "req + 1", "test": "req = 1", "text": "cast(i as string)", "list": "req in (1, 2)"},
    {"one": "1", "half": "2.5", "word": "'a'", "upper": "upper('a')", "i": "i"},
    {"known": "coalesce(i, 0)", "unknown": "nullif(i, 1)", "null": "i is null", "abs": "abs(i)"},
    {"sum": "i + u", "difference": "u - i", "product": "u * i"},
    {"d": "d", "either": "coalesce(d, 'x')", "upper": "upper(d)", "equal": "d = 'a'"},
    {"json": "js", "uuid": "uid", "blob": "blob", "vec": "vec", "first": "vec[1]"},
    {"list": "make_array(i, 1)", "struct": "named_struct('a', i)", "year": "date_trunc('year', ts)"},
    {"floats": "f * 1.1", "zero": "f = 0", "tenth": "f > 0.1", "round": "round(f)", "half": "i / 2"},
    {"id": "_rowid", "address": "_rowaddr", "offset": "_rowoffset", "version": "_row_created_at_version"},
    {"a.b": "i", "": "i", "A": "i", "a": "i", "parentheses": "(i)", "other_case": "I"},
]
BOTH_REFUSE = [
    *("nope", "i +", "", "i = 1.5", "i / 2.0", "sum(i)", "not i", "i and f", "cast(i as varchar)", "1", "now()"),
    *(
        "case when i = 1 then 2 end",
        "(select 1)",
        "i as b",
        "(i, f)",
        "unnest(l)",
        "row_number() over ()",
        "10 / (i - 1)",
    ),
    *("st.nope", "st['nope']", "octet_length(blob)", "10 / (i - 1)"),
]


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("computed") / "t.lance")
    lance.write_dataset(ROWS, path, max_rows_per_file=2, data_storage_version="2.1")
    return path


def _same(ours: pa.Table, theirs: pa.Table) -> None:
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert (ours.num_rows, repr(ours.to_pydict())) == (theirs.num_rows, repr(theirs.to_pydict()))


@pytest.mark.parametrize("columns", SAME, ids=lambda columns: ",".join(columns) or "none")
def test_a_scan_computes_the_columns_that_pylance_computes(uri: str, columns: dict[str, str]) -> None:
    ours, theirs = lance_core.dataset(uri), lance.dataset(uri)
    _same(ours.to_table(columns=columns), theirs.to_table(columns=columns))
    assert ours.scanner(columns=columns).projected_schema == theirs.scanner(columns=columns).projected_schema


@pytest.mark.parametrize("columns", [columns for columns in SAME if columns and "offset" not in columns])
def test_a_take_computes_the_columns_that_pylance_computes(uri: str, columns: dict[str, str]) -> None:
    both = lance_core.dataset(uri), lance.dataset(uri)
    ours, theirs = (dataset.take([3, 0, 4, 0], columns=columns) for dataset in both)
    assert ours.schema.names == theirs.schema.names
    assert repr(ours.to_pydict()) == repr(theirs.to_pydict())


@pytest.mark.parametrize(
    "arguments",
    [
        {"filter": "i > 1", "limit": 1, "offset": 1},
        {"filter": "`Text` = 'b'"},
        {"limit": 2, "offset": 2, "batch_size": 1},
        {"with_row_id": True},
        {"with_row_id": True, "with_row_address": True},
    ],
)
def test_columns_are_computed_for_the_rows_that_other_arguments_select(uri: str, arguments: dict[str, Any]) -> None:
    columns = {"a": "i + 1", "t": "`Text`"}
    _same(
        lance_core.dataset(uri).to_table(columns=columns, **arguments),
        lance.dataset(uri).to_table(columns=columns, **arguments),
    )


def test_a_computed_column_named_rowid_replaces_the_row_id_column(uri: str) -> None:
    arguments: dict[str, Any] = {"columns": {"_rowid": "i"}, "with_row_id": True}
    _same(lance_core.dataset(uri).to_table(**arguments), lance.dataset(uri).to_table(**arguments))


def test_columns_are_computed_in_head_and_slice_calls_takes_by_row_id_and_fragment_reads(uri: str) -> None:
    ours, theirs = lance_core.dataset(uri), lance.dataset(uri)
    columns = {"a": "i + 1", "id": "_rowid"}
    _same(ours.head(2, columns=columns), theirs.head(2, columns=columns))
    _same(ours.slice(1, 4, columns=columns), theirs.slice(1, 4, columns=columns))
    _same(ours._take_rows([1 << 32, 0], columns=columns), theirs._take_rows([1 << 32, 0], columns=columns))
    fragments = ours.get_fragments()[1], theirs.get_fragments()[1]
    _same(*(fragment.to_table(columns=columns) for fragment in fragments))
    assert fragments[0].take([1, 0], columns={"a": "i * 10"}).to_pydict() == {"a": [20, None]}


def test_blob_handling_all_binary_returns_the_values_of_a_renamed_blob_column(uri: str) -> None:
    arguments: dict[str, Any] = {"columns": {"value": "blob"}, "blob_handling": "all_binary"}
    _same(lance_core.dataset(uri).to_table(**arguments), lance.dataset(uri).to_table(**arguments))


def test_expressions_use_row_ids_and_descriptors_of_blobs(uri: str) -> None:
    found = lance_core.dataset(uri).to_table(columns={"next": "_rowid + 1", "bytes": "blob.size"})
    assert found.to_pydict() == {
        "next": [1, 2, (1 << 32) + 1, (1 << 32) + 2, (2 << 32) + 1],
        "bytes": [1, None, 0, 2, 1],
    }


@pytest.mark.parametrize("text", BOTH_REFUSE)
def test_an_expression_that_pylance_refuses_is_refused(uri: str, text: str) -> None:
    with pytest.raises((ValueError, OSError, pa.ArrowException)):
        lance.dataset(uri).to_table(columns={"a": text})
    with pytest.raises((InvalidInputError, NotSupportedError)):
        lance_core.dataset(uri).to_table(columns={"a": text})


@pytest.mark.parametrize("columns", [{"a": 5}, {5: "i"}, {"a": None}])
def test_names_and_expressions_that_are_not_strings_are_refused(uri: str, columns: Any) -> None:
    with pytest.raises(InvalidTypeError, match="columns must map names to SQL expressions"):
        lance_core.dataset(uri).to_table(columns=columns)


@pytest.mark.parametrize(
    "columns",
    [
        {"n": "json_get_int(js, 'a')", "text": "js", "i": "i"},
        {"document": "json_get(js, 'a')"},
        {"same": "coalesce(js, js)"},
        {"missing": "js is null", "found": "json_exists(js, '$.a')"},
    ],
)
def test_expressions_use_json_as_in_pylance(uri: str, columns: dict[str, str]) -> None:
    ours, theirs = lance_core.dataset(uri), lance.dataset(uri)
    _same(ours.to_table(columns=columns), theirs.to_table(columns=columns))
    _same(ours.take([2, 0], columns=columns), theirs.take([2, 0], columns=columns))


def test_a_json_member_of_a_struct_can_be_used_in_expressions(tmp_path: Path) -> None:
    documents = pa.array(['{"a": 1}', None, '{"a": 3}'], pa.json_())
    structs = pa.StructArray.from_arrays([documents, pa.array([1, 2, 3])], ["document", "x"])
    lance.write_dataset(pa.table({"s": structs}), tmp_path / "t.lance")
    columns = {"n": "json_get_int(s.document, 'a') + s.x", "s": "s", "document": "s.document"}
    ours, theirs = (library.dataset(tmp_path / "t.lance").to_table(columns=columns) for library in (lance_core, lance))
    _same(ours, theirs)
    assert ours["n"].to_pylist() == [2, None, 6]


def test_json_values_can_be_added_as_columns(tmp_path: Path) -> None:
    documents = pa.array(['{"a": 1}', None, '{"a": 3}'], pa.json_())
    for library in (lance_core, lance):
        dataset = library.write_dataset(pa.table({"j": documents}), tmp_path / library.__name__)
        dataset.add_columns({"a": "json_get_int(j, 'a')", "document": "json_get(j, 'a')"})
    ours, theirs = (lance.dataset(tmp_path / name).to_table() for name in ("lance_core", "lance"))
    _same(ours, theirs)


def test_expressions_read_only_the_columns_that_they_use(tmp_path: Path) -> None:
    rows = pa.table({"k": range(1000), "wide": pa.array(np.zeros((1000, 64), np.float32).tolist())})
    dataset = lance_core.write_dataset(rows, tmp_path / "t.lance")
    before = dataset.scanner(columns={"next": "k + 1"})
    assert before._projection.wanted.names == ["k"]
    assert before.to_table()["next"].to_pylist() == list(range(1, 1001))
