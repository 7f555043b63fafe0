"""Columns that either library joins to a table, or computes or updates in single fragments."""

import json
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyroaring import BitMap

import lance_core

LIBRARIES = {"pylance": lance, "lance_core": lance_core}
ROWS = pa.table(
    {
        "a": [1, 2, 3, 4, 5],
        "b": ["x", "y", "z", None, "é" * 20],
        "t": pa.array([0, 86_400, None, 7, 8], pa.timestamp("s", "UTC")),
        "f": [0.0, -0.0, float("nan"), 1.5, None],
        "n": pa.array([1, 2, 3, 4, 5], pa.decimal128(20, 2)),
        "w": pa.array([b"12", b"34", b"56", None, b"78"], pa.binary(2)),
        "o": [True, False, None, True, True],
        "s": [{"x": 1, "y": "p"}, {"x": 2, "y": "q"}, {"x": 3, "y": "r"}, {"x": 4, "y": None}, {"x": 5, "y": "u"}],
    }
)


def _with_values(key: str, **values: Any) -> pa.Table:
    """Return rows with some keys of the table, a repeated key, and a key that the table does not have."""
    keys = ROWS[key].take(pa.array([4, 1, 0, 3]))
    return pa.table({key: keys, **values})


JOINS: dict[str, tuple[pa.Table, str, str | None]] = {
    "numbers": (_with_values("a", c=[50, 20, 10, None]), "a", None),
    "text": (_with_values("b", c=["five", "two", "one", "of null"]), "b", None),
    "no key is in the table": (pa.table({"a": [7], "c": [1]}), "a", None),
    "another name": (_with_values("a", c=[50, 20, 10, 40]).rename_columns(["k", "c"]), "a", "k"),
    "timestamps": (_with_values("t", c=[1, 2, 3, 4]), "t", None),
    "floating point": (pa.table({"f": [0.0, float("nan"), 2.5, None], "c": [1, 2, 3, 4]}), "f", None),
    "decimals": (_with_values("n", c=[1, 2, 3, 4]), "n", None),
    "fixed-size binary": (_with_values("w", c=[1, 2, 3, 4]), "w", None),
    "row addresses": (pa.table({"_rowaddr": pa.array([0, 1 << 32], pa.uint64()), "c": [1, 2]}), "_rowaddr", None),
    "row ids": (pa.table({"_rowid": pa.array([0, 1, 1 << 32], pa.uint64()), "c": [1, 2, 3]}), "_rowid", None),
    "lists": (_with_values("a", c=[["p"], [], None, ["q", None]]), "a", None),
    "vectors": (_with_values("a", c=pa.array([[1.0, 2.0]] * 4, pa.list_(pa.float32(), 2))), "a", None),
}


def _tables(tmp_path: Path, **options: Any) -> dict[str, str]:
    """Write the same table with pylance once for each library."""
    for name in LIBRARIES:
        lance.write_dataset(ROWS, tmp_path / name, max_rows_per_file=2, **options)
    return {name: str(tmp_path / name) for name in LIBRARIES}


def _check_same(uris: dict[str, str]) -> None:
    theirs, ours = (lance.dataset(uris[name]) for name in LIBRARIES)
    ours.validate()
    read = lance_core.dataset(uris["lance_core"])
    read.validate()
    assert str(ours.lance_schema) == str(theirs.lance_schema)
    # Compared as text, because a NaN does not equal itself.
    assert str(ours.to_table().to_pylist()) == str(theirs.to_table().to_pylist()) == str(read.to_table().to_pylist())
    for mine, other in zip(ours.get_fragments(), theirs.get_fragments(), strict=True):
        assert [each.fields for each in mine.metadata.files] == [each.fields for each in other.metadata.files]
    mine, other = (dataset.read_transaction(dataset.version) for dataset in (ours, theirs))
    assert type(mine.operation) is type(other.operation)
    assert mine.read_version == other.read_version


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("deleted", [None, "a = 2", "a in (1, 3, 4)"])
@pytest.mark.parametrize("options", [{"data_storage_version": "2.0"}, {}, {"enable_stable_row_ids": True}], ids=str)
@pytest.mark.sampled(len(JOINS))
def test_joined_columns_equal_those_of_pylance(
    tmp_path: Path, join: str, deleted: str | None, options: dict[str, Any]
) -> None:
    uris = _tables(tmp_path, **options)
    for name, uri in uris.items():
        if deleted is not None:
            lance.dataset(uri).delete(deleted)
        data, left_on, right_on = JOINS[join]
        dataset = LIBRARIES[name].dataset(uri)
        dataset.merge(data, left_on, right_on)
        assert dataset.version == (2 if deleted is None else 3)
    _check_same(uris)


