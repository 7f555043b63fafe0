"""Neighboring fragments that are read together return the same rows as when they are read separately."""

import gc
import shutil
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_core
from lance_core.encodings.compressive import fsst
from lance_core.encodings.kernels.fsst_symbols import expand_codes
from lance_core.errors import CorruptDataError
from lance_core.file import reader
from lance_core.file.file_group import _KnownGroup
from lance_core.file.reader import FileReader
from lance_core.file.session import Session
from lance_core.io.local_store import LocalStore
from lance_core.scan import scanner
from lance_core.scan.fragment_group import FragmentGroup, joined_readers
from lance_core.scan.matching import find_rows
from lance_core.scan.row_reader import RowReader

NUM_FRAGMENTS = 12
PER_FRAGMENT = 700


def rows(num_rows: int = NUM_FRAGMENTS * PER_FRAGMENT) -> pa.Table:
    numbers = np.random.default_rng(5)
    keys = numbers.permutation(num_rows)
    return pa.table(
        {
            "k": keys,
            "x": pa.array(keys / 7, mask=keys % 5 == 0),
            "s": [None if key % 11 == 0 else f"row {key}" for key in keys.tolist()],
            "few": pa.array(["a", "b", None] * (num_rows // 3)).dictionary_encode(),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(numbers.random(num_rows * 8), pa.float32()), 8),
            "l": [list(range(key % 4)) for key in keys.tolist()],
            "t": [{"a": key, "b": str(key)} for key in keys.tolist()],
            "same": [3] * num_rows,
        }
    )


@pytest.fixture(scope="module", params=["2.1", "2.2", "2.0"])
def location(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("group") / f"v{request.param}")
    lance.write_dataset(rows(), path, max_rows_per_file=PER_FRAGMENT, data_storage_version=request.param)
    dataset = lance.dataset(path)
    dataset.delete("k % 10 = 3")
    return path


def alone(location: str, **arguments: Any) -> pa.Table:
    """Return the rows of scans of the individual fragments."""
    parts = [fragment.to_table(**arguments) for fragment in lance_core.dataset(location).get_fragments()]
    return pa.concat_tables(parts)


def same(left: pa.Table, right: pa.Table) -> bool:
    """Return whether types and values are the same; different chunks may have different dictionaries."""
    return left.schema.types == right.schema.types and _values(left).equals(_values(right))


def _values(table: pa.Table) -> pa.Table:
    decoded = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return pa.table(decoded, names=table.column_names)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"columns": ["s", "k"]},
        {"filter": "k < 2000"},
        {"filter": "k < 40"},
        {"filter": "s like '%99%' and x > 0", "columns": ["v", "t"]},
        {"columns": ["k"], "filter": "same = 3", "with_row_id": True, "with_row_address": True},
        {"columns": ["l", "_rowaddr"], "filter": "k % 97 = 0"},
    ],
    ids=str,
)
def test_scan_of_groups_returns_the_rows_of_the_fragments(location: str, arguments: dict[str, Any]) -> None:
    found = lance_core.dataset(location).to_table(**arguments)
    assert same(found, alone(location, **arguments))
    assert same(found, lance.dataset(location).to_table(**arguments))


def test_batches_of_groups_have_at_most_the_requested_number_of_rows(location: str) -> None:
    batches = list(lance_core.dataset(location).to_batches(batch_size=300, columns=["few", "l"]))
    assert max(batch.num_rows for batch in batches) == 300
    assert same(pa.Table.from_batches(batches), alone(location, columns=["few", "l"]))


@pytest.mark.sampled(18)
@pytest.mark.parametrize("offset", [0, 600, 1_500, 5_000])
@pytest.mark.parametrize("limit", [1, 700, 2_500])
@pytest.mark.parametrize("condition", [None, "k % 3 = 1"])
def test_offset_and_limit_apply_to_groups_as_to_single_fragments(
    location: str, offset: int, limit: int, condition: str | None
) -> None:
    found = lance_core.dataset(location).to_table(columns=["k"], filter=condition, offset=offset, limit=limit)
    assert found.equals(alone(location, columns=["k"], filter=condition).slice(offset, limit).combine_chunks())


def test_fragment_groups_double_in_size_up_to_their_limits(location: str) -> None:
    dataset = lance_core.dataset(location)
    if dataset.data_storage_version == "2.0":
        pytest.skip("files of 2.0 are read alone")
    source = dataset._view.source()
    readers = list(joined_readers(map(source.reader, source.fragments), source.schema.fields[:1]))
    sizes = [len(reader._readers) if isinstance(reader, FragmentGroup) else 1 for reader in readers]
    assert sizes == [1, 2, 4, 5]


