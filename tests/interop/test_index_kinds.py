"""Every kind of index that pylance builds returns correct results after every kind of change by lance_core.

One table has an index of each kind, each on a separate column. After a change, each index is queried for values that
were kept, moved, changed, added, and removed; the expected result is that of a full scan.
"""

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core import LanceOperation
from lance_core.errors import NotSupportedError

SCALAR = {
    "a": "BTREE",
    "c": "BITMAP",
    "l": "LABEL_LIST",
    "s": "INVERTED",
    "n": "NGRAM",
    "z": "ZONEMAP",
    "f": "BLOOMFILTER",
}
VECTOR = {"v0": "IVF_FLAT", "v1": "IVF_PQ", "v2": "IVF_SQ", "v3": "IVF_HNSW_SQ"}
ROWS, FRAGMENT = 320, 80


def _rows(start: int, stop: int) -> pa.Table:
    numbers = np.arange(start, stop)
    vectors = np.stack([numbers, numbers % 17, numbers % 5, -numbers], axis=1).astype(np.float32)
    return pa.table(
        {
            "a": pa.array(numbers),
            "c": pa.array(numbers % 25),
            "l": pa.array([[f"t{n % 7}", "all"] for n in numbers]),
            "s": pa.array([f"w{n % 25} common" for n in numbers]),
            "n": pa.array([f"name-{n:05d}-x" for n in numbers]),
            "z": pa.array(numbers * 3),
            "f": pa.array([f"key{n}" for n in numbers]),
            **{name: pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 4) for name in VECTOR},
        }
    )


@pytest.fixture(scope="module", params=["addresses", "stable"])
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(request.param) / "t"
    dataset = lance.write_dataset(
        _rows(0, ROWS), str(path), max_rows_per_file=FRAGMENT, enable_stable_row_ids=request.param == "stable"
    )
    _build_indices(dataset)
    return path


def _build_indices(dataset: lance.LanceDataset) -> None:
    for column, kind in SCALAR.items():
        dataset.create_scalar_index(column, kind, replace=True)
    for column, kind in VECTOR.items():
        extra = {"num_sub_vectors": 2, "num_bits": 4} if kind == "IVF_PQ" else {}
        dataset.create_index(column, kind, num_partitions=2, replace=True, **extra)


@pytest.fixture
def uri(base: Path, tmp_path: Path) -> str:
    shutil.copytree(base, tmp_path / "t")
    return str(tmp_path / "t")


def _commit_as_planned(uri: str, change: Callable[[lance.LanceDataset], object]) -> None:
    """Commit, with this library, the change that the reference makes to a copy."""
    twin = f"{uri}-twin"
    shutil.copytree(uri, twin)
    before = lance.dataset(twin).version
    change(lance.dataset(twin))
    operation = lance_core.dataset(twin).read_transaction(before + 1).operation
    for directory in ("data", "_deletions"):
        if Path(twin, directory).exists():
            shutil.copytree(f"{twin}/{directory}", f"{uri}/{directory}", dirs_exist_ok=True)
    lance_core.LanceDataset.commit(uri, operation, read_version=before)


def _append(uri: str) -> str:
    lance_core.write_dataset(_rows(ROWS, ROWS + 30), uri, mode="append")
    return uri


def _delete(uri: str) -> str:
    lance_core.dataset(uri).delete("a % 10 = 3 or a < 80")
    return uri


def _update_rows(uri: str) -> str:
    changes = {"c": "c + 100", "s": "'w7 changed'", "n": "'name-changed'", "z": "z + 5000", "f": "'changed'"}
    _commit_as_planned(uri, lambda dataset: dataset.update(changes, where="a in (85, 170, 171)"))
    return uri


def _update_columns(uri: str) -> str:
    dataset = lance.dataset(uri)
    changed = _rows(1085, 1088).set_column(0, "a", pa.array([85, 90, 95])).drop_columns(["l", *VECTOR])
    updated, fields = dataset.get_fragment(1).update_columns(changed, left_on="a", right_on="a")
    update = LanceOperation.Update(
        updated_fragments=[lance_core.FragmentMetadata.from_json(updated.to_json())],
        fields_modified=fields,
        update_mode="rewrite_columns",
    )
    lance_core.LanceDataset.commit(uri, update, read_version=dataset.version)
    return uri


def _replace_data(uri: str) -> str:
    dataset = lance_core.dataset(uri)
    [new] = lance_core.write_fragments(_rows(2000, 2000 + FRAGMENT), dataset)
    replacement = LanceOperation.DataReplacementGroup(2, new.files[0])
    operation = LanceOperation.DataReplacement([replacement])
    lance_core.LanceDataset.commit(uri, operation, read_version=dataset.version)
    return uri


def _compact(uri: str) -> str:
    lance_core.dataset(uri).delete("a % 9 = 4")
    lance_core.dataset(uri).optimize.compact_files(target_rows_per_fragment=2 * FRAGMENT)
    return uri


def _restore(uri: str) -> str:
    dataset = lance_core.dataset(uri)
    _replace_data(uri)
    _delete(uri)
    dataset.restore()
    return uri