def test_the_last_of_several_rows_with_the_same_key_is_joined(tmp_path: Path) -> None:
    repeated = pa.table({"a": [2, 1, 2, 1], "b": ["y", "x", "y", "x"], "c": [10, 20, 30, 40]})
    for key, other in [("a", "b"), ("b", "a")]:
        dataset = lance_core.write_dataset(ROWS, tmp_path / key)
        dataset.merge(repeated.drop_columns([other]), key)
        assert dataset.to_table()["c"].to_pylist() == [40, 30, None, None, None]


@pytest.mark.parametrize(
    "keys",
    [
        pa.array(["z", "x"], pa.large_string()),
        pa.array(["z", "x"]).dictionary_encode(),
        pa.array([b"z", b"x"], pa.binary()).cast(pa.string()),
    ],
    ids=lambda keys: str(keys.type),
)
def test_text_keys_match_regardless_of_their_arrow_type(tmp_path: Path, keys: pa.Array) -> None:
    stored = ROWS.set_column(1, "b", ROWS["b"].combine_chunks().dictionary_encode())
    for name, rows in {"plain": ROWS, "dictionary": stored}.items():
        dataset = lance_core.write_dataset(rows, tmp_path / name)
        dataset.merge(pa.table({"b": keys, "c": [30, 10]}), "b")
        assert dataset.to_table()["c"].to_pylist() == [10, None, 30, None, None]


