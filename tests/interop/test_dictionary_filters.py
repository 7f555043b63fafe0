"""Filters on columns stored with dictionaries or as constants find the same rows as in pylance."""

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.file.field_source import FieldSource
from lance_core.file.structural.fields import StructuralSource

NUM_ROWS = 9_000
PREDICATES = [
    "s = 'value 7'",
    "s like '%alue 1_'",
    "s is null",
    "s is not null and upper(s) <> 'VALUE 3' and k < 6000",
    "big in ('value 1', 'value 2')",
    "bin = X'0102' or s = 'value 5'",
    "same like 'same%'",
    "same = 'other' or nothing is null and k > 8990",
    "s > big",
    "concat(s, same) = 'value 4same for all rows of the file'",
    "d = 'value 8' and s = d",
    "unique = 'row 77'",
]


@pytest.fixture(scope="module", params=["2.0", "2.1", "2.2"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=["lance_core", "pylance"])
def uri(request: pytest.FixtureRequest, version: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    random = np.random.default_rng(5)
    words = pa.array([f"value {number}" for number in range(20)])
    # Different items in the second half, so that dictionaries differ between pages.
    places = random.integers(0, 10, NUM_ROWS) + np.where(np.arange(NUM_ROWS) < NUM_ROWS // 2, 0, 10)
    places = pa.array(places, mask=random.random(NUM_ROWS) < 0.1)
    table = pa.table(
        {
            "k": np.arange(NUM_ROWS),
            "s": words.take(places),
            "big": words.cast(pa.large_string()).take(places),
            "bin": pa.array([b"\x01\x02", b"\x03" * 40, b""]).take(pa.array(random.integers(0, 3, NUM_ROWS))),
            "same": ["same for all rows of the file"] * NUM_ROWS,
            "nothing": pa.nulls(NUM_ROWS, pa.string()),
            "d": pa.DictionaryArray.from_arrays(places.cast(pa.int8()), words),
            "unique": [f"row {row}" for row in range(NUM_ROWS)],
        }
    )
    uri = str(tmp_path_factory.mktemp("dictionaries") / "t")
    write = lance_core.write_dataset if request.param == "lance_core" else lance.write_dataset
    write(table.slice(0, 6_000), uri, data_storage_version=version)
    write(table.slice(6_000, 1_800), uri, mode="append", max_rows_per_file=300)
    write(table.slice(7_800), uri, mode="append")
    lance_core.dataset(uri).delete("k % 10 = 3 or k between 100 and 200")
    return uri


@pytest.mark.parametrize("predicate", PREDICATES)
@pytest.mark.sampled(12)
def test_filters_on_dictionaries_find_the_same_rows_as_pylance(uri: str, predicate: str) -> None:
    ours, theirs = lance_core.dataset(uri), lance.dataset(uri)
    expected = theirs.to_table(filter=predicate)
    found = ours.to_table(filter=predicate)
    assert found.schema.equals(expected.schema)
    assert found.to_pylist() == expected.to_pylist()
    assert ours.count_rows(predicate) == expected.num_rows
    # These columns are read once, and returned as values.
    for columns in (["s"], ["same"], ["unique"], ["d", "s"]):
        if all(name in predicate for name in columns):
            found = ours.to_table(filter=predicate, columns=columns, limit=1000, offset=3)
            assert found.schema.equals(expected.select(columns).schema)
            assert found.to_pylist() == expected.select(columns).slice(3, 1000).to_pylist()


def test_only_columns_with_dictionaries_in_all_pages_are_read_as_dictionaries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repeated = [f"a repeated value {row % 9}" for row in range(NUM_ROWS)]
    table = pa.table({"s": repeated, "u": [f"{row}" for row in range(NUM_ROWS)], "l": [[word] for word in repeated]})
    dataset = lance_core.write_dataset(table, str(tmp_path / "t"), data_storage_version="2.1")
    read_as: dict[str, str] = {}
    original = StructuralSource.as_dictionary

    def as_dictionary(source: StructuralSource) -> FieldSource:
        found = original(source)
        read_as[source.field.name] = found.field.logical_type
        assert original(source) is found
        return found

    monkeypatch.setattr(StructuralSource, "as_dictionary", as_dictionary)
    assert dataset.count_rows("s = 'a repeated value 3' and u <> '3' and l is not null") == NUM_ROWS // 9 - 1
    assert read_as == {"s": "dict:string:int32:false", "u": "string", "l": "list"}
    read_as.clear()
    dataset.to_table(columns=["s", "u"])
    assert read_as == {}
