"""Levels of nested values: the examples of the format notes, in both directions, and the underlying rules."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_core.encodings.api import FixedWidthBlock
from lance_core.encodings.leaf_page import LeafPage
from lance_core.encodings.levels.build import ItemSlots, Levels, ListSlots, shred
from lance_core.encodings.levels.layers import Layers
from lance_core.encodings.levels.nesting import leaves_of
from lance_core.encodings.levels.unravel import Unraveler
from lance_core.encodings.page_decoder import assemble
from lance_core.errors import CorruptDataError, NotSupportedError, SchemaMismatchError
from lance_core.schema.convert import schema_from_arrow

# Layer codes, leaf first: valid item 1, valid list 2, nullable item 3, nullable list 4, list with empties 5, both 6.
VI, VL, NI, NL, EL, NEL = 1, 2, 3, 4, 5, 6

I32 = pa.int32()
ITEM = pa.struct([("a", I32)])

EXAMPLES = [
    (I32, [1, None, 3], (NI,), None, [0, 1, 0]),
    (pa.list_(I32), [[1, 2], [3]], (VI, VL), [1, 0, 1], None),
    (pa.list_(I32), [[1, 2], None, [], [3, None]], (NI, NEL), [1, 0, 1, 1, 1, 0], [0, 0, 2, 3, 0, 1]),
    (
        pa.list_(pa.list_(I32)),
        [[[1, 2], [3]], [], None, [[], None, [4]]],
        (VI, NEL, NEL),
        [2, 0, 1, 2, 2, 2, 1, 1],
        [0, 0, 0, 4, 3, 2, 1, 0],
    ),
    (ITEM, [{"a": 1}, None, {"a": None}], (NI, NI), None, [0, 2, 1]),
    (
        pa.struct([("b", pa.struct([("c", I32)]))]),
        [{"b": {"c": None}}, None, {"b": None}, {"b": {"c": 5}}],
        (NI, NI, NI),
        None,
        [1, 3, 2, 0],
    ),
    (pa.list_(ITEM), [[{"a": 1}, None], None, [], [{"a": None}]], (NI, NI, NEL), [1, 0, 1, 1, 1], [0, 2, 3, 4, 1]),
    (
        pa.struct([("a", pa.list_(I32))]),
        [{"a": [1]}, None, {"a": None}, {"a": []}, {"a": [None, 2]}],
        (NI, NEL, NI),
        [1, 1, 1, 1, 1, 0],
        [0, 4, 2, 3, 1, 0],
    ),
    (
        pa.list_(pa.struct([("x", pa.list_(I32))])),
        [[{"x": [1, 2]}, {"x": []}], [], [{"x": None}, None, {"x": [None]}]],
        (NI, NEL, NI, EL),
        [2, 0, 1, 2, 2, 1, 1],
        [0, 0, 3, 5, 2, 4, 1],
    ),
    (
        pa.list_(pa.struct([("p", I32)]), 2),
        [[{"p": 1}, {"p": 2}], None, [{"p": 3}, None]],
        (NI, NI, NI),
        None,
        [0, 0, 3, 3, 0, 2],
    ),
]


def _field(dtype, *, nullable=True):
    return schema_from_arrow(pa.schema([pa.field("c", dtype, nullable=nullable)])).fields[0]


def _leaves(dtype, values, **options):
    array = values if isinstance(values, pa.Array) else pa.array(values, dtype)
    return leaves_of(_field(dtype), array, **{"keep_nullable": False, **options})


def _listed(levels):
    return None if levels is None else levels.tolist()


def _assembled(dtype, leaves):
    pages = []
    for leaf in leaves:
        data = np.frombuffer(leaf.array.buffers()[1] or b"", np.int32)
        data = np.resize(data, leaf.array.offset + len(leaf.array))[leaf.array.offset :]
        block = FixedWidthBlock(len(leaf.array), 32, data.view(np.uint8))
        pages.append(LeafPage(leaf.field, shred(leaf.slots), block, leaf.num_page_rows))
    return assemble(_field(dtype), pages)


@pytest.mark.parametrize(("dtype", "values", "layers", "repetition", "definition"), EXAMPLES)
def test_level_examples_are_shredded_and_assembled(dtype, values, layers, repetition, definition):
    leaves = _leaves(dtype, values)
    levels = shred(leaves[0].slots)
    assert levels.layers.codes == layers
    assert _listed(levels.repetition) == repetition
    assert _listed(levels.definition) == definition
    assert _assembled(dtype, leaves).to_pylist() == values


def test_levels_of_a_map_equal_those_of_a_list_of_valid_structs():
    dtype = pa.map_(pa.string(), I32)
    key, value = _leaves(dtype, [[("k", 1), ("m", None)], None, []])
    assert shred(key.slots).layers.codes == (VI, VI, NEL)
    assert _listed(shred(key.slots).definition) == [0, 0, 1, 2]
    assert shred(value.slots).layers.codes == (NI, VI, NEL)
    assert _listed(shred(value.slots).definition) == [0, 1, 2, 3]
    assert _listed(shred(value.slots).repetition) == [1, 0, 1, 1]


def test_each_visible_level_has_a_value():
    (leaf,) = _leaves(pa.list_(I32), [[1, 2], None, [], [3, None]])
    assert shred(leaf.slots).visible().tolist() == [True, True, False, False, True, True]
    assert Layers((NI, NEL)).max_visible == 1


def test_levels_have_no_visible_mask_when_all_are_visible():
    (leaf,) = _leaves(pa.list_(I32), [[1, None]])
    assert shred(leaf.slots).visible() is None


def test_levels_of_a_slice_apply_the_offsets_of_every_layer():
    dtype = pa.list_(pa.struct([("x", pa.list_(I32))]))
    values = [[{"x": [i, None]}, None, {"x": [[], None][i % 2]}] if i % 3 else None for i in range(40)]
    sliced = pa.array(values, dtype).slice(7, 20)
    assert _assembled(dtype, _leaves(dtype, sliced)).to_pylist() == values[7:27]


def test_shredding_drops_items_hidden_by_null_lists():
    mask = pa.array([False, True, False])
    hidden = pa.ListArray.from_arrays(pa.array([0, 2, 4, 5], I32), pa.array(range(5), I32), mask=mask)
    (leaf,) = _leaves(pa.list_(I32), hidden)
    assert leaf.array.to_pylist() == [0, 1, 4]
    assert _assembled(pa.list_(I32), [leaf]).to_pylist() == [[0, 1], None, [4]]


def test_nulls_of_a_struct_apply_to_the_lists_inside_it():
    dtype = pa.struct([("a", pa.list_(I32))])
    lists = pa.array([[1], [2, 3]], pa.list_(I32))
    structs = pa.StructArray.from_arrays([lists], fields=list(dtype), mask=pa.array([False, True]))
    (leaf,) = _leaves(dtype, structs)
    levels = shred(leaf.slots)
    assert levels.layers.codes == (VI, NL, NI)
    assert (_listed(levels.repetition), _listed(levels.definition)) == ([1, 1], [0, 2])


@pytest.mark.parametrize(
    ("dtype", "values", "codes"),
    [
        (pa.struct([("a", pa.list_(I32))]), [{"a": [1]}], (VI, NL, NI)),
        (pa.struct([("a", pa.list_(I32))]), [{"a": []}], (VI, NEL, NI)),
        (pa.list_(pa.struct([("p", I32)]), 1), [[{"p": 1}]], (VI, NI, NI)),
        (pa.struct([("a", I32)]), [{"a": 1}], (VI, VI)),
        (pa.list_(I32), [[1]], (VI, VL)),
    ],
    ids=str,
)
def test_layers_that_may_contain_nulls_later_stay_nullable(dtype, values, codes):
    assert shred(_leaves(dtype, values, keep_nullable=True)[0].slots).layers.codes == codes


def test_layer_of_a_required_struct_is_not_nullable():
    dtype = pa.struct([("a", pa.list_(I32))])
    field = _field(dtype, nullable=False)
    (leaf,) = leaves_of(field, pa.array([{"a": [1]}], dtype), keep_nullable=True)
    assert shred(leaf.slots).layers.codes == (VI, VL, VI)


@pytest.mark.parametrize(
    "dtype",
    [
        pa.list_(pa.list_(ITEM, 2)),
        pa.list_(pa.struct([("f", pa.list_(ITEM, 2))])),
        pa.list_(pa.struct([("x", pa.list_(I32))]), 2),
    ],
    ids=str,
)
def test_nestings_that_pylance_cannot_read_are_refused(dtype):
    with pytest.raises(NotSupportedError, match="cannot be nested in a list, and cannot contain lists or maps"):
        _leaves(dtype, pa.nulls(1, dtype))


@pytest.mark.parametrize(
    "array",
    [pa.nulls(2, pa.struct([])), pa.array([[{}]], pa.list_(pa.struct([]))), pa.array([{"e": {}, "a": 1}])],
    ids=lambda array: str(array.type),
)
def test_null_or_nested_structs_without_members_are_refused(array):
    with pytest.raises(NotSupportedError, match="without fields"):
        _leaves(array.type, array)


def test_array_nested_differently_from_its_field_is_refused():
    with pytest.raises(SchemaMismatchError, match="does not match an array of type"):
        leaves_of(_field(pa.list_(I32)), pa.array([1]), keep_nullable=False)


def test_unraveling_more_layers_than_exist_raises_corrupt_data():
    levels = Levels(Layers((VI, VL)), np.array([1, 0], np.uint16), None, 2)
    unraveler = Unraveler(levels, "field 'c'")
    unraveler.validity()
    with pytest.raises(CorruptDataError, match="do not match the nesting"):
        unraveler.validity()


def test_levels_without_definition_levels_are_all_valid():
    unraveler = Unraveler(Levels(Layers((NI,)), None, None, 3), "field 'c'")
    assert (unraveler.num_slots(), unraveler.validity()) == (3, None)


@pytest.mark.parametrize("codes", [(), (0,), (7,), (VL,), (NEL, VI)])
def test_inconsistent_layers_raise_corrupt_data(codes):
    with pytest.raises(CorruptDataError, match="do not describe a column"):
        Layers.parse(codes, "page")


def test_levels_of_only_empty_lists_need_no_values():
    lengths = np.zeros(3, np.int64)
    levels = shred([ListSlots(None, lengths), ItemSlots(None, 0)])
    assert (_listed(levels.repetition), _listed(levels.definition)) == ([1, 1, 1], [1, 1, 1])
    assert levels.layers.codes == (VI, EL)
