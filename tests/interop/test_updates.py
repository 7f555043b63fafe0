"""Updates by both libraries have the same values, row ids, fragments, transactions, and errors."""

from __future__ import annotations

import datetime
import decimal
import pickle
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_core
from lance_core.errors import InvalidInputError, LanceError
from lance_core.metadata import RowChanges, commit_update, plan_update

LIBRARIES = {"pylance": lance, "lance_core": lance_core}
LINEAGE = ["_row_created_at_version", "_row_last_updated_at_version"]

SCHEMA = pa.schema(
    [
        pa.field("i8", pa.int8()),
        pa.field("i", pa.int64()),
        pa.field("nn", pa.int64(), nullable=False),
        pa.field("f", pa.float32()),
        pa.field("s", pa.string()),
        pa.field("ls", pa.large_string()),
        pa.field("b", pa.binary()),
        pa.field("bo", pa.bool_()),
        pa.field("d", pa.date32()),
        pa.field("ts", pa.timestamp("us")),
        pa.field("tz", pa.timestamp("us", "UTC")),
        pa.field("dec", pa.decimal128(10, 2)),
        pa.field("st", pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.string())])),
        pa.field("l", pa.list_(pa.int32())),
        pa.field("v", pa.list_(pa.float32(), 2)),
        pa.field("dict", pa.dictionary(pa.int8(), pa.string())),
        pa.field("Up", pa.int32()),
        pa.field("dur", pa.duration("s")),
        pa.field("t", pa.time64("us")),
        pa.field("f16", pa.float16()),
        pa.field("sp ace", pa.int32()),
        pa.field("fsb", pa.binary(2)),
        pa.field("u", pa.uint32()),
        pa.field("j", pa.json_()),
    ]
)
DAY = datetime.datetime(2020, 1, 1)  # of a column without a time zone
ROWS = pa.Table.from_pylist(
    [
        {
            "i8": 1,
            "i": row,
            "nn": row,
            "f": 1.5,
            "s": f"a{row}",
            "ls": "L",
            "b": b"q",
            "bo": True,
            "d": DAY.date(),
            "ts": DAY,
            "tz": DAY,
            "dec": decimal.Decimal("1.25"),
            "st": {"x": 1, "y": "z"},
            "l": [1, 2],
            "v": [1.0, 2.0],
            "dict": "d",
            "Up": 1,
            "dur": datetime.timedelta(seconds=3),
            "t": datetime.time(1, 2),
            "sp ace": 1,
            "fsb": b"ab",
            "u": 3,
            "j": '{"x":1}',
        }
        for row in range(4)
    ],
    SCHEMA,
)

VALUES = [
    *({"i8": text} for text in ("300", "i8 + 1", "i", "'5'", "'x'", "NULL")),
    *({"i": text} for text in ("1.7", "f", "'7'", "s", "NULL", "i / 2", "i / 0", "i / (i - 1)", "cast(f as bigint)")),
    *({"i": text} for text in ("nope", "", "1 +", "9223372036854775808", "sum(i)", "(select 1)", "'abc' || s")),
    *({"nn": text} for text in ("i", "NULL", "nullif(i, 2)")),
    *({"f": text} for text in ("1", "i", "'1.5'", "f / 0", "1e300", "NaN")),
    *({"s": text} for text in ("1", "i", "concat(s, '!')", "s || 'x'", "upper(s)", "NULL", "json_extract(j, '$.x')")),
    *({"bo": text} for text in ("i > 1", "1", "'true'")),
    *({"d": text} for text in ("'2021-02-03'", "date '2021-02-03'", "5")),
    *({"ts": text} for text in ("'2021-02-03 04:05:06'", "timestamp '2021-02-03 04:05:06'", "5")),
    *({"dec": text} for text in ("2.5", "'2.5'", "1000000000", "1")),
    *({"st": text} for text in ("named_struct('x', 1, 'y', 'k')", "NULL", "st", "named_struct('q', 1)", "5", "st.x")),
    *({"l": text} for text in ("[1, 2, 3]", "make_array(i, 2)", "NULL", "l")),
    *({"v": text} for text in ("[1, 2]", "[1.0, 2.0, 3.0]", "v", "NULL")),
    *({"dict": text} for text in ("'q'", "s", "NULL")),
    *({"Up": text} for text in ("Up + 1", "up")),
    *({"fsb": text} for text in ("X'6162'", "X'616263'")),
    *({"u": text} for text in ("-1", "i - 5")),
    *({"j": text} for text in ("""'{"y": [2]}'""", "j", "'{'", "s", "true", "1.5", "NULL", "json_extract(j, '$.x')")),
    *({name: "1"} for name in ("nope", "up", "_rowid", "st.x", "st.nope", "l.item")),
    *({name: "'a'"} for name in ("ls", "b")),
    {"tz": "'2021-02-03 04:05:06'"},
    {"dur": "5"},
    {"t": "'03:04:05'"},
    {"f16": "1.5"},
    {"sp ace": "`sp ace` + 1"},
    {"i": "i8", "nn": "i8 + 10"},
    {"i": "1", "I": "2"},
    {},
]


