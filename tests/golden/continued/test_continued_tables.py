"""Tables created by releases of pylance from 0.4.21 to 14.0.2 are read, and modified with every write operation.

Each table was created and appended to and, where the release supports it, had rows deleted and a column merged in. The
tables therefore have several manifests, fragments of several data files, and deletion files. They were written by
``write_tables.py`` in this directory."""

from __future__ import annotations

import functools
import zipfile
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CorruptDataError, NotSupportedError

ARCHIVE = Path(__file__).parent / "tables.zip"


@functools.cache
def _names() -> list[str]:
    with zipfile.ZipFile(ARCHIVE) as archive:
        return sorted({name.partition("/")[0] for name in archive.namelist()})


EXPERIMENTAL = {"0.16.0-2.1": CorruptDataError, "0.18.2-2.1": NotSupportedError}
"""2.1 before it was stable: pylance 14.0.2 refuses these tables too."""

NOT_READ_BY_THE_REFERENCE = {"0.4.21-0.1", "0.38.3-2.2", "0.39.0-2.2", "1.0.4-2.2"}
"""Merged columns of the first releases, and 2.2 before it was stable; read here all the same."""


def _unpacked(name: str, directory: Path) -> str:
    with zipfile.ZipFile(ARCHIVE) as archive:
        for member in archive.namelist():
            if member.startswith(f"{name}/"):
                archive.extract(member, directory)
    return str(directory / name)


def _rows(columns: list[str], *ids: int) -> pa.Table:
    """Return the rows with these numbers, as written by ``write_tables.py``."""
    table = pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "text": pa.array([f"row {i}" if i % 7 else None for i in ids]),
            "flag": pa.array([i % 3 == 0 for i in ids]),
            "pair": pa.array([{"x": i, "y": [f"t{i}"] * (i % 3)} for i in ids]),
            "vector": pa.array([[float(i), 0.5] for i in ids], pa.list_(pa.float32(), 2)),
            "word": pa.array([["p", "q", "r"][i % 3] for i in ids]).dictionary_encode(),
            "extra": pa.array([f"e{i}" for i in ids]),
        }
    )
    return table.select(columns)


def _content(table: pa.Table) -> list[dict[str, object]]:
    return table.to_pylist()


@pytest.mark.parametrize("name", [name for name in _names() if name not in EXPERIMENTAL])
@pytest.mark.sampled(5)
def test_tables_of_old_releases_are_read_and_modified(name: str, tmp_path: Path) -> None:
    uri = _unpacked(name, tmp_path)
    dataset = lance_core.dataset(uri)
    columns = dataset.schema.names
    can_delete = name != "0.4.21-0.1"
    ids = [i for i in range(18) if not (can_delete and i in {5, 13})]
    assert dataset.data_storage_version == name.rpartition("-")[2]
    assert _content(dataset.to_table()) == _content(_rows(columns, *ids))
    assert dataset.count_rows() == len(ids)
    assert _content(dataset.take([len(ids) - 1, 4])) == _content(_rows(columns, 17, 4))
    assert dataset.to_table(filter="id > 10 AND text IS NOT NULL", columns=["id"])["id"].to_pylist() == [
        i for i in ids if i > 10 and i % 7
    ]
    dataset.validate()
    for version in range(1, dataset.version):
        assert lance_core.dataset(uri, version=version).count_rows() in {12, 17, 18, 16}

    lance_core.write_dataset(_rows(columns, 18, 19, 20), uri, mode="append")
    lance_core.dataset(uri).delete("id = 7 OR id = 19")
    ids = [i for i in [*ids, 18, 19, 20] if i not in {7, 19}]
    _is_read_by_both(uri, columns, ids, reference=name not in NOT_READ_BY_THE_REFERENCE)
    lance_core.dataset(uri).optimize.compact_files(materialize_deletions_threshold=0.0)
    assert len(lance_core.dataset(uri).get_fragments()) == 1
    _is_read_by_both(uri, columns, ids, reference=True)
    lance_core.dataset(uri, version=dataset.version).restore()
    assert lance_core.dataset(uri).count_rows() == dataset.count_rows()


def _is_read_by_both(uri: str, columns: list[str], ids: list[int], *, reference: bool) -> None:
    ours = lance_core.dataset(uri)
    assert _content(ours.to_table()) == _content(_rows(columns, *ids))
    ours.validate()
    if reference:
        theirs = lance.dataset(uri)
        assert _content(theirs.to_table()) == _content(_rows(columns, *ids))
        theirs.validate()


@pytest.mark.parametrize("name", EXPERIMENTAL)
def test_experimental_tables_are_refused_by_lance_core_and_pylance(name: str, tmp_path: Path) -> None:
    uri = _unpacked(name, tmp_path)
    with pytest.raises(EXPERIMENTAL[name]):
        lance_core.dataset(uri).to_table()
    with pytest.raises(ValueError, match=r"has version 2\.0|non-leaf fields"):
        lance.dataset(uri)
