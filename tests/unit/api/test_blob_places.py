"""Descriptors as found in files: never trusted."""

import pyarrow as pa
import pytest

from lance_core.api.blob_places import BlobDescriptors
from lance_core.errors import CorruptDataError, NotFoundError, NotSupportedError
from lance_core.io.memory_store import MemoryStore
from lance_core.table.base_paths import BasePath, FileLocator, Location

V2 = pa.struct(
    [
        ("kind", pa.uint8()),
        ("position", pa.uint64()),
        ("size", pa.uint64()),
        ("blob_id", pa.uint32()),
        ("blob_uri", pa.string()),
    ]
)
INLINE, PACKED, DEDICATED, EXTERNAL = range(4)
MAX = 2**64 - 1


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    store.put("t/data/f.lance", b"0123456789")
    store.put(f"t/data/f/1{'0' * 31}.blob", b"abcdef")
    return store


def _of(store: MemoryStore, *rows: tuple | None, tmp_path=None) -> BlobDescriptors:
    values = [None if row is None else dict(zip(V2.names, row, strict=True)) for row in rows]
    bases = [BasePath(id=1, path=str(tmp_path), is_table_root=False)] if tmp_path else []
    locator = FileLocator(store, "t", bases)
    return BlobDescriptors.of(pa.array(values, V2), Location(store, "t/data/f.lance"), locator)


def test_places_and_values(store: MemoryStore, tmp_path) -> None:
    (tmp_path / "a.bin").write_bytes(b"outside")
    found = _of(
        store,
        (INLINE, 2, 3, 0, ""),
        None,
        (PACKED, 1, 2, 1, ""),
        (PACKED, 3, 3, 1, ""),
        (EXTERNAL, 3, 2, 1, "a.bin"),
        (EXTERNAL, 0, 0, 0, f"file://{tmp_path}/a.bin"),
        (INLINE, 5, 0, 0, ""),
        tmp_path=tmp_path,
    )
    assert found.load().to_pylist() == [b"234", None, b"bc", b"def", b"si", b"outside", b""]
    assert [place and place.size for place in found.places()] == [3, None, 2, 3, 2, 7, 0]
    declared = found.declared().to_pylist()
    assert [value and value["data"] for value in declared] == [b"234", None, b"bc", b"def", None, None, b""]
    assert declared[4] == {"data": None, "uri": f"file://{tmp_path}/a.bin", "position": 3, "size": 2}
    assert declared[5] == {"data": None, "uri": f"file://{tmp_path}/a.bin", "position": None, "size": None}
    found.check()


@pytest.mark.parametrize(
    "row",
    [
        (INLINE, 8, 3, 0, ""),
        (INLINE, 0, 11, 0, ""),
        (INLINE, MAX, 1, 0, ""),
        (INLINE, MAX, MAX, 0, ""),
        (PACKED, 4, 3, 1, ""),
        (PACKED, 0, 1, 0, ""),
        (DEDICATED, 0, 7, 1, ""),
    ],
)
def test_values_outside_their_files(store: MemoryStore, row: tuple) -> None:
    with pytest.raises(CorruptDataError):
        _of(store, row).load()
    with pytest.raises(CorruptDataError):
        _of(store, row).check()


def test_many_descriptors_of_the_same_bytes_are_not_expanded(store: MemoryStore) -> None:
    with pytest.raises(CorruptDataError, match="leave the file"):
        _of(store, *[(INLINE, 0, 10, 0, "")] * 2).load()


def test_missing_sidecars(store: MemoryStore) -> None:
    with pytest.raises(NotFoundError):
        _of(store, (PACKED, 0, 1, 2, "")).load()


@pytest.mark.parametrize("uri", ["../a.bin", "/etc/passwd", "sub/../../a.bin", "", "a\0b"])
def test_references_do_not_leave_their_base(store: MemoryStore, tmp_path, uri: str) -> None:
    for act in (BlobDescriptors.load, BlobDescriptors.places, BlobDescriptors.declared):
        with pytest.raises(CorruptDataError, match="leaves base path"):
            act(_of(store, (EXTERNAL, 0, 1, 1, uri), tmp_path=tmp_path))


def test_unknown_bases_and_kinds(store: MemoryStore) -> None:
    with pytest.raises(CorruptDataError, match="base path 9"):
        _of(store, (EXTERNAL, 0, 1, 9, "a.bin")).load()
    with pytest.raises(NotSupportedError, match="kind 4"):
        _of(store, (4, 0, 1, 1, ""))


def test_the_first_generation_of_2_0_marks_nulls(store: MemoryStore) -> None:
    rows = pa.array([{"position": p, "size": s} for p, s in ((1, 0), (0, 0), (2, 3))])
    rows = rows.cast(pa.struct([("position", pa.uint64()), ("size", pa.uint64())]))
    found = BlobDescriptors.of(rows, Location(store, "t/data/f.lance"), FileLocator(store, "t"))
    assert found.load().to_pylist() == [None, b"", b"234"]
    assert [place and place.size for place in found.places()] == [None, 0, 3]