def _branch(uri: str) -> str:
    lance_core.dataset(uri).create_branch("b")
    _delete(f"{uri}/tree/b")
    return _append(f"{uri}/tree/b")


def _shallow_clone(uri: str) -> str:
    lance_core.dataset(uri).shallow_clone(f"{uri}-clone", None)
    return _compact(f"{uri}-clone")


def _deep_clone(uri: str) -> str:
    lance_core.dataset(uri).deep_clone(f"{uri}-clone", None)
    shutil.rmtree(uri)
    return _append(_delete(f"{uri}-clone"))


CHANGES: dict[str, Callable[[str], str]] = {
    "append": _append,
    "delete": _delete,
    "update rows": _update_rows,
    "update columns": _update_columns,
    "data replacement": _replace_data,
    "compaction": _compact,
    "restore": _restore,
    "branch": _branch,
    "shallow clone": _shallow_clone,
    "deep clone": _deep_clone,
}

PROBES = (3, 85, 90, 95, 170, 171, 200, 319, 325, 1085, 2005)
"""Numbers that one change or another leaves, moves, changes, adds or removes."""


def check(uri: str, vectors: Iterable[str] = VECTOR) -> None:
    dataset = lance.dataset(uri)
    dataset.validate()
    rows = dataset.to_table().to_pylist()
    assert lance_core.dataset(uri).to_table().to_pylist() == rows

    def asked(**query: object) -> list[int]:
        return sorted(dataset.to_table(columns=["a"], **query)["a"].to_pylist())

    def right(matches: Callable[[dict[str, object]], bool]) -> list[int]:
        return sorted(row["a"] for row in rows if matches(row))

    for number in PROBES:
        one = _rows(number, number + 1).to_pylist()[0]
        for column in ("a", "c", "z", "f"):
            value = one[column]
            literal = f"'{value}'" if isinstance(value, str) else value
            found = asked(filter=f"{column} = {literal}")
            assert found == right(lambda row, c=column, v=value: row[c] == v), (column, value)
        assert asked(filter=f"z >= {one['z']} and z < {one['z'] + 30}") == right(
            lambda row, low=one["z"]: low <= row["z"] < low + 30
        )
        name = one["n"]
        assert asked(filter=f"contains(n, '{name[3:10]}')") == right(lambda row, part=name[3:10]: part in row["n"])
        word = one["s"].split()[0]
        assert asked(full_text_query=word) == right(lambda row, w=word: w in row["s"].split())
        for column in vectors:
            query = {"column": column, "q": np.array(one[column], np.float32), "k": 1, "nprobes": 2}
            nearest = dataset.to_table(columns=["a", column], nearest={**query, "refine_factor": 50})
            distances = [float(np.square(np.subtract(row[column], one[column])).sum()) for row in rows]
            assert nearest["_distance"][0].as_py() == pytest.approx(min(distances), abs=1e-3), (column, number)
    assert asked(filter="c >= 100") == right(lambda row: row["c"] >= 100)
    assert asked(filter="f = 'changed'") == right(lambda row: row["f"] == "changed")
    assert asked(filter="contains(n, 'changed')") == right(lambda row: "changed" in row["n"])
    for tag in ("t0", "t3"):
        assert asked(filter=f"array_has_any(l, ['{tag}'])") == right(lambda row, t=tag: t in row["l"])


def test_the_table_has_every_kind_of_index_and_queries_use_them(base: Path) -> None:
    dataset = lance.dataset(str(base))
    kinds = {each.index_type.replace("_", "").upper() for each in dataset.describe_indices()}
    assert {kind.replace("_", "") for kind in SCALAR.values()} <= kinds
    assert len(dataset.list_indices()) == len(SCALAR) + len(VECTOR)
    for query in ("a = 1", "c = 1", "f = 'key1'", "z = 3", "contains(n, 'e-000')"):
        assert "ScalarIndexQuery" in dataset.scanner(filter=query).explain_plan(verbose=True)
    check(str(base))


QUICK = {
    ("addresses", "compaction"),
    ("addresses", "deep clone"),
    ("stable", "data replacement"),
    ("stable", "update rows"),
    ("stable", "update columns"),
}
"""Run always; the others are slow tests."""


@pytest.mark.parametrize(
    ("base", "change"),
    [
        pytest.param(kind, change, marks=() if (kind, change) in QUICK else pytest.mark.slow)
        for kind in ("addresses", "stable")
        for change in CHANGES
    ],
    indirect=["base"],
)
@pytest.mark.sampled(2)
def test_indexed_queries_return_correct_rows_after_a_change(change: str, uri: str) -> None:
    check(CHANGES[change](uri))


@pytest.mark.slow
@pytest.mark.parametrize("second", ["append", "delete", "compaction", "branch"])
@pytest.mark.parametrize("first", ["update rows", "update columns", "data replacement"])
def test_indexed_queries_return_correct_rows_after_two_changes(first: str, second: str, uri: str) -> None:
    place = CHANGES[second](CHANGES[first](uri))
    check(place)
    if second != "branch":
        lance.dataset(place).optimize.optimize_indices()
        # A quantizer cannot distinguish values far from those on which it was trained.
        check(place, ["v0"])