@pytest.mark.parametrize(("limit", "sizes"), [(None, [8, 4]), (10_000, [1, 2, 4, 5])], ids=str)
def test_filtered_scan_starts_with_several_fragments_unless_it_has_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int | None, sizes: list[int]
) -> None:
    lance.write_dataset(rows(), tmp_path / "t", max_rows_per_file=PER_FRAGMENT)
    read: list[int] = []

    def recorded(reader: RowReader, *arguments: Any) -> Iterator[Any]:
        read.append(len(reader._readers) if isinstance(reader, FragmentGroup) else 1)
        return find_rows(reader, *arguments)

    monkeypatch.setattr(scanner, "find_rows", recorded)
    lance_core.dataset(tmp_path / "t").to_table(filter="k % 9 = 1", columns=["s"], limit=limit)
    assert read == sizes


def test_rows_before_a_damaged_file_in_a_group_are_returned_and_the_error_names_the_file(tmp_path: Path) -> None:
    lance.write_dataset(rows(4 * PER_FRAGMENT * 3), tmp_path / "t", max_rows_per_file=PER_FRAGMENT * 3)
    dataset = lance_core.dataset(tmp_path / "t")
    damaged = tmp_path / "t" / "data" / dataset.get_fragments()[2].data_files()[0].path
    content = bytearray(damaged.read_bytes())
    content[:4096] = b"\xff" * 4096
    damaged.write_bytes(content)
    found: list[pa.RecordBatch] = []
    with pytest.raises(CorruptDataError, match=damaged.name):
        found.extend(dataset.to_batches(columns=["k"]))
    assert sum(batch.num_rows for batch in found) == 2 * PER_FRAGMENT * 3


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("compiled", ["0", "1"])
def test_damaged_bytes_in_a_group_have_the_same_effect_as_in_a_single_fragment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, compiled: str
) -> None:
    monkeypatch.setenv("LANCE_CORE_COMPILED", compiled)
    path = tmp_path / "t"
    lance.write_dataset(rows(), path, max_rows_per_file=PER_FRAGMENT, data_storage_version=version)
    # Different chunks may have different dictionaries.
    columns = [name for name in rows(3).column_names if name != "few"]
    numbers = np.random.default_rng(17)
    effects = set()
    for number in range(15):
        dataset = lance_core.dataset(path)
        damaged = path / "data" / dataset.get_fragments()[number % NUM_FRAGMENTS].data_files()[0].path
        content = damaged.read_bytes()
        broken = np.frombuffer(content, np.uint8).copy()
        # The metadata at the end of the file is not damaged.
        broken[numbers.integers(0, len(content) * 3 // 4, 12)] = numbers.integers(0, 256, 12)
        damaged.write_bytes(broken.tobytes())
        effect = outcome(lambda dataset=dataset: dataset.to_table(columns=columns))
        assert effect == outcome(lambda: alone(str(path), columns=columns))
        effects.add(type(effect))
        damaged.write_bytes(content)
    assert len(effects) == 2


def outcome(read: Callable[[], pa.Table]) -> bytes | str:
    """Return the rows, or the error message about the damage."""
    try:
        [batch] = read().combine_chunks().to_batches()
        # Without the bitmaps of columns that have no nulls.
        return bytes(pa.concat_batches([batch, batch.slice(0, 0)]).serialize())
    except CorruptDataError as error:
        return str(error)


@pytest.mark.parametrize("columns", [None, ["s", "_rowaddr", "_rowid"], ["_rowoffset", "few", "l"]], ids=str)
def test_take_from_groups_returns_the_requested_rows_in_order(location: str, columns: list[str] | None) -> None:
    dataset = lance_core.dataset(location)
    wanted = np.random.default_rng(3).integers(0, dataset.count_rows(), 500).tolist()
    taken = dataset.take(wanted, columns=columns)
    everything = dataset.to_table(columns=columns)
    assert same(taken, everything.take(pa.array(wanted)))
    assert same(taken, lance.dataset(location).take(wanted, columns=columns))


def test_take_opens_only_the_files_with_requested_rows(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    open_file = Session.open_file

    def recorded(self: Session, store: Any, path: str, **arguments: Any) -> FileReader:
        opened.append(path)
        return open_file(self, store, path, **arguments)

    monkeypatch.setattr(Session, "open_file", recorded)
    dataset = lance_core.dataset(location)
    assert dataset.take([0, 3_000, 3_001, 1], columns=["k"]).num_rows == 4
    assert len(opened) == 2


def test_take_from_a_damaged_file_in_a_group_names_the_file(tmp_path: Path) -> None:
    lance.write_dataset(rows(), tmp_path / "t", max_rows_per_file=PER_FRAGMENT)
    dataset = lance_core.dataset(tmp_path / "t")
    damaged = tmp_path / "t" / "data" / dataset.get_fragments()[5].data_files()[0].path
    damaged.write_bytes(b"\xff" * 64 + damaged.read_bytes()[64:])
    with pytest.raises(CorruptDataError, match=damaged.name):
        dataset.take(list(range(0, NUM_FRAGMENTS * PER_FRAGMENT, 100)))


@pytest.mark.parametrize("damage", ["missing", "damaged"])
@pytest.mark.parametrize("step", [100, 1], ids=["few rows", "many rows"])
def test_take_from_most_fragments_ignores_the_file_of_a_fragment_without_requested_rows(
    tmp_path: Path, damage: str, step: int
) -> None:
    lance.write_dataset(rows(), tmp_path / "t", max_rows_per_file=PER_FRAGMENT)
    dataset = lance_core.dataset(tmp_path / "t")
    last = tmp_path / "t" / "data" / dataset.get_fragments()[-1].data_files()[0].path
    if damage == "missing":
        last.unlink()
    else:
        last.write_bytes(b"\xff" * last.stat().st_size)
    wanted = list(range(0, (NUM_FRAGMENTS - 1) * PER_FRAGMENT, step))
    assert same(dataset.take(wanted), rows().take(pa.array(wanted)))


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_take_from_most_fragments_skips_neighboring_fragments_with_other_columns(tmp_path: Path, version: str) -> None:
    keys = pa.table({"k": range(200), "s": [f"row {key}" for key in range(200)]})
    lance_core.write_dataset(keys.slice(0, 180), tmp_path, max_rows_per_file=10, data_storage_version=version)
    # The last two fragments form another group, from which no row is requested.
    dataset = lance_core.write_dataset(keys.slice(180).select(["k"]), tmp_path, mode="append", max_rows_per_file=10)
    wanted = list(range(175, 0, -10))
    assert same(dataset.take(wanted), keys.take(pa.array(wanted)))


def test_take_of_many_rows_of_each_fragment_returns_them_in_order(location: str) -> None:
    dataset = lance_core.dataset(location)
    wanted = np.random.default_rng(4).integers(0, dataset.count_rows(), 4_000).tolist()
    assert same(dataset.take(wanted), dataset.to_table().take(pa.array(wanted)))


@pytest.mark.parametrize("columns", [["k"], ["k", "v"]], ids=str)
def test_batches_of_filtered_rows_have_at_most_the_requested_number_of_rows(location: str, columns: list[str]) -> None:
    scan = lance_core.dataset(location).scanner(columns=columns, filter="k % 10 != 7", batch_size=100)
    assert {batch.num_rows for batch in scan.to_batches()} <= set(range(1, 101))
    assert scan.to_table().num_rows == lance.dataset(location).count_rows(filter="k % 10 != 7")


def test_stream_of_a_group_opens_each_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = rows(3 * 20_000)
    lance.write_dataset(many, tmp_path / "t", max_rows_per_file=20_000)
    dataset = lance_core.dataset(tmp_path / "t")
    expected = dataset.to_table()
    reads: list[str] = []
    get_ranges = LocalStore.get_ranges

    def recorded(self: LocalStore, path: str, ranges: Any) -> list[pa.Buffer]:
        reads.append(path)
        return get_ranges(self, path, ranges)

    monkeypatch.setattr(LocalStore, "get_ranges", recorded)
    batches = list(dataset.to_batches(columns=["k", "x", "v"]))
    assert pa.Table.from_batches(batches).equals(expected.select(["k", "x", "v"]).combine_chunks())
    # The first file is read alone, column by column; the second and the third are a group.
    second, third = (str(tmp_path / "t" / "data" / each.data_files()[0].path) for each in dataset.get_fragments()[1:3])
    assert (reads.count(second), reads.count(third)) == (1, 1)


def test_later_scans_reuse_the_plans_of_earlier_scans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lance.write_dataset(rows(), tmp_path / "t", max_rows_per_file=PER_FRAGMENT)
    dataset = lance_core.dataset(tmp_path / "t", session=Session())
    expected = dataset.to_table()
    opened = []
    monkeypatch.setattr(reader, "open_sources", lambda *arguments: opened.append(arguments))
    again = lance_core.dataset(tmp_path / "t", session=dataset.session())
    assert same(again.to_table(), expected)
    assert not opened
    # Other columns need separate sources.
    with pytest.raises(TypeError):
        again.to_table(columns=["k"])
    assert opened


def kept_groups(session: Session) -> list[_KnownGroup]:
    return [value for value, _ in session._cache._entries.values() if isinstance(value, _KnownGroup)]


def test_session_keeps_groups_of_scans_but_not_of_takes(location: str) -> None:
    session = Session()
    dataset = lance_core.dataset(location, session=session)
    for start in range(5):
        dataset.take(range(start, dataset.count_rows(), PER_FRAGMENT * 2))
    assert not kept_groups(session)
    dataset.to_table()
    assert len(kept_groups(session)) == (0 if dataset.data_storage_version == "2.0" else 3)


@pytest.mark.parametrize("max_bytes", [0, 20_000, 100_000])
def test_scans_of_groups_stay_within_the_budget_of_the_session(location: str, max_bytes: int) -> None:
    session = Session(metadata_cache_size_bytes=max_bytes)
    dataset = lance_core.dataset(location, session=session)
    for columns in (["k"], ["few", "v"], ["l"], ["k"]):
        assert same(dataset.to_table(columns=columns), alone(location, columns=columns))
        assert session.size_bytes() <= max_bytes


def test_groups_are_freed_with_their_session_without_garbage_collection(tmp_path: Path) -> None:
    lance.write_dataset(rows(), tmp_path / "t", max_rows_per_file=PER_FRAGMENT)
    session = Session()
    lance_core.dataset(tmp_path / "t", session=session).to_table()
    kept = list(map(weakref.ref, kept_groups(session)))
    assert len(kept) == 3
    gc.disable()
    try:
        del session
        assert [group() for group in kept] == [None] * 3
    finally:
        gc.enable()


@pytest.fixture(scope="module", params=["2.1", "2.2"])
def texts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, pa.Table]:
    """A table whose strings are compressed with a symbol table for each page, and its rows."""
    numbers = np.random.default_rng(8)
    keys = numbers.integers(0, 1 << 40, 5 * 8_000).tolist()
    words = [f"{key:x}/item-{key % 97}/\u00e9\xff{'z' * (key % 5)}" for key in keys]
    written = pa.table(
        {
            "n": range(len(words)),
            "s": words,
            "nullable": [None if key % 3 == 0 else word for key, word in zip(keys, words, strict=True)],
            "list": [words[at : at + at % 3] for at in range(len(words))],
            "struct": [{"a": word, "b": at} for at, word in enumerate(words)],
        }
    )
    path = str(tmp_path_factory.mktemp("texts") / request.param)
    lance.write_dataset(written, path, max_rows_per_file=8_000, data_storage_version=request.param)
    return path, written


def test_strings_with_different_symbol_tables_are_decoded_together(
    texts: tuple[str, pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, written = texts
    num_tables: list[int] = []

    def recording(tables: Any, *arguments: Any) -> Any:
        num_tables.append(len(tables))
        return expand_codes(tables, *arguments)

    monkeypatch.setattr(fsst, "expand_codes", recording)
    dataset = lance_core.dataset(path)
    wanted = np.random.default_rng(9).integers(0, written.num_rows, 300).tolist()
    assert dataset.take(wanted).equals(written.take(pa.array(wanted)))
    assert max(num_tables) == 5
    # The first group of a scan has one fragment.
    num_tables.clear()
    assert dataset.to_table().equals(written)
    assert max(num_tables) > 1
    assert dataset.to_table(offset=7_001, limit=20_000).equals(written.slice(7_001, 20_000))
    condition = pc.equal(pc.bit_wise_and(written["n"], 63), 5)
    assert dataset.to_table(filter="n % 64 = 5").equals(written.filter(condition))


def test_damaged_symbol_table_among_several_raises_corrupt_data(texts: tuple[str, pa.Table], tmp_path: Path) -> None:
    copy = tmp_path / "t.lance"
    shutil.copytree(texts[0], copy)
    data_file = sorted((copy / "data").iterdir())[2]
    content = data_file.read_bytes()
    magic = (0x46535354).to_bytes(4, "little")
    assert magic in content
    data_file.write_bytes(content.replace(magic, b"\0\0\0\0"))
    dataset = lance_core.dataset(str(copy))
    with pytest.raises(CorruptDataError, match=r"symbol table .* is malformed"):
        dataset.to_table(columns=["s"])
    with pytest.raises(CorruptDataError, match=r"symbol table .* is malformed"):
        dataset.take(list(range(0, texts[1].num_rows, 1_000)), columns=["s"])
