"""Rows whose structs lack members, or have members in another order: appended by one library, read by both."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import SchemaMismatchError

FULL = pa.struct([("x", pa.int64()), ("y", pa.string())])
ONLY_X = pa.struct([("x", pa.int64())])
ONLY_Y = pa.struct([("y", pa.string())])
SWAPPED = pa.struct([("y", pa.string()), ("x", pa.int64())])
ROW = {"x": 1, "y": "a"}


def _in_struct(inner: pa.DataType) -> pa.DataType:
    return pa.struct([("t", inner), ("u", pa.int64())])


def _only_t(inner: pa.DataType) -> pa.DataType:
    return pa.struct([("t", inner)])


CASES = {
    "struct": (FULL, [ROW], ONLY_X, [{"x": 2}, None, {"x": None}]),
    "order": (FULL, [ROW], SWAPPED, [{"x": 2, "y": "b"}, None]),
    "list": (pa.list_(FULL), [[ROW]], pa.list_(ONLY_X), [[{"x": 2}, None], None, [], [{"x": 3}]]),
    "list, first member": (pa.list_(FULL), [[ROW]], pa.list_(ONLY_Y), [[{"y": "b"}], [], None, [None, {"y": None}]]),
    "list, order": (pa.list_(FULL), [[ROW]], pa.list_(SWAPPED), [[{"x": 2, "y": "b"}, None], None]),
    "map, order": (
        pa.map_(pa.string(), FULL),
        [[("k", ROW)]],
        pa.map_(pa.string(), SWAPPED),
        [[("k", {"x": 2, "y": "b"})], None, []],
    ),
    "struct in struct": (
        _in_struct(FULL),
        [{"t": ROW, "u": 1}],
        _only_t(ONLY_Y),
        [{"t": {"y": "b"}}, {"t": None}, None],
    ),
    "list in struct": (
        _in_struct(pa.list_(FULL)),
        [{"t": [ROW], "u": 1}],
        _only_t(pa.list_(ONLY_Y)),
        [{"t": [{"y": "b"}]}, {"t": []}, {"t": None}, None],
    ),
    "list in list": (
        pa.list_(pa.list_(FULL)),
        [[[ROW]]],
        pa.list_(pa.list_(ONLY_Y)),
        [[[{"y": "b"}], None, []], None, [], [[{"y": "c"}, None]]],
    ),
    "list below a list's struct": (
        pa.list_(_in_struct(pa.list_(FULL))),
        [[{"t": [ROW], "u": 1}]],
        pa.list_(_only_t(pa.list_(ONLY_Y))),
        [[{"t": [{"y": "b"}, {"y": "c"}]}, {"t": []}, {"t": None}, None], None],
    ),
    "without the list": (
        pa.list_(pa.struct([("k", pa.list_(FULL)), ("v", pa.int64())])),
        [[{"k": [ROW], "v": 1}]],
        pa.list_(pa.struct([("v", pa.int64())])),
        [[{"v": 2}, None], None],
    ),
}


def _filled(value: object, dtype: pa.DataType) -> object:
    """Return the value that must be read for an appended value."""
    if value is None:
        return None
    if pa.types.is_struct(dtype):
        return {member.name: _filled(value.get(member.name), member.type) for member in dtype}
    if pa.types.is_map(dtype):
        return [(key, _filled(item, dtype.item_type)) for key, item in value]
    if pa.types.is_list(dtype):
        return [_filled(item, dtype.value_type) for item in value]
    return value


@pytest.mark.parametrize("writer", [lance, lance_core], ids=["pylance", "lance_core"])
@pytest.mark.parametrize("case", CASES)
def test_missing_struct_members_read_as_null_in_any_order(tmp_path: Path, case: str, writer: object) -> None:
    dtype, first, appended_type, appended = CASES[case]
    place = str(tmp_path / "t")
    rows = pa.table({"c": pa.array(appended * 2, appended_type)})
    if writer is lance_core:
        # A slice, whose outside values must be ignored. pylance 14.0.2 cannot read its own result for a slice.
        rows = pa.table({"c": pa.array([appended[-1], *appended * 2], appended_type)}).slice(1)
    writer.write_dataset(pa.table({"c": pa.array(first, dtype)}), place)
    writer.write_dataset(rows, place, mode="append")
    expected = pa.table({"c": pa.array([*first, *(_filled(value, dtype) for value in appended * 2)], dtype)})
    ours = lance_core.dataset(place)
    ours.validate()
    lance.dataset(place).validate()
    for dataset in (ours, lance.dataset(place)):
        found = dataset.to_table()
        assert found.schema.equals(expected.schema)
        assert found.to_pylist() == expected.to_pylist()
    assert ours.to_table(offset=2, limit=3, batch_size=2).to_pylist() == expected.slice(2, 3).to_pylist()
    positions = [3, 1, 3, 0]
    assert ours.take(positions).to_pylist() == expected.take(positions).to_pylist()


@pytest.mark.parametrize("wrap", [pa.large_list, lambda inner: pa.list_(inner, 2)], ids=["large", "fixed"])
def test_structs_in_containers_that_pylance_refuses_are_filled_with_nulls(tmp_path: Path, wrap: object) -> None:
    place = str(tmp_path / "t")
    lance_core.write_dataset(pa.table({"c": pa.array([[ROW, ROW]], wrap(FULL))}), place)
    rows = pa.array([None, [{"y": "b"}, None], [{"y": "c"}, {"y": "d"}]], wrap(ONLY_Y)).slice(1)
    lance_core.write_dataset(pa.table({"c": rows}), place, mode="append")
    expected = [[ROW, ROW], [{"x": None, "y": "b"}, None], [{"x": None, "y": "c"}, {"x": None, "y": "d"}]]
    for dataset in (lance_core.dataset(place), lance.dataset(place)):
        assert dataset.to_table()["c"].to_pylist() == expected


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (pa.struct([("x", pa.int64()), ("z", pa.int64())]), {"x": 1, "z": 1}),
        (pa.struct([("y", pa.string())]), {"y": "a"}),
        (pa.struct([("x", pa.int32())]), {"x": 1}),
        (pa.struct([]), {}),
    ],
    ids=["unknown", "required one missing", "type", "none"],
)
def test_struct_members_that_do_not_fit_are_refused_by_both_libraries(
    tmp_path: Path, dtype: pa.DataType, value: object
) -> None:
    required = pa.struct([pa.field("x", pa.int64(), nullable=False), ("y", pa.string())])
    rows = pa.table({"c": pa.array([value], dtype)})
    for number, library in enumerate((lance, lance_core)):
        place = str(tmp_path / str(number))
        library.write_dataset(pa.table({"c": pa.array([ROW], required)}), place)
        with pytest.raises(OSError) as caught:  # noqa: PT011  # the reference has no narrower class
            library.write_dataset(rows, place, mode="append")
    assert type(caught.value) is SchemaMismatchError


def test_taking_only_a_missing_struct_member_keeps_the_nulls_of_its_parents(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    full = pa.schema([("s", _in_struct(FULL)), ("l", pa.list_(FULL))])
    some = pa.schema([("s", _only_t(ONLY_X)), ("l", pa.list_(ONLY_X))])
    lance.write_dataset(pa.table({"s": [{"t": ROW, "u": 1}], "l": [[ROW]]}, schema=full), place)
    rows = {"s": [{"t": {"x": 2}}, {"t": None}, None], "l": [[{"x": 2}, None], None, []]}
    lance.write_dataset(pa.table(rows, schema=some), place, mode="append")
    for columns in (["s.t.y"], ["s.u"], ["l.item.y"], ["s.u", "l.item.y", "s.t.y"]):
        expected = lance.dataset(place).take([0, 1, 2, 3], columns=columns).to_pylist()
        assert lance_core.dataset(place).take([0, 1, 2, 3], columns=columns).to_pylist() == expected
