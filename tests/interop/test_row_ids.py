"""Row ids and row versions are equal in both implementations after changes by either implementation."""

import shutil
from pathlib import Path

import lance
import numpy as np
import pytest
from lance.fragment import RowIdSequence

import lance_core
from lance_core.errors import InvalidInputError, RowOutOfRangeError, VersionNotFoundError
from lance_core.scan.row_id_lookup import RowIdLookup
from lance_core.table.fragment import Fragment
from tests.support.row_lineage import ROW_COLUMNS, assert_same_lineage, make, rows

TABLES = pytest.mark.parametrize("table", ["plain", "stable", "spilled"])


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("rows")
    uris = {name: str(root / name) for name in ("plain", "stable", "spilled")}
    for name, uri in uris.items():
        make(uri, stable=name != "plain", spill=name == "spilled")
    return uris


@TABLES
def test_row_ids_and_versions_equal_those_of_pylance_in_every_version(tables: dict[str, str], table: str) -> None:
    lineage = assert_same_lineage(tables[table], every_version=True)
    assert len(lineage) == 83
    if table != "plain":
        # Row 15 was created with the table, moved, compacted, and updated by a merge, and kept its id.
        assert lineage[15][:2] == (15, 1)
        assert lineage[85][1] == lineage[85][2]


@TABLES
@pytest.mark.parametrize(
    "arguments",
    [
        {"with_row_id": True},
        {"with_row_address": True},
        {"with_row_id": True, "with_row_address": True},
        {"columns": ["_rowid"]},
        {"columns": ["_rowid", "a"], "with_row_id": True},
        {"columns": ["_rowaddr", "_rowid", "a"], "with_row_id": True, "with_row_address": True},
        {"columns": ["x.y", "_rowaddr", "s"], "with_row_id": True},
        {"columns": [], "with_row_id": True},
        {"columns": ["_row_last_updated_at_version", "a", "_row_created_at_version", "_rowoffset"]},
        {"columns": ["_row_created_at_version"], "limit": 20, "offset": 30},
        {"columns": ["_rowoffset", "_rowid"], "filter": "a > 20 and s = 'new'", "limit": 10, "offset": 3},
        {"columns": ROW_COLUMNS, "filter": "a in (3, 14, 30, 79, 85)"},
        {"columns": ["a"], "filter": "_rowid > 10 and _rowid < 30"},
        {"columns": ["a", "s"], "filter": "_rowid in (5, 6, 1000, 17179869184)"},
        {"columns": ["a"], "filter": "_rowid = 5", "with_row_id": True},
        {"columns": ["a"], "filter": "_rowaddr >= 17179869184 and _rowid < 50", "with_row_address": True},
        {"columns": ["a"], "filter": "_row_created_at_version > 1"},
        {"columns": ["_row_last_updated_at_version"], "filter": "_row_last_updated_at_version >= 4 and a < 60"},
        {"columns": ["a"], "filter": "_row_last_updated_at_version > _row_created_at_version"},
        {"filter": "_ROWID < 4 and s = 'new'"},
        {"columns": ["a"], "filter": "_rowid is null"},
        {"columns": ["_rowid"], "batch_size": 7},
    ],
    ids=str,
)
@pytest.mark.sampled(26)
def test_row_id_columns_of_scans_equal_those_of_pylance(
    tables: dict[str, str], table: str, arguments: dict[str, object]
) -> None:
    theirs, ours = lance.dataset(tables[table]), lance_core.dataset(tables[table])
    expected = theirs.to_table(**arguments)
    assert ours.to_table(**arguments).equals(expected)
    assert ours.scanner(**arguments).projected_schema.equals(expected.schema)
    assert ours.scanner(**arguments).count_rows() == expected.num_rows
    for mine, yours in zip(ours.get_fragments(), theirs.get_fragments(), strict=True):
        assert mine.to_table(**_for_fragments(arguments)).equals(yours.to_table(**_for_fragments(arguments)))


def _for_fragments(arguments: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in arguments.items() if name != "batch_size"}


@TABLES
def test_row_id_columns_of_single_fragments_equal_those_of_pylance(tables: dict[str, str], table: str) -> None:
    theirs, ours = lance.dataset(tables[table]), lance_core.dataset(tables[table])
    for arguments in ({"columns": ["_rowoffset", "_rowid"]}, {"columns": ["a", "_rowoffset"], "filter": "_rowid > 5"}):
        expected = theirs.scanner(fragments=theirs.get_fragments()[1:], **arguments).to_table()
        assert ours.scanner(fragments=ours.get_fragments()[1:], **arguments).to_table().equals(expected)


