"""Data files that replace other files: both implementations create the same fragments."""

import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import LanceError

ROWS = pa.table({"a": [1, 2, 3], "b": [4, 5, 6], "c": [7, 8, 9]})


def _no_change(uri: str) -> None:
    pass


def _drop_b(uri: str) -> None:
    lance.dataset(uri).drop_columns(["b"])


def _add_d(uri: str) -> None:
    lance.dataset(uri).add_columns({"d": "a + 1"})


def _add_nulls(uri: str) -> None:
    lance.dataset(uri).add_columns(pa.field("n", pa.int64()))


def _replace_a(uri: str) -> None:
    _replace(lance, uri, {"a": [0, 0, 0]}, [0])


def _replace(library: ModuleType, uri: str, columns: dict[str, list[int]], field_ids: list[int]) -> None:
    side = f"{uri}-side-{len(list(Path(uri, '_versions').iterdir()))}"
    lance.write_dataset(pa.table(columns), side)
    file = library.dataset(side).get_fragments()[0].metadata.files[0]
    shutil.copy(f"{side}/data/{file.path}", f"{uri}/data/{file.path}")
    file.fields, file.column_indices = field_ids, list(range(len(field_ids)))
    group = library.LanceOperation.DataReplacementGroup(0, file)
    library.LanceDataset.commit(
        uri, library.LanceOperation.DataReplacement([group]), read_version=lance.dataset(uri).version
    )


def _state(uri: str) -> Any:
    dataset = lance.dataset(uri)
    assert lance_core.dataset(uri).to_table() == dataset.to_table()
    lance_core.dataset(uri).validate()
    (fragment,) = dataset.get_fragments()
    files = [(file.fields, file.column_indices) for file in fragment.metadata.files]
    bitmaps = {index["name"]: sorted(index["fragment_ids"]) for index in dataset.list_indices()}
    return dataset.to_table().to_pydict(), files, bitmaps


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize(
    ("before", "columns", "field_ids"),
    [
        (_no_change, {"a": [7, 7, 7]}, [0]),
        (_no_change, {"b": [8, 8, 8], "a": [7, 7, 7]}, [1, 0]),
        (_no_change, {"a": [7, 7, 7], "b": [8, 8, 8], "c": [9, 9, 9]}, [0, 1, 2]),
        (_no_change, {"c": [9, 9, 9], "b": [8, 8, 8], "a": [7, 7, 7]}, [2, 1, 0]),
        (_drop_b, {"a": [7, 7, 7], "b": [8, 8, 8], "c": [9, 9, 9]}, [0, 1, 2]),
        (_drop_b, {"a": [7, 7, 7], "c": [9, 9, 9]}, [0, 2]),
        (_drop_b, {"a": [7, 7, 7]}, [0]),
        (_add_d, {"a": [7, 7, 7], "d": [8, 8, 8]}, [0, 3]),
        (_add_d, {"a": [7, 7, 7]}, [0]),
        (_add_d, {"d": [7, 7, 7]}, [3]),
        (_add_nulls, {"n": [7, 7, 7]}, [3]),
        (_replace_a, {"b": [8, 8, 8], "c": [9, 9, 9]}, [1, 2]),
    ],
)
@pytest.mark.sampled(8)
def test_data_replacements_of_lance_core_and_pylance_make_equal_fragments(
    tmp_path: Path,
    before: Callable[[str], None],
    columns: dict[str, list[int]],
    field_ids: list[int],
    stable: bool,
) -> None:
    states = []
    for library in (lance, lance_core):
        uri = str(tmp_path / library.__name__)
        lance.write_dataset(ROWS, uri, enable_stable_row_ids=stable)
        lance.dataset(uri).create_scalar_index("a", "BTREE")
        lance.dataset(uri).create_scalar_index("c", "BITMAP")
        before(uri)
        _replace(library, uri, columns, field_ids)
        states.append(_state(uri))
    assert states[0] == states[1]


@pytest.mark.parametrize("library", [lance, lance_core])
@pytest.mark.parametrize("field_ids", [[0, 3], [0, 9]], ids=["one is null", "one is unknown"])
def test_a_data_replacement_of_stored_and_missing_fields_is_refused(
    tmp_path: Path, library: ModuleType, field_ids: list[int]
) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(ROWS, uri)
    _add_nulls(uri)
    with pytest.raises((OSError, LanceError)):
        _replace(library, uri, {"a": [7, 7, 7], "n": [8, 8, 8]}, field_ids)
    assert lance.dataset(uri).version == 2