def test_struct_members_and_data_without_rows_can_be_joined(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(ROWS, tmp_path / "t")
    dataset.merge(pa.table({"k": [5, 2], "c": [50, 20]}), "s.x", "k")
    dataset.merge(pa.table({"a": pa.array([], pa.int64()), "d": pa.array([], pa.string())}), "a")
    assert dataset.to_table()["c"].to_pylist() == [None, 20, None, None, 50]
    assert dataset.to_table()["d"].null_count == 5


REQUIRED = pa.schema([pa.field("a", pa.int64()), pa.field("c", pa.int64(), nullable=False)])
UNSUITABLE = {
    "repeated name": (pa.table([[1], [1], [1]], names=["a", "c", "c"]), None),
    "required": (pa.table({"a": [1], "c": [1]}, schema=REQUIRED), None),
    "nulls of structs in format 2.0": (pa.table({"a": [1], "c": [{"p": 1}]}), "2.0"),
}


@pytest.mark.parametrize("data", UNSUITABLE)
def test_joins_with_columns_that_cannot_be_stored_are_refused(tmp_path: Path, data: str) -> None:
    rows, version = UNSUITABLE[data]
    for name, uri in _tables(tmp_path, data_storage_version=version).items():
        with pytest.raises(OSError, match=r"\bc\b"):
            LIBRARIES[name].dataset(uri).merge(rows, "a")
    assert len(list(Path(uri, "data").iterdir())) == 3


@pytest.mark.parametrize(
    "merge",
    [
        lambda each: each.merge(pa.table({"k": [1], "c": [1]}), "a"),
        lambda each: each.merge(pa.table({"k": [1], "c": [1]}), "zz", "k"),
        lambda each: each.merge(pa.table({"a": [1], "b": [1]}), "a"),
        lambda each: each.merge(pa.table({"k": [1], "a": [1]}), "a", "k"),
        lambda each: each.merge(pa.table({"a": [1], "s": [{"z": 1}]}), "a"),
        lambda each: each.merge(pa.table({"a": pa.array([1], pa.int32()), "c": [1]}), "a"),
        lambda each: each.merge(pa.table({"a": ["1"], "c": [1]}), "a"),
        lambda each: each.merge(5, "a"),
    ],
)
def test_invalid_joins_are_refused_with_the_same_errors_as_in_pylance(
    tmp_path: Path, merge: Callable[[Any], Any]
) -> None:
    for act in [merge, lambda dataset: merge(dataset.get_fragment(0))]:
        classes = []
        for name, uri in _tables(tmp_path / str(act is merge)).items():
            dataset = LIBRARIES[name].dataset(uri)
            before = {path.name for path in Path(uri, "data").iterdir()}
            with pytest.raises((OSError, ValueError, TypeError)) as refused:
                act(dataset)
            classes.append(refused.type)
            if name == "lance_core":
                assert {path.name for path in Path(uri, "data").iterdir()} == before
            assert LIBRARIES[name].dataset(uri).version == 1
        assert issubclass(classes[1], classes[0])


# ── Single fragments ─────────────────────────────────────────────────────────────────────────────────────────────────


def _committed(uri: str, committing: str, changed: list[Any], operation: Callable[[Any, list[Any]], Any]) -> None:
    """Commit fragments with a library, which may differ from the one that changed them."""
    library = LIBRARIES[committing]
    fragments = [library.FragmentMetadata.from_json(json.dumps(each.to_json())) for each in changed]
    library.LanceDataset.commit(
        uri, operation(library, fragments), read_version=library.dataset(uri).version, enable_v2_manifest_paths=True
    )


VALUES: dict[str, Callable[[Any], Any]] = {
    "expressions": lambda fragment: fragment.merge_columns({"c": "a * 2", "d": "s"}),
    "function": lambda fragment: fragment.merge_columns(
        lambda batch: pa.record_batch({"c": batch["a"]}), columns=["a"], batch_size=1
    ),
    "stream": lambda fragment: fragment.merge_columns(pa.table({"c": ["p"] * fragment.count_rows()})),
    "batches": lambda fragment: fragment.merge_columns(
        (pa.record_batch({"c": [number]}) for number in range(fragment.count_rows())),
        reader_schema=pa.schema({"c": pa.int64()}),
    ),
    "join": lambda fragment: fragment.merge(_with_values("a", c=[50, 20, 10, 40]), "a"),
}


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("committing", LIBRARIES)
@pytest.mark.parametrize("options", [{"data_storage_version": "2.0"}, {}, {"enable_stable_row_ids": True}], ids=str)
@pytest.mark.sampled(len(VALUES))
def test_columns_of_single_fragments_are_committed_by_either_library(
    tmp_path: Path, values: str, committing: str, options: dict[str, Any]
) -> None:
    uris = _tables(tmp_path, **options)
    for name, uri in uris.items():
        lance.dataset(uri).delete("a in (2, 3)")
        dataset = LIBRARIES[name].dataset(uri)
        changed = [VALUES[values](fragment) for fragment in dataset.get_fragments()]
        wide = str(changed[0][1].to_pyarrow())

        def merge(library: Any, fragments: list[Any], uri: str = uri, wide: str = wide) -> Any:
            # The schema has the ids of the committing library, taken from another fragment that it changes itself.
            _, schema = VALUES[values](library.dataset(uri).get_fragments()[0])
            assert str(schema.to_pyarrow()) == wide
            return library.LanceOperation.Merge(fragments, schema)

        _committed(uri, committing, [fragment for fragment, _ in changed], merge)
    _check_same(uris)


UPDATES: dict[str, tuple[pa.Table, str, str | None]] = {
    "one column": (_with_values("a", b=["five", "two", None, "four"]), "a", None),
    "all other columns": (ROWS.take(pa.array([1, 1, 3])).set_column(0, "a", [[5, 4, 9]]), "a", None),
    "a struct, and text": (_with_values("a", s=ROWS["s"].take(pa.array([0, 0, 1, 1])), b=list("wxyz")), "a", None),
    "the key itself": (pa.table({"k": [5, 1], "b": ["i", "j"], "a": [51, 11]}), "a", "k"),
    "by text": (_with_values("b", a=[50, 20, 10, 40]), "b", None),
    "no row": (pa.table({"a": [9], "b": ["w"]}), "a", None),
    "addresses": (pa.table({"_rowaddr": pa.array([1 << 32, 2 << 32], pa.uint64()), "a": [7, 8]}), "_rowaddr", None),
}


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("committing", LIBRARIES)
@pytest.mark.parametrize("options", [{"data_storage_version": "2.0"}, {}, {"enable_stable_row_ids": True}], ids=str)
@pytest.mark.sampled(len(UPDATES))
def test_updated_columns_of_single_fragments_equal_those_of_pylance(
    tmp_path: Path, update: str, committing: str, options: dict[str, Any]
) -> None:
    uris, results = _tables(tmp_path, **options), {}
    for name, uri in uris.items():
        dataset = lance.dataset(uri)
        dataset.create_scalar_index("b", "BTREE")
        dataset.delete("a in (3, 4)")
        dataset = LIBRARIES[name].dataset(uri)
        changed = [
            fragment.update_columns(UPDATES[update][0], *UPDATES[update][1:], with_offsets=True)
            for fragment in dataset.get_fragments()
        ]
        plain = dataset.get_fragments()[0].update_columns(UPDATES[update][0], *UPDATES[update][1:])
        assert plain[1] == changed[0][1]
        results[name] = [(ids, offsets) for _, ids, offsets in changed]
        settings = {
            "fields_modified": changed[0][1],
            "update_mode": "rewrite_columns",
            "updated_fragment_offsets": {fragment.id: offsets for fragment, _, offsets in changed},
        }
        _committed(
            uri,
            committing,
            [fragment for fragment, *_ in changed],
            lambda library, fragments, given=settings: library.LanceOperation.Update(
                updated_fragments=fragments, **given
            ),
        )
    assert results["lance_core"] == results["pylance"]
    _check_same(uris)
    shown = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    theirs, ours = (lance.dataset(uris[name]).to_table(columns=shown) for name in LIBRARIES)
    assert ours == theirs
    theirs, ours = ([each["fragment_ids"] for each in lance.dataset(uris[name]).list_indices()] for name in LIBRARIES)
    assert ours == theirs


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (pa.table({"a": [1], "zz": ["w"]}), ["a"]),
        (pa.table({"a": [1], "_rowaddr": [1]}), ["a"]),
        (pa.table({"k": [1], "b": ["w"]}), ["a"]),
        (pa.table({"k": [1], "b": ["w"]}), ["zz", "k"]),
        (pa.table({"a": ["1"], "b": ["w"]}), ["a"]),
        (pa.table({"a": [1], "s": [{"x": 1}]}), ["a"]),
        (pa.table({"_rowid": [1], "b": ["w"]}), []),
    ],
)
def test_invalid_column_updates_are_refused_by_both_libraries(tmp_path: Path, data: pa.Table, keys: list[str]) -> None:
    for name, uri in _tables(tmp_path).items():
        fragment = LIBRARIES[name].dataset(uri).get_fragment(0)
        with pytest.raises(ValueError, match=r"[Cc]olumn|Column|type"):
            fragment.update_columns(data, *keys)
        assert len(list(Path(uri, "data").iterdir())) == 3