def _outcome(library: Any, uri: Any, *arguments: Any, **named: Any) -> Any:
    """Return the result of an update, or the built-in classes of its error."""
    try:
        return library.dataset(uri).update(*arguments, **named)
    except Exception as error:  # noqa: BLE001  # of either library
        return error


def test_updated_values_are_computed_from_the_old_values_of_the_row(tmp_path: Path) -> None:
    """Pylance computes them one after another, in an order that varies between runs."""
    dataset = lance_core.write_dataset(pa.table({"i": [0, 1], "j": [5, 6]}), tmp_path)
    dataset.update({"i": "j", "j": "i + 10"})
    assert dataset.to_table().to_pydict() == {"i": [5, 6], "j": [10, 11]}


@pytest.mark.parametrize("updates", VALUES, ids=str)
@pytest.mark.sampled(40)
def test_update_expressions_are_computed_and_cast_as_in_pylance(tmp_path: Path, updates: dict[str, str]) -> None:
    outcomes = {}
    for name, library in LIBRARIES.items():
        lance.write_dataset(ROWS, tmp_path / name)
        outcomes[name] = _outcome(library, tmp_path / name, updates, "i < 3")
    theirs, ours = outcomes.values()
    if isinstance(theirs, Exception):
        assert isinstance(ours, LanceError), ours
        classes = [kind for kind in type(theirs).__mro__[:-2] if kind.__module__ == "builtins"]
        assert isinstance(ours, classes[0]), (type(ours), theirs)
        assert lance.dataset(tmp_path / "lance_core").latest_version == 1
        assert len(list((tmp_path / "lance_core" / "data").iterdir())) == 1
    else:
        assert ours == theirs
        found = [library.dataset(tmp_path / name).to_table() for name, library in LIBRARIES.items()]
        assert found[0] == found[1] == lance.dataset(tmp_path / "lance_core").to_table()


@pytest.mark.parametrize(
    ("updates", "where", "kind"),
    [
        ({"i": 5}, None, TypeError),
        ({5: "1"}, None, TypeError),
        ([("i", "1")], None, TypeError),
        ({"i": "1"}, 5, TypeError),
        ({"i": "1"}, "nope = 1", ValueError),
        ({"i": "1"}, "", ValueError),
    ],
)
def test_invalid_update_arguments_are_refused_with_the_same_built_in_exception_as_in_pylance(
    tmp_path: Path, updates: Any, where: Any, kind: type[Exception]
) -> None:
    lance.write_dataset(ROWS, tmp_path)
    for library in LIBRARIES.values():
        with pytest.raises(kind):
            library.dataset(tmp_path).update(updates, where)
    assert lance.dataset(tmp_path).latest_version == 1


def test_an_update_can_set_a_value_to_an_empty_list(tmp_path: Path) -> None:
    lance.write_dataset(ROWS, tmp_path)
    lance_core.dataset(tmp_path).update({"l": "[]"})
    assert lance.dataset(tmp_path).to_table()["l"].to_pylist() == [[]] * 4


LAYOUTS = ("plain", "stable", "indexed", "stable indexed", "branch", "wide")
CONDITIONS = [None, "a % 3 = 0", "a < 5", "a = 100", "a > 4 and b <> 'x6'", pc.field("a") > 17, "_rowid = 2", "true"]


def _table(uri: Path, layout: str, version: str) -> str:
    """Create a table with several fragments, one with deleted rows, and return the URI of the table or its branch."""
    rows = pa.table({"a": range(20), "b": [f"x{row}" for row in range(20)], "c": [1.5] * 20})
    dataset = lance.write_dataset(
        rows, uri, max_rows_per_file=5, data_storage_version=version, enable_stable_row_ids="stable" in layout
    )
    if "indexed" in layout:
        dataset.create_scalar_index("a", "BTREE")
        dataset.create_scalar_index("c", "BTREE")
    if layout == "branch":
        dataset = dataset.create_branch("side")
    if layout == "wide":
        dataset.add_columns({"d": "a * 2"})
    dataset.delete("a = 7")
    return str(dataset.uri)


