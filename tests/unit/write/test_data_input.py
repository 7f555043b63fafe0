"""Which types of data the writing functions accept."""

import pyarrow as pa
import pytest

from lance_core.errors import InvalidInputError, SchemaMismatchError
from lance_core.write.data_input import to_reader

TABLE = pa.table({"a": [1, 2, 3], "b": ["x", "y", None]})
BATCHES = TABLE.to_batches(max_chunksize=2)


class _Stream:
    def __arrow_c_stream__(self, requested_schema=None):
        return TABLE.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "data",
    [
        TABLE,
        TABLE.to_reader(),
        TABLE.to_pydict(),
        TABLE.to_pylist(),
        BATCHES,
        iter(BATCHES),
        (batch for batch in BATCHES),
        _Stream(),
    ],
    ids=["table", "reader", "columns", "rows", "batches", "iterator", "generator", "stream"],
)
def test_data_of_every_supported_kind_becomes_a_reader(data: object) -> None:
    assert to_reader(data).read_all().combine_chunks().equals(TABLE.combine_chunks())


def test_single_batches_and_dataframes_become_readers() -> None:
    assert to_reader(BATCHES[0]).read_all().equals(pa.Table.from_batches(BATCHES[:1]))
    pandas = pytest.importorskip("pandas")
    assert to_reader(pandas.DataFrame({"a": [1, 2]})).read_all().column("a").to_pylist() == [1, 2]


def test_python_values_are_converted_to_the_given_schema() -> None:
    schema = pa.schema([("a", pa.int32())])
    assert to_reader([{"a": 1}], schema).schema == schema
    assert to_reader({"a": [1]}, schema).schema == schema
    with pytest.raises(InvalidInputError, match="cannot be converted"):
        to_reader([{"a": "x"}], schema)


def test_batches_are_cast_to_the_given_schema_or_refused() -> None:
    schema = pa.schema([("a", pa.int32()), ("b", pa.large_string())])
    assert to_reader(BATCHES, schema).read_all().schema == schema
    with pytest.raises(SchemaMismatchError, match="expected schema"):
        to_reader(BATCHES, pa.schema([("z", pa.int32())])).read_all()


def test_empty_batch_iterator_requires_a_schema() -> None:
    with pytest.raises(InvalidInputError, match="no schema"):
        to_reader(iter([]))
    assert to_reader([], TABLE.schema).read_all().num_rows == 0


@pytest.mark.parametrize("data", [1, None, "text", b"bytes", [1, 2], [TABLE]])
def test_unsupported_data_raises_a_type_error(data: object) -> None:
    with pytest.raises(TypeError):
        to_reader(data)


def test_batch_iterators_are_consumed_lazily() -> None:
    taken = []

    def batches():
        for index in range(5):
            taken.append(index)
            yield BATCHES[0]

    reader = to_reader(batches())
    assert taken == [0]
    reader.read_next_batch()
    assert len(taken) <= 2
