"""Columns are changed by either library in tables with branches, base paths, overlays, or indices.

Both libraries make the same change on copies of a table. Rows, ids, lineage, schema, files and indices must be the
same, and each library reads what the other made.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.file import LanceFileWriter

import lance_core
from lance_core.table.overlay_files import OVERLAYS_VARIABLE

LIBRARIES = {"pylance": lance, "lance_core": lance_core}
ROWS = pa.table({"a": range(12), "b": [f"b{row}" for row in range(12)], "c": [row / 2 for row in range(12)]})
LINEAGE = ["_rowid", "_rowaddr", "_row_created_at_version", "_row_last_updated_at_version"]


@pytest.fixture(autouse=True)
def _overlays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OVERLAYS_VARIABLE, "1")


def _plain(root: Path, **options: Any) -> str:
    lance.write_dataset(ROWS, root, max_rows_per_file=4, **options)
    lance.dataset(root).delete("a in (1, 5, 6)")
    return str(root)


def _branch(root: Path) -> str:
    lance.dataset(_plain(root)).create_branch("work")
    uri = f"{root}/tree/work"
    lance.write_dataset(ROWS.slice(0, 2), uri, mode="append")
    return uri


def _clone(root: Path) -> str:
    """Create a clone, whose files are all below the root of another table."""
    lance.dataset(_plain(root / "source")).shallow_clone(str(root / "clone"), None)
    return str(root / "clone")


def _bases(root: Path) -> str:
    bases = [
        lance.DatasetBasePath(str(root / "hot"), "hot"),
        lance.DatasetBasePath(str(root / "cold"), "cold", is_dataset_root=True),
    ]
    uri = str(root / "table")
    lance.write_dataset(ROWS, uri, max_rows_per_file=4, initial_bases=bases, target_bases=["hot", "cold"])
    lance.dataset(uri).delete("a in (1, 5, 6)")
    return uri


def _overlaid(root: Path) -> str:
    """Create a table with an overlay for three rows of the first fragment."""
    uri = _plain(root, data_storage_version="2.1")
    name = f"{uuid.uuid4()}.lance"
    values = pa.table({"a": [100, 200, 300]})
    with LanceFileWriter(f"{uri}/data/{name}", values.schema, version="2.1") as writer:
        writer.write_batch(values)
    file = lance.fragment.DataFile(name, [0], [0], 2, 1, os.path.getsize(f"{uri}/data/{name}"))
    operation = lance.LanceOperation
    group = operation.DataOverlayGroup(0, [operation.DataOverlayFile(file, [0, 1, 3])])
    lance.LanceDataset.commit(uri, operation.DataOverlay([group]), read_version=2)
    return uri


def _indexed(root: Path) -> str:
    uri = _plain(root, enable_stable_row_ids=True)
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("b", "BTREE")
    dataset.create_scalar_index("c", "BITMAP")
    lance.write_dataset(ROWS.slice(0, 3), uri, mode="append")
    return uri


TABLES: dict[str, Callable[[Path], str]] = {
    "branch": _branch,
    "clone": _clone,
    "bases": _bases,
    "overlay": _overlaid,
    "index": _indexed,
    "stable ids": lambda root: _plain(root, enable_stable_row_ids=True),
}
OTHER = pa.table({"b": ["b2", "b7", "b0"], "x": [20, 70, 0]})


def _merge_fragments(library: ModuleType, dataset: Any) -> None:
    changed = [fragment.merge_columns({"x": "a + c"}) for fragment in dataset.get_fragments()]
    operation = library.LanceOperation.Merge([fragment for fragment, _ in changed], changed[0][1])
    library.LanceDataset.commit(dataset, operation, read_version=dataset.version)


def _update_fragments(library: ModuleType, dataset: Any) -> None:
    new = pa.table({"b": ["b2", "b8", "b0"], "a": [-2, -8, 0]})
    changed = [fragment.update_columns(new, "b", with_offsets=True) for fragment in dataset.get_fragments()]
    operation = library.LanceOperation.Update(
        updated_fragments=[fragment for fragment, *_ in changed],
        fields_modified=changed[0][1],
        update_mode="rewrite_columns",
        updated_fragment_offsets={fragment.id: offsets for fragment, _, offsets in changed},
    )
    library.LanceDataset.commit(dataset, operation, read_version=dataset.version)


CHANGES: dict[str, Callable[[ModuleType, Any], None]] = {
    "nulls": lambda library, dataset: dataset.add_columns(pa.field("x", pa.string())),
    "expressions": lambda library, dataset: dataset.add_columns({"x": "a * 2", "y": "upper(b)"}),
    "function": lambda library, dataset: dataset.add_columns(lambda batch: pa.record_batch({"x": batch["a"]})),
    "stream": lambda library, dataset: dataset.add_columns(pa.table({"x": range(dataset.count_rows())})),
    "join": lambda library, dataset: dataset.merge(OTHER, "b"),
    "merged fragments": _merge_fragments,
    "updated fragments": _update_fragments,
    "cast": lambda library, dataset: dataset.alter_columns({"path": "a", "data_type": pa.int32()}),
    "rename": lambda library, dataset: dataset.alter_columns({"path": "b", "name": "z"}),
    "drop": lambda library, dataset: dataset.drop_columns(["a"]),
}


def _shown(uri: str, library: ModuleType) -> list[Any]:
    """Return what a library shows of a table, without random names."""
    dataset = library.dataset(uri)
    dataset.validate()
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    return [
        dataset.schema,
        dataset.to_table().to_pylist(),
        dataset.to_table(columns=LINEAGE).to_pylist(),
        dataset.to_table(filter="b = 'b2'" if "b" in dataset.schema.names else None).to_pylist(),
        [[(file.fields, file.base_id) for file in fragment.files] for fragment in fragments],
        [len(fragment.overlays) for fragment in fragments],
        sorted(index.name for index in dataset.describe_indices()),
    ]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.sampled(10)
def test_columns_of_special_tables_change_as_in_pylance(tmp_path: Path, table: str, change: str) -> None:
    shown = []
    for name, library in LIBRARIES.items():
        uri = TABLES[table](tmp_path / name)
        CHANGES[change](library, library.dataset(uri))
        theirs, ours = (_shown(uri, each) for each in LIBRARIES.values())
        assert ours == theirs
        shown.append(ours)
        # The files of a branch or a clone are written below its own root.
        library.write_dataset(library.dataset(uri).to_table().slice(0, 1), uri, mode="append")
        assert library.dataset(uri).count_rows() == len(ours[1]) + 1
    assert shown[1] == shown[0]


def test_columns_added_to_a_branch_do_not_appear_in_the_main_branch(tmp_path: Path) -> None:
    for name, library in LIBRARIES.items():
        uri = _branch(tmp_path / name)
        before = set((tmp_path / name / "data").iterdir())
        library.dataset(uri).merge(OTHER, "b")
        assert set((tmp_path / name / "data").iterdir()) == before
        assert library.dataset(tmp_path / name).schema == ROWS.schema
        assert library.dataset(uri).schema.names == ["a", "b", "c", "x"]