def _shown(uri: str, stable: bool) -> dict[str, Any]:
    """Return the content of a table, without random names."""
    dataset = lance.dataset(uri)
    dataset.validate()
    lance_core.dataset(uri).validate()
    operation = dataset.read_transaction(dataset.version).operation
    fragments = [fragment.metadata.to_json() for fragment in dataset.get_fragments()]
    for fragment in fragments:
        for file in fragment["files"]:
            file.pop("path")
            file.pop("file_size_bytes")
        # The ids are compared with the rows, because the same ids can be stored in several forms.
        fragment["row_id_meta"] = fragment["row_id_meta"] is not None
        fragment["deletion_file"] = (fragment["deletion_file"] or {}).get("num_deleted_rows")
    return {
        "rows": dataset.to_table(columns=[*dataset.schema.names, *LINEAGE] if stable else None, with_row_id=True),
        "fragments": fragments,
        "indices": {
            index.name: [sorted(segment.fragment_ids) for segment in index.segments]
            for index in dataset.describe_indices()
        },
        "found": dataset.to_table(filter="a >= 100", columns=["a"]).num_rows,
        "operation": (
            type(operation).__name__,
            sorted(operation.removed_fragment_ids),
            sorted(fragment.id for fragment in operation.updated_fragments),
            [(fragment.id, fragment.physical_rows) for fragment in operation.new_fragments],
            operation.fields_modified,
            sorted(operation.fields_for_preserving_frag_bitmap),
            operation.update_mode,
            operation.updated_fragment_offsets,
        ),
        "properties": dataset.read_transaction(dataset.version).transaction_properties,
    }


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
@pytest.mark.parametrize("where", CONDITIONS, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.sampled(14)
def test_updates_of_lance_core_and_pylance_leave_equal_tables(
    tmp_path: Path, layout: str, where: Any, version: str
) -> None:
    if version == "0.1" and (layout != "plain" or str(where) not in ("None", "a < 5", "true")):
        pytest.skip("pylance cannot read such a table of format 0.1 this way")
    shown = {}
    for name, library in LIBRARIES.items():
        uri = _table(tmp_path / name, layout, version)
        dataset = library.dataset(uri)
        counts = [dataset.update({"a": "a + 100", "c": "2"}, where), dataset.update({"b": "b || '!'"}, where="a > 100")]
        shown[name] = {"counts": counts, "version": dataset.version, **_shown(uri, "stable" in layout)}
    assert shown["lance_core"] == shown["pylance"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_both_libraries_update_the_same_table_in_turn(tmp_path: Path, layout: str) -> None:
    uri = _table(tmp_path / "t", layout, "2.1")
    for step in range(6):
        library = (lance_core, lance)[step % 2]
        assert library.dataset(uri).update({"a": "a + 100"}, f"a % 5 = {step % 3}") == {
            "num_rows_updated": 4 - step % 3 // 2
        }
    lance.dataset(uri).optimize.compact_files()
    values = sorted(row % 100 for row in lance.dataset(uri).to_table()["a"].to_pylist())
    assert values == [row for row in range(20) if row != 7]
    assert lance_core.dataset(uri).to_table() == lance.dataset(uri).to_table()


def test_blobs_of_updated_rows_are_moved_with_the_rows(tmp_path: Path) -> None:
    small, large = b"x", bytes(range(256)) * 1000
    for version, field in (
        ("2.1", pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})),
        ("2.2", lance.blob_field("b")),
    ):
        values = [small, large, None, b""]
        blobs = lance.blob_array(values) if version == "2.2" else pa.array(values, pa.large_binary())
        rows = pa.table([pa.array([1, 2, 3, 4]), blobs], schema=pa.schema([pa.field("a", pa.int64()), field]))
        uri = tmp_path / version
        lance.write_dataset(rows, uri, data_storage_version=version)
        assert lance_core.dataset(uri).update({"a": "a + 10"}, "a in (2, 3)") == {"num_rows_updated": 2}
        for library in LIBRARIES.values():
            dataset = library.dataset(uri)
            found = dict(zip(dataset.to_table()["a"].to_pylist(), range(4), strict=True))
            assert sorted(found) == [1, 4, 12, 13]
            read = [file and file.readall() for file in dataset.take_blobs("b", indices=[found[1], found[12]])]
            assert read == [small, large]
            assert dataset.to_table(columns=["b"])["b"][found[13]].as_py() is None


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
def test_updates_that_compute_blobs_are_refused(tmp_path: Path, library: Any) -> None:
    rows = pa.table(
        [pa.array([1]), lance.blob_array([b"x"])], schema=pa.schema([("a", pa.int64()), lance.blob_field("b")])
    )
    lance.write_dataset(rows, tmp_path)
    with pytest.raises(ValueError, match="blob"):
        library.dataset(tmp_path).update({"b": "X'61'"})


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
def test_an_update_planned_on_an_old_version_is_merged_with_later_changes(tmp_path: Path, library: Any) -> None:
    lance.write_dataset(pa.table({"a": range(6)}), tmp_path, max_rows_per_file=3)
    handle = library.dataset(tmp_path)
    lance.write_dataset(pa.table({"a": [90]}), tmp_path, mode="append")
    lance.dataset(tmp_path).delete("a = 1")
    assert handle.update({"a": "a + 10"}, "a in (0, 2, 4)") == {"num_rows_updated": 3}
    assert sorted(handle.to_table()["a"].to_pylist()) == [3, 5, 10, 12, 14, 90]
    assert handle.version == 4


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
@pytest.mark.parametrize("rival", LIBRARIES.values(), ids=LIBRARIES)
def test_an_update_of_rows_that_another_writer_has_changed_is_planned_again(
    tmp_path: Path, library: Any, rival: Any
) -> None:
    lance.write_dataset(pa.table({"a": range(6)}), tmp_path, max_rows_per_file=3)
    handle = library.dataset(tmp_path)
    rival.dataset(tmp_path).update({"a": "a + 100"}, "a in (0, 1)")
    assert handle.update({"a": "a + 10"}, "a in (0, 2, 4)") == {"num_rows_updated": 2}
    assert sorted(handle.to_table()["a"].to_pylist()) == [3, 5, 12, 14, 100, 101]


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
def test_an_update_without_retries_reports_the_conflict(tmp_path: Path, library: Any) -> None:
    lance.write_dataset(pa.table({"a": range(6)}), tmp_path)
    handle = library.dataset(tmp_path)
    lance.dataset(tmp_path).update({"a": "a + 100"}, "a = 0")
    with pytest.raises(OSError, match=r"had a conflict|concurrent writers"):
        handle.update({"a": "a + 10"}, "a = 0", conflict_retries=0)


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
def test_an_update_of_a_replaced_table_is_refused(tmp_path: Path, library: Any) -> None:
    lance.write_dataset(pa.table({"a": range(6)}), tmp_path)
    handle = library.dataset(tmp_path)
    lance.write_dataset(pa.table({"a": range(6)}), tmp_path, mode="overwrite")
    with pytest.raises(OSError):  # noqa: PT011  # the messages differ
        handle.update({"a": "a + 10"})


