"""Blob descriptors read from files are checked before they are used."""

import pyarrow as pa
import pytest

from lance_core.blobs.descriptors import BlobDescriptors
from lance_core.blobs.files import BlobFile
from lance_core.errors import CorruptDataError, LanceError, NotFoundError, NotSupportedError
from lance_core.io.memory_store import MemoryStore
from lance_core.io.uri import register_store, unregister_store
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
INLINE, PACKED, DEDICATED, EXTERNAL, MANAGED, MANAGED_IN_BASE = range(6)
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


def test_blob_descriptors_of_every_kind_load_their_values(store: MemoryStore, tmp_path) -> None:
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
def test_descriptors_that_extend_past_their_file_raise_corrupt_data(store: MemoryStore, row: tuple) -> None:
    with pytest.raises(CorruptDataError):
        _of(store, row).load()
    with pytest.raises(CorruptDataError):
        _of(store, row).check()


def test_inline_descriptors_that_share_bytes_raise_corrupt_data(store: MemoryStore) -> None:
    with pytest.raises(CorruptDataError, match="extend past the end of the file"):
        _of(store, *[(INLINE, 0, 10, 0, "")] * 2).load()


def test_blobs_in_a_sidecar_may_share_bytes(store: MemoryStore) -> None:
    found = _of(store, (PACKED, 0, 6, 1, ""), (PACKED, 1, 5, 1, ""), (DEDICATED, 0, 6, 1, ""))
    assert found.load().to_pylist() == [b"abcdef", b"bcdef", b"abcdef"]
    found.check()


def test_descriptor_of_a_missing_sidecar_raises_not_found(store: MemoryStore) -> None:
    with pytest.raises(NotFoundError):
        _of(store, (PACKED, 0, 1, 2, "")).load()


@pytest.mark.parametrize("uri", ["../a.bin", "/etc/passwd", "sub/../../a.bin", "", "a\0b"])
def test_external_reference_that_leaves_its_base_path_raises_corrupt_data(
    store: MemoryStore, tmp_path, uri: str
) -> None:
    for act in (BlobDescriptors.load, BlobDescriptors.places, BlobDescriptors.declared):
        with pytest.raises(CorruptDataError, match="points outside base path"):
            act(_of(store, (EXTERNAL, 0, 1, 1, uri), tmp_path=tmp_path))


def test_descriptors_with_an_unknown_base_or_kind_are_refused(store: MemoryStore) -> None:
    with pytest.raises(CorruptDataError, match="base path 9"):
        _of(store, (EXTERNAL, 0, 1, 9, "a.bin")).load()
    with pytest.raises(NotSupportedError, match="kind 6"):
        _of(store, (6, 0, 1, 1, ""))


def test_managed_blobs_may_share_bytes(store: MemoryStore, tmp_path) -> None:
    (tmp_path / "a.bin").write_bytes(b"outside")
    rows = [(MANAGED, 2, 8, 0, "data/f.lance"), (MANAGED, 1, 9, 0, "data/f.lance"), (MANAGED, 5, 0, 0, "data/none")]
    found = _of(store, *rows, (MANAGED_IN_BASE, 3, 4, 1, "a.bin"), tmp_path=tmp_path)
    assert found.load().to_pylist() == [b"23456789", b"123456789", b"", b"side"]
    assert [value["data"] for value in found.declared().to_pylist()] == found.load().to_pylist()
    found.check()
    for row in ((MANAGED, 2, 9, 0, "data/f.lance"), (MANAGED_IN_BASE, 2**63, 1, 1, "a.bin")):
        bad = _of(store, row, tmp_path=tmp_path)
        for act in (BlobDescriptors.load, BlobDescriptors.check):
            with pytest.raises(CorruptDataError):
                act(bad)


@pytest.mark.parametrize("uri", ["../secret", "/etc/passwd", "data/../../a", "", "a\0b"])
def test_managed_blob_that_leaves_the_table_root_raises_corrupt_data(store: MemoryStore, uri: str) -> None:
    for act in (BlobDescriptors.load, BlobDescriptors.places, BlobDescriptors.declared, BlobDescriptors.check):
        with pytest.raises(CorruptDataError, match="points outside the table's root"):
            act(_of(store, (MANAGED, 0, 1, 0, uri)))


def test_first_generation_descriptors_in_format_2_0_mark_nulls_by_position(store: MemoryStore) -> None:
    rows = pa.array([{"position": p, "size": s} for p, s in ((1, 0), (0, 0), (2, 3))])
    rows = rows.cast(pa.struct([("position", pa.uint64()), ("size", pa.uint64())]))
    found = BlobDescriptors.of(rows, Location(store, "t/data/f.lance"), FileLocator(store, "t"))
    assert found.load().to_pylist() == [None, b"", b"234"]
    assert [place and place.size for place in found.places()] == [None, 0, 3]