@TABLES
@pytest.mark.parametrize(
    "columns",
    [None, ["a", "_rowid"], ["_rowaddr", "a"], ["_rowid"], ["x.z", "_rowaddr", "s"]],
    ids=str,
)
def test_rows_taken_by_position_equal_those_of_pylance(
    tables: dict[str, str], table: str, columns: list[str] | None
) -> None:
    theirs, ours = lance.dataset(tables[table]), lance_core.dataset(tables[table])
    for positions in ([0, 82, 3, 40], [5, 5, 4], [70], []):
        assert ours.take(positions, columns).equals(theirs.take(positions, columns))


@TABLES
def test_row_versions_of_taken_rows_equal_those_of_pylance(tables: dict[str, str], table: str) -> None:
    """The reference returns them correctly only for positions in ascending order."""
    theirs, ours = lance.dataset(tables[table]), lance_core.dataset(tables[table])
    columns = ["_row_last_updated_at_version", "a", "_rowoffset", "_row_created_at_version"]
    assert ours.take([0, 40, 82], columns[:3]).equals(theirs.take([0, 40, 82], columns[:3]))
    everything = theirs.to_table(columns=[*columns, "_rowid"])
    assert ours.take([82, 3, 3, 40], columns).to_pylist() == everything.select(columns).take([82, 3, 3, 40]).to_pylist()
    ids = everything["_rowid"].take([70, 2, 81]).to_pylist()
    assert ours._take_rows(ids, columns).to_pylist() == everything.select(columns).take([70, 2, 81]).to_pylist()
    for fragment in ours.get_fragments():
        expected = fragment.to_table(columns=["_rowid", "_row_created_at_version"]).take([2, 0])
        assert fragment.take([2, 0], ["_rowid", "_row_created_at_version"]).equals(expected.combine_chunks())


@TABLES
@pytest.mark.parametrize("columns", [None, ["a", "_rowid", "_rowaddr"], ["s", "_rowaddr"]], ids=str)
def test_rows_taken_by_row_id_equal_those_of_pylance(
    tables: dict[str, str], table: str, columns: list[str] | None
) -> None:
    theirs, ours = lance.dataset(tables[table]), lance_core.dataset(tables[table])
    everything = theirs.to_table(columns=["_rowid"])["_rowid"].to_pylist()
    for ids in (everything, everything[::-3], [everything[7]] * 3 + [everything[2]], []):
        assert ours._take_rows(ids, columns).equals(theirs._take_rows(ids, columns))
    if table == "plain":
        with pytest.raises(RowOutOfRangeError, match="fragment 255 does not exist"):
            ours._take_rows([everything[0], 255 << 32])
        with pytest.raises(RowOutOfRangeError, match=r"no row at offset 9999: it has \d+ rows, including deleted rows"):
            ours._take_rows([everything[0] + 9999])
    else:
        # Deleted ids, and ids that were never assigned.
        assert ours._take_rows([16, 5, 10**9], columns).equals(theirs._take_rows([16, 5, 10**9], columns))
    with pytest.raises(RowOutOfRangeError, match="negative"):
        ours._take_rows([-1])


def test_deleted_rows_taken_by_address_equal_those_of_pylance(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 20), uri, max_rows_per_file=10).delete("a in (3, 14)")
    theirs, ours = lance.dataset(uri), lance_core.dataset(uri)
    for ids in ([2, 3, 4], [3], [(1 << 32) + 4, 0]):
        for ignores in (False, True):
            expected = theirs._take_rows(ids, ignore_deletions=ignores)
            assert ours._take_rows(ids, ignore_deletions=ignores).equals(expected)