def test_files_written_by_an_update_have_the_requested_format(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"a": range(6)}), tmp_path, data_storage_version="2.0")
    dataset = lance_core.dataset(tmp_path)
    dataset.update({"a": "7"}, "a = 2", data_storage_version="2.2")
    files = [file for fragment in lance.dataset(tmp_path).get_fragments() for file in fragment.data_files()]
    assert [(file.file_major_version, file.file_minor_version) for file in files] == [(2, 0), (2, 2)]
    with pytest.raises(InvalidInputError, match="unknown data storage version"):
        dataset.update({"a": "7"}, data_storage_version="9")


def test_update_tasks_are_executed_in_other_processes_and_committed_together(tmp_path: Path) -> None:
    uri = _table(tmp_path / "t", "stable indexed", "2.2")
    dataset = lance_core.dataset(uri)
    before = dataset.to_table(with_row_id=True)
    plan = pickle.loads(pickle.dumps(plan_update(dataset, {"a": "a + 100"}, "a % 2 = 0", num_tasks=3)))
    assert [len(task.fragment_ids) for task in plan.tasks] == [2, 1, 1]
    results = [pickle.loads(pickle.dumps(task.execute(lance_core.dataset(uri)))) for task in plan.tasks]
    assert lance.dataset(uri).latest_version == dataset.version
    updated = commit_update(dataset, results)
    assert (updated.rows_updated, dataset.version) == (10, plan.read_version + 1)
    old = dict(zip(before["_rowid"].to_pylist(), before["a"].to_pylist(), strict=True))
    for library in LIBRARIES.values():
        found = library.dataset(uri).to_table(with_row_id=True)
        new = dict(zip(found["_rowid"].to_pylist(), found["a"].to_pylist(), strict=True))
        assert new == {row: value + 100 * (value % 2 == 0) for row, value in old.items()}
    with pytest.raises(InvalidInputError, match="same rows"):
        RowChanges.merged([results[0], results[0]])
    with pytest.raises(InvalidInputError, match="one version"):
        RowChanges.merged([])