def test_update_columns_with_values_of_the_wrong_type_is_refused(tmp_path: Path) -> None:
    """Pylance raises RuntimeError."""
    dataset = lance_core.write_dataset(ROWS, tmp_path / "t")
    with pytest.raises(lance_core.SchemaMismatchError, match="expected type string, found int64"):
        dataset.get_fragment(0).update_columns(pa.table({"a": [1], "b": [1]}), "a")


def test_a_function_with_a_checkpoint_is_refused_for_a_fragment(tmp_path: Path) -> None:
    for name, uri in _tables(tmp_path).items():
        library = LIBRARIES[name]
        function = library.batch_udf(checkpoint_file=tmp_path / f"{name}.sqlite")(lambda batch: batch)
        with pytest.raises(ValueError, match="checkpoint"):
            library.dataset(uri).get_fragment(0).merge_columns(function)


def _double(uri: str, pickled: bytes) -> bytes:
    fragment = pickle.loads(pickled)
    return pickle.dumps(fragment.merge_columns({"c": "a * 2"}))


@pytest.mark.slow
def test_fragments_are_changed_in_other_processes_and_committed_together(tmp_path: Path) -> None:
    uri = _tables(tmp_path)["lance_core"]
    dataset = lance_core.dataset(uri)
    tasks = [pickle.dumps(fragment) for fragment in dataset.get_fragments()]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        results = [pickle.loads(done) for done in processes.map(partial(_double, uri), tasks)]
    operation = lance_core.LanceOperation.Merge([fragment for fragment, _ in results], results[0][1])
    lance_core.LanceDataset.commit(uri, operation, read_version=dataset.version)
    assert lance.dataset(uri).to_table()["c"].to_pylist() == [2, 4, 6, 8, 10]


def test_row_offsets_in_a_fragment_include_deleted_rows(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(ROWS, tmp_path / "t")
    dataset.delete("a in (1, 3)")
    data = pa.table({"a": [1, 2, 5], "b": ["p", "q", "r"]})
    _, _, offsets = dataset.get_fragment(0).update_columns(data, "a", with_offsets=True)
    assert list(BitMap.deserialize(offsets)) == [1, 4]