@TABLES
def test_the_delta_between_any_versions_equals_that_of_pylance(tables: dict[str, str], table: str) -> None:
    theirs, ours = lance.dataset(tables[table]), lance_core.dataset(tables[table])
    for begin in range(ours.version + 1):
        for end in sorted({begin, begin + 1, ours.version, ours.version + 1}):
            mine = ours.delta(begin_version=begin, end_version=end)
            yours = theirs.delta(begin_version=begin, end_version=end)
            assert mine.get_inserted_rows().read_all().equals(yours.get_inserted_rows().read_all())
            assert mine.get_updated_rows().read_all().equals(yours.get_updated_rows().read_all())
            if end <= ours.version and (table != "plain" or begin == 0):
                assert mine.get_deleted_row_ids().read_all().equals(yours.get_deleted_row_ids().read_all())
    mine = ours.delta(compared_against=2)
    assert mine.get_inserted_rows().schema.equals(theirs.delta(2).get_inserted_rows().schema)
    # pylance cannot represent a rewrite in a list of transactions; the other transactions are the same.
    found = ours.delta(begin_version=0, end_version=3 if table == "spilled" else 2).list_transactions()
    expected = theirs.delta(begin_version=0, end_version=3 if table == "spilled" else 2).list_transactions()
    assert [each.uuid for each in found] == [each.uuid for each in expected]
    assert [each.read_version for each in found] == [each.read_version for each in expected]


def test_invalid_delta_arguments_are_refused(tables: dict[str, str]) -> None:
    ours = lance_core.dataset(tables["stable"])
    for arguments in ({}, {"begin_version": 1}, {"end_version": 1}, {"compared_against": -1}):
        with pytest.raises(InvalidInputError):
            ours.delta(**arguments)
    with pytest.raises(TypeError, match="begin_version"):
        ours.delta("1")
    with pytest.raises(InvalidInputError, match="newer"):
        ours.delta(begin_version=3, end_version=2).get_deleted_row_ids()
    with pytest.raises(VersionNotFoundError):
        ours.delta(begin_version=1, end_version=99).list_transactions()
    with pytest.raises(VersionNotFoundError):
        ours.delta(begin_version=1, end_version=99).get_deleted_row_ids()
    with pytest.raises(InvalidInputError, match="stable row ids, which version 1 does not have"):
        lance_core.dataset(tables["plain"]).delta(1).get_deleted_row_ids()


@TABLES
def test_deletes_by_row_id_columns_leave_the_same_rows_as_pylance(
    tables: dict[str, str], table: str, tmp_path: Path
) -> None:
    for number, predicate in enumerate(
        ["_rowid = 5", "_rowaddr < 3", "_row_created_at_version = 1 and a > 50", "_row_last_updated_at_version > 6"]
    ):
        found = []
        for library in (lance, lance_core):
            uri = str(tmp_path / f"{library.__name__}{number}")
            shutil.copytree(tables[table], uri)
            library.dataset(uri).delete(predicate)
            found.append(assert_same_lineage(uri))
        assert found[0] == found[1]


@pytest.mark.parametrize("ids", [[2**63], [2**64 - 1], [5, 2**63 + 1, 15], np.array([2**63, 6], np.uint64)], ids=str)
def test_take_of_unassigned_row_ids_above_63_bits_matches_pylance(tables: dict[str, str], ids: object) -> None:
    given = ids if isinstance(ids, list) else ids.tolist()
    theirs, ours = lance.dataset(tables["stable"]), lance_core.dataset(tables["stable"])
    assert ours._take_rows(ids, ["a", "_rowid"]).equals(theirs._take_rows(given, ["a", "_rowid"]))
    with pytest.raises(RowOutOfRangeError, match="does not exist"):
        lance_core.dataset(tables["plain"])._take_rows(ids)


@TABLES
@pytest.mark.parametrize("wrong", [-1, 2**64])
def test_row_ids_outside_the_unsigned_64_bit_range_are_refused(tables: dict[str, str], table: str, wrong: int) -> None:
    with pytest.raises(OverflowError):
        lance.dataset(tables[table])._take_rows([wrong])
    for ids in ([wrong], [3, wrong]):
        with pytest.raises(RowOutOfRangeError, match=f"row id {wrong}"):
            lance_core.dataset(tables[table])._take_rows(ids)


def test_a_row_with_a_row_id_in_the_upper_half_of_the_range_is_found(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_core.write_dataset(rows(0, 3), uri, enable_stable_row_ids=True)
    message = lance_core.dataset(uri).manifest.message.fragments[0]
    ids = np.array([7, 2**63 + 9, 2**64 - 2], np.uint64)
    message.inline_row_ids = bytes(RowIdSequence(ids.tolist()).to_inline_metadata().asdict()["Inline"])
    lookup = RowIdLookup([Fragment(message)], lance_core.dataset(uri).locator)
    places = lookup.find(np.array([2**64 - 2, 7, 2**63 + 9, 2**63], np.uint64))
    assert places.positions[places.is_found].tolist() == [2, 0, 1]