class _Counting(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.reads: list[int] = []

    def get_ranges(self, path, ranges):
        self.reads.append(len(ranges))
        return super().get_ranges(path, ranges)


def test_reading_blob_descriptors_reads_every_object_once(tmp_path) -> None:
    store = _Counting()
    store.put("t/data/f.lance", b"0123456789")
    for blob_id in (1, 2):
        store.put(f"t/data/f/{f'{blob_id:032b}'[::-1]}.blob", b"abcdef")
    rows = [(PACKED, row % 3, 1, 1 + row % 2, "") if row % 2 else (INLINE, row, 1, 0, "") for row in range(10)]
    rows += [(PACKED, 0, 1, 2, "")]
    assert _of(store, *rows).load().to_pylist() == [b"0", b"b", b"2", b"a", b"4", b"c", b"6", b"b", b"8", b"a", b"a"]
    # Values in ascending order are read as one range.
    assert sorted(store.reads) == [1, 6]


def test_external_references_to_the_same_file_are_read_together() -> None:
    store = _Counting()
    store.put("a.bin", b"0123456789")
    register_store("references", store)
    try:
        rows = [(EXTERNAL, row, 2, 0, "memory://references/a.bin") for row in range(5)]
        found = _of(store, *rows, (EXTERNAL, 0, 0, 0, "memory://references/a.bin"))
        values = found.load().to_pylist()
    finally:
        unregister_store("references")
    assert values == [b"01", b"12", b"23", b"34", b"45", b"0123456789"]
    assert store.reads == [6]


@pytest.mark.parametrize("uri", ["", "a.bin", "/etc/passwd", "../a.bin", "file:///a\0b", "file:///a%00b"])
def test_external_reference_without_a_base_must_be_absolute(store: MemoryStore, uri: str) -> None:
    for act in (BlobDescriptors.load, BlobDescriptors.places):
        with pytest.raises(CorruptDataError, match="not absolute"):
            act(_of(store, (EXTERNAL, 0, 1, 0, uri)))


@pytest.mark.parametrize("uri", ["file:///etc/passwd", "s3://bucket/a", "memory://m/a", "%2e%2e/../a"])
def test_external_reference_with_a_base_must_be_relative(store: MemoryStore, tmp_path, uri: str) -> None:
    with pytest.raises(CorruptDataError, match="points outside base path"):
        _of(store, (EXTERNAL, 0, 1, 1, uri), tmp_path=tmp_path).load()


@pytest.mark.parametrize("uri", ["s3://bucket/a", "http://localhost/a", "file://host/a"])
def test_external_references_to_unreachable_locations_raise_a_typed_error(store: MemoryStore, uri: str) -> None:
    with pytest.raises(LanceError):
        _of(store, (EXTERNAL, 0, 1, 0, uri)).load()


def test_external_reference_that_is_not_utf8_is_refused(store: MemoryStore) -> None:
    uris = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe"]).buffers())
    members = [pa.array([value], member.type) for value, member in zip((EXTERNAL, 0, 1, 0), V2, strict=False)]
    array = pa.StructArray.from_arrays([*members, uris], fields=list(V2))
    found = BlobDescriptors.of(array, Location(store, "t/data/f.lance"), FileLocator(store, "t"))
    for act in (BlobDescriptors.load, BlobDescriptors.places, BlobDescriptors.declared):
        with pytest.raises(CorruptDataError, match="UTF-8"):
            act(found)


@pytest.mark.parametrize("kind", [INLINE, PACKED, DEDICATED, EXTERNAL])
def test_descriptors_with_huge_sizes_are_refused_without_allocation(store: MemoryStore, tmp_path, kind: int) -> None:
    (tmp_path / "a.bin").write_bytes(b"outside")
    for size in (2**40, 2**60, 2**63, MAX):
        found = _of(store, (kind, 1, size, 1, "a.bin"), tmp_path=tmp_path)
        with pytest.raises(CorruptDataError):
            found.load()
        with pytest.raises(CorruptDataError):
            BlobFile(next(iter(found.places())), 0).read()


def test_blob_descriptors_distinguish_many_sidecars(store: MemoryStore) -> None:
    found = _of(store, *[(PACKED, row, 1, 1 + row * 7919 % 1000, "") for row in range(3000)])
    places = found.places()
    assert len({place.path for place in places}) == 1000
    assert [place.start for place in places] == list(range(3000))