def _merge_anew(uri: str, fragment_id: int) -> None:
    dataset = lance.dataset(uri)
    changed = _rows(1085, 1088).set_column(0, "a", pa.array([85, 90, 95])).drop_columns(["l", *VECTOR])
    updated, _ = dataset.get_fragment(fragment_id).update_columns(changed, left_on="a", right_on="a")
    fragments = [
        lance_core.FragmentMetadata.from_json((updated if each.fragment_id == fragment_id else each.metadata).to_json())
        for each in dataset.get_fragments()
    ]
    merge = LanceOperation.Merge(fragments, lance_core.dataset(uri).lance_schema, True)
    lance_core.LanceDataset.commit(uri, merge, read_version=dataset.version)


def _update_anew(uri: str, fragment_id: int) -> None:
    dataset = lance.dataset(uri)
    changed = _rows(1085, 1088).set_column(0, "a", pa.array([85, 90, 95])).drop_columns(["l", *VECTOR])
    updated, fields = dataset.get_fragment(fragment_id).update_columns(changed, left_on="a", right_on="a")
    update = LanceOperation.Update(
        updated_fragments=[lance_core.FragmentMetadata.from_json(updated.to_json())],
        fields_modified=fields,
        update_mode="rewrite_columns",
    )
    lance_core.LanceDataset.commit(uri, update, read_version=dataset.version)


def _replace_anew(uri: str, fragment_id: int) -> None:
    dataset = lance_core.dataset(uri)
    rows = next(each for each in dataset.get_fragments() if each.fragment_id == fragment_id).count_rows()
    [new] = lance_core.write_fragments(_rows(2000, 2000 + rows), dataset)
    operation = LanceOperation.DataReplacement([LanceOperation.DataReplacementGroup(fragment_id, new.files[0])])
    lance_core.LanceDataset.commit(uri, operation, read_version=dataset.version)


@pytest.mark.parametrize(
    ("base", "change"),
    [
        pytest.param("addresses", change, marks=() if change is _update_anew else pytest.mark.slow)
        for change in (_update_anew, _merge_anew, _replace_anew)
    ],
    indirect=["base"],
)
def test_indexed_queries_return_correct_rows_if_indices_were_not_remapped(
    change: Callable[[str, int], None], uri: str
) -> None:
    """The bitmaps list fragments that a compaction of the reference replaced. Stable row ids prevent this."""
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=2 * FRAGMENT, defer_index_remap=True)
    [first, *_] = lance.dataset(uri).get_fragments()
    assert "__lance_frag_reuse" in {each.name for each in lance.dataset(uri).describe_indices()}
    change(uri, first.fragment_id)
    check(uri)


@pytest.mark.slow
def test_indexed_queries_return_correct_rows_if_a_file_records_the_moved_rows(tmp_path: Path) -> None:
    """The record of so many moved rows does not fit in the manifest, so that the index covers no fragment."""
    uri, count = str(tmp_path / "t"), 2_000_000
    lance.write_dataset(pa.table({"a": np.arange(count)}), uri, max_rows_per_file=count // 2)
    lance.dataset(uri).add_columns({"b": "a * 2"})
    lance.dataset(uri).create_scalar_index("b", "BTREE")
    lance.dataset(uri).delete("(a * 7919) % 10007 < 5000")
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=count, defer_index_remap=True)
    assert list(Path(uri, "_indices").glob("*/details.binpb"))
    dataset = lance.dataset(uri)
    [fragment] = dataset.get_fragments()
    changed = pa.table({"a": [1, 2], "b": [-1, -2]})
    assert dataset.to_table(filter="a in (1, 2)")["b"].to_pylist() == [2, 4]
    updated, fields = fragment.update_columns(changed, left_on="a", right_on="a")
    update = LanceOperation.Update(
        updated_fragments=[lance_core.FragmentMetadata.from_json(updated.to_json())],
        fields_modified=fields,
        update_mode="rewrite_columns",
    )
    lance_core.LanceDataset.commit(uri, update, read_version=dataset.version)
    for value, found in {-1: [1], -2: [2], 2: [], 4: []}.items():
        assert lance.dataset(uri).to_table(filter=f"b = {value}")["a"].to_pylist() == found


@pytest.mark.slow
@pytest.mark.parametrize("base", ["addresses"], indirect=True)
def test_table_with_deferred_remapping_is_compacted_after_its_indices_were_rebuilt_and_the_record_was_dropped(
    uri: str,
) -> None:
    """Stable row ids cannot be combined with deferred remapping."""
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=2 * FRAGMENT, defer_index_remap=True)
    with pytest.raises(NotSupportedError, match="Rebuild every index"):
        lance_core.dataset(uri).optimize.compact_files()
    # pylance itself continues to compact such a table.
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=3 * FRAGMENT)
    _build_indices(lance.dataset(uri))
    lance.dataset(uri).drop_index("__lance_frag_reuse")
    check(uri)
    assert lance_core.dataset(_delete(uri)).optimize.compact_files().fragments_removed
    check(uri)
