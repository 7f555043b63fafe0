"""Tables with the defects of old releases are read correctly, and the next commit repairs them.

The tables were written by ``write_tables.py`` in this directory; the ``case.json`` of each table lists the releases
that wrote to it."""

from __future__ import annotations

import json
import shutil
import zipfile
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core import cli
from lance_core.errors import CorruptDataError, InvalidInputError, NotFoundError
from lance_core.places.location import open_log
from lance_core.repair import ProblemKind, diagnose, repair
from lance_core.table.index_metadata import read_fragment_bitmap
from lance_core.table.index_rules import decode_index_section
from lance_pipelines.maintenance.health import TableHealth
from lance_pipelines.maintenance.policy import MaintenancePolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ARCHIVE = Path(__file__).parent / "tables.zip"


@dataclass(frozen=True)
class Case:
    """A table and its correct content."""

    releases: tuple[str, ...]
    x: tuple[int, ...]
    kind: ProblemKind | None
    file_version: str = "0.1"
    factors: tuple[tuple[str, int], ...] = (("x", 1),)

    def rows(self, x: Sequence[int]) -> dict[str, list[int]]:
        """Return rows in which each column is a multiple of the first."""
        return {name: [factor * each for each in x] for name, factor in self.factors}


FOUR = (("x", 1), ("y", 2), ("b", 4), ("c", 5))
CASES = {
    "row-counts": Case(("0.7.5", "0.8.0"), (*range(10), *range(20, 102)), ProblemKind.ROW_COUNTS),
    "unreliable-coverage": Case(("0.8.14",), tuple(range(288)), ProblemKind.UNRELIABLE_COVERAGE),
    "shared-field-ids": Case(("0.10.5",), tuple(range(8)), ProblemKind.SHARED_FIELD_IDS, factors=FOUR),
    "renumbered-field-ids": Case(("0.10.5", "0.10.18"), tuple(range(4)), None, factors=FOUR),
    "partly-renumbered-field-ids": Case(("0.10.5", "0.10.18"), tuple(range(4)), None, factors=FOUR),
    "understated-format": Case(("0.16.1",), tuple(range(20)), ProblemKind.UNDERSTATED_FORMAT, "2.0"),
    "overlapping-coverage": Case(("0.21.0",), tuple(range(288)), ProblemKind.OVERLAPPING_COVERAGE, "2.0"),
}
CERTAIN = [name for name, case in CASES.items() if case.kind not in (None, ProblemKind.UNRELIABLE_COVERAGE)]
RENUMBERED = ("renumbered-field-ids", "partly-renumbered-field-ids")
"""The reference gave the shared ids anew; of the second it does not find every column any more."""

INDEXED = ("unreliable-coverage", "overlapping-coverage")

WRITES: dict[str, Callable[[lance_core.LanceDataset], object]] = {
    "append": lambda dataset: lance_core.write_dataset(_first_rows(dataset), dataset.uri, mode="append"),
    "overwrite": lambda dataset: lance_core.write_dataset(_first_rows(dataset), dataset.uri, mode="overwrite"),
    "delete": lambda dataset: dataset.delete("x = 3"),
    "delete of nothing": lambda dataset: dataset.delete("x < 0"),
    "config": lambda dataset: dataset.update_config({"key": "value"}),
    "metadata": lambda dataset: dataset.update_metadata({"key": "value"}),
    "compaction": lambda dataset: dataset.optimize.compact_files(),
    "restore": lambda dataset: dataset.restore(),
}
REMAINING: dict[str, Callable[[Sequence[int]], Sequence[int]]] = {
    "append": lambda x: (*x, x[0], x[1]),
    "overwrite": lambda x: x[:2],
    "delete": lambda x: [each for each in x if each != 3],
}


def _first_rows(dataset: lance_core.LanceDataset) -> pa.Table:
    return dataset.take([0, 1])


def unpacked(case: str, directory: Path) -> str:
    with zipfile.ZipFile(ARCHIVE) as archive:
        for member in archive.namelist():
            if member.startswith(f"{case}/"):
                archive.extract(member, directory)
    return str(directory / case / "table.lance")


def _content(table: pa.Table) -> dict[str, list[int]]:
    """Return all columns except vectors, sorted by the first one, because 0.8.14 lists fragments in another order."""
    found: dict[str, list[int]] = (
        table.drop_columns([each for each in table.schema.names if each == "vector"]).sort_by("x").to_pydict()
    )
    return found


def _ailments(uri: str) -> list[ProblemKind]:
    return [finding.kind for finding in diagnose(open_log(uri, None))]


def _reads_right(library: object, uri: str, case: Case, x: Sequence[int], *, columns: Sequence[str]) -> None:
    dataset = library.dataset(uri)
    expected = {name: values for name, values in case.rows(sorted(x)).items() if name in columns}
    assert dataset.count_rows() == len(x)
    assert _content(dataset.to_table()) == expected
    assert dataset.data_storage_version == case.file_version
    dataset.validate()


def test_archive_records_the_releases_that_wrote_each_case() -> None:
    with zipfile.ZipFile(ARCHIVE) as archive:
        names = [name for name in archive.namelist() if name.endswith("case.json")]
        found = [json.loads(archive.read(name)) for name in names]
    releases = {record["case"]: tuple(each["pylance"] for each in record["writers"]) for record in found}
    assert releases == {"mixed-formats": ("0.16.1",), **{name: case.releases for name, case in CASES.items()}}


@pytest.mark.parametrize("name", CASES)
def test_every_read_method_on_a_defective_table_returns_the_correct_rows(name: str, tmp_path: Path) -> None:
    case, uri = CASES[name], unpacked(name, tmp_path)
    dataset = lance_core.dataset(uri)
    x = list(case.x)
    rows = case.rows(x)
    assert dataset.count_rows() == len(x)
    assert _content(dataset.to_table()) == rows
    assert dataset.data_storage_version == case.file_version
    for column in rows:
        assert sorted(dataset.to_table(columns=[column])[column].to_pylist()) == rows[column]
        some = rows[column][2:7]
        wanted = f"{column} IN ({', '.join(map(str, some))}) AND x >= 0"
        assert _content(dataset.to_table(filter=wanted)) == {key: values[2:7] for key, values in rows.items()}
        assert dataset.count_rows(filter=wanted) == len(some)
        last = dataset.to_table(filter=f"{column} = {rows[column][-1]} AND x > 0")
        assert _content(last) == {key: values[-1:] for key, values in rows.items()}
    batches = pa.Table.from_batches(dataset.to_batches(batch_size=3))
    assert _content(batches) == rows
    order = dataset.to_table()["x"].to_pylist()
    places = [len(x) - 1, 0, len(x) // 2]
    assert dataset.take(places).select(list(rows)).to_pydict() == case.rows([order[place] for place in places])
    assert sum(fragment.count_rows() for fragment in dataset.get_fragments()) == len(x)
    assert dataset.scanner(limit=3, offset=2).to_table()["x"].to_pylist() == order[2:5]
    theirs = [each["metadata"] for each in lance.dataset(uri).versions()]
    assert [each["metadata"] for each in dataset.versions()] == theirs
    health = TableHealth.of(dataset, MaintenancePolicy())
    assert (health.rows, health.fragments) == (len(x), len(dataset.get_fragments()))


@pytest.mark.parametrize("name", ["shared-field-ids", *RENUMBERED])
def test_statistics_of_columns_that_are_not_read_exclude_no_rows(name: str, tmp_path: Path) -> None:
    """The file of ``y`` has statistics of a dropped column under the id of ``b``."""
    dataset = lance_core.dataset(unpacked(name, tmp_path))
    for x in CASES[name].x:
        assert dataset.to_table(filter=f"y >= 0 AND b = {4 * x} AND c = {5 * x}")["x"].to_pylist() == [x]


@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(14)
def test_every_write_method_repairs_a_defective_table_for_both_libraries(name: str, verb: str, tmp_path: Path) -> None:
    case, uri = CASES[name], unpacked(name, tmp_path)
    before = lance_core.dataset(uri)
    columns = [column for column in before.schema.names if column != "vector"]
    version = before.version
    WRITES[verb](before)
    after = lance_core.dataset(uri)
    if verb == "compaction" and after.version == version:
        # There is nothing to compact if there is one fragment, or if fragments differ in their indices.
        assert name in ("overlapping-coverage", *RENUMBERED)
        return
    x = list(REMAINING.get(verb, tuple)(case.x))
    assert _ailments(uri) == []
    _reads_right(lance_core, uri, case, x, columns=columns)
    if name == "partly-renumbered-field-ids" and verb != "overwrite":
        with pytest.raises(pa.ArrowInvalid, match="No page info found for field: c"):
            lance.dataset(uri).to_table()
        return
    _reads_right(lance, uri, case, x, columns=columns)

    lance.dataset(uri).delete("x = 1")
    lance_core.dataset(uri).delete("x = 0")
    x = [each for each in x if each > 1]
    _reads_right(lance_core, uri, case, x, columns=columns)
    _reads_right(lance, uri, case, x, columns=columns)


@pytest.mark.parametrize("name", CASES)
def test_a_delete_planned_by_fragment_on_a_defective_table_is_committed(name: str, tmp_path: Path) -> None:
    """The commit compares its deletion files with the existing ones, and those with the rows of their fragment."""
    case, uri = CASES[name], unpacked(name, tmp_path)
    dataset = lance_core.dataset(uri)
    fragment = next(each for each in dataset.get_fragments() if each.count_rows(filter="x = 3"))
    operation = lance_core.LanceOperation.Delete([fragment.delete("x = 3")], [], "x = 3")
    lance_core.LanceDataset.commit(uri, operation, read_version=dataset.version)
    x = [each for each in case.x if each != 3]
    _reads_right(lance_core, uri, case, x, columns=list(case.rows(())))
    assert _ailments(uri) == []


@pytest.mark.parametrize("name", CASES)
def test_a_pylance_commit_on_a_defective_table_is_read_correctly(name: str, tmp_path: Path) -> None:
    case, uri = CASES[name], unpacked(name, tmp_path)
    lance.dataset(uri).update_config({"key": "value"})
    columns = list(case.rows(()))
    _reads_right(lance_core, uri, case, list(case.x), columns=columns)
    assert _ailments(uri) == []
    lance_core.dataset(uri).delete("x = 1")
    x = [each for each in case.x if each != 1]
    _reads_right(lance_core, uri, case, x, columns=columns)
    if name in ("shared-field-ids", "partly-renumbered-field-ids"):
        # It assigns new ids to all files, and does not find them in files that stored each field once.
        with pytest.raises(pa.ArrowInvalid, match=r"out of range|No page info found"):
            lance.dataset(uri).to_table()
    else:
        _reads_right(lance, uri, case, x, columns=columns)


def test_pylance_reads_a_defective_table_incorrectly_until_the_next_commit(tmp_path: Path) -> None:
    """If the reference changes, the workaround in this library may no longer be needed."""
    shared = unpacked("shared-field-ids", tmp_path)
    assert lance.dataset(shared).to_table()["b"].to_pylist()[:4] == [0, 3, 6, 9]
    assert lance_core.dataset(shared).to_table()["b"].to_pylist()[:4] == [0, 4, 8, 12]
    with pytest.raises(OSError, match="Field id 2 is duplicated"):
        lance.dataset(shared).validate()
    counts = unpacked("row-counts", tmp_path)
    with pytest.raises(OSError, match="incorrect physical_rows"):
        lance.dataset(counts).validate()
    with pytest.raises(pa.ArrowInvalid, match="Cannot open file"):
        lance.dataset(unpacked("understated-format", tmp_path)).to_table(filter="x > 3")
    with pytest.raises(OSError, match="has overlapping fragments"):
        lance.dataset(unpacked("overlapping-coverage", tmp_path)).validate()


@pytest.mark.parametrize("name", CERTAIN)
def test_validation_names_the_defect_until_the_next_commit(name: str, tmp_path: Path) -> None:
    uri = unpacked(name, tmp_path)
    with pytest.raises(
        CorruptDataError, match=rf"has a defect \({CASES[name].kind}\): .*the next commit repairs the defect"
    ):
        lance_core.dataset(uri).validate()
    lance_core.dataset(uri).update_config({"key": "value"})
    lance_core.dataset(uri).validate()


FOUND = {
    "row-counts": "wrong row counts in version 3 (fragment 0 records 90 rows but has 100): ",
    "shared-field-ids": "shared field ids in version 7 (fragment 0 has several data files for the same fields: 2, 3): ",
    "understated-format": "understated format in version 2 (format 0.1 is recorded for data files in format 2.0): ",
    "overlapping-coverage": "overlapping coverage in version 4 (index 'vector_idx'): ",
    "unreliable-coverage": "unreliable coverage in version 6 (index 'vector_idx'): ",
    "mixed-formats": "mixed formats in version 2 (0.1, 2.0): restore a version whose data files all have the same "
    "format",
}


@pytest.mark.parametrize("name", FOUND)
def test_doctor_names_the_defect_of_a_table_and_does_not_repair_it(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = unpacked(name, tmp_path)
    before = {path: path.read_bytes() for path in Path(uri).rglob("*") if path.is_file()}
    assert cli.main(["doctor", uri, "--apply", "--min-age", "0s"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(FOUND[name])
    assert len(lines) == (2 if name == "shared-field-ids" else 1)
    assert {path: path.read_bytes() for path in Path(uri).rglob("*") if path.is_file()} == before
    finding = diagnose(open_log(uri, None))[0]
    with pytest.raises(InvalidInputError, match="cannot be repaired"):
        repair(open_log(uri, None), finding)


def test_version_with_files_of_several_formats_is_refused_and_earlier_version_can_be_restored(tmp_path: Path) -> None:
    uri = unpacked("mixed-formats", tmp_path)
    with pytest.raises(CorruptDataError, match="restore a version whose data files all have the same format"):
        lance_core.dataset(uri)
    with pytest.raises(OSError, match="mixture of file versions"):
        lance.dataset(uri).update_config({"key": "value"})
    first = lance_core.dataset(uri, version=1)
    assert first.to_table(filter="x < 3")["x"].to_pylist() == [0, 1, 2]
    first.restore()
    case = Case((), (), None, "2.0")
    for library in (lance_core, lance):
        _reads_right(library, uri, case, range(10), columns=["x"])


@pytest.mark.parametrize("commit", [False, True], ids=["before the commit", "after it"])
@pytest.mark.parametrize("name", INDEXED)
def test_pylance_finds_every_nearest_neighbor_before_and_after_a_commit(
    name: str, commit: bool, tmp_path: Path
) -> None:
    uri = unpacked(name, tmp_path)
    if commit:
        lance_core.dataset(uri).delete("x = 5")
    dataset = lance.dataset(uri)
    rows = dataset.to_table()
    vectors, x = np.stack(rows["vector"].to_numpy()), rows["x"].to_numpy()
    for vector in vectors[::9]:
        nearest = {"column": "vector", "q": vector, "k": 10, "refine_factor": 30}
        found = dataset.to_table(columns=["x"], nearest=nearest)["x"].to_pylist()
        assert found == x[np.argsort(((vectors - vector) ** 2).sum(axis=1), kind="stable")[:10]].tolist()


def test_index_coverage_after_a_commit_equals_that_of_pylance(tmp_path: Path) -> None:
    def coverage(uri: str) -> list[set[int]]:
        section = lance_core.dataset(uri).manifest.index_section
        return [set(read_fragment_bitmap(index) or ()) for index in decode_index_section(section)]

    ours, theirs = (unpacked("overlapping-coverage", tmp_path / each) for each in ("ours", "theirs"))
    lance_core.dataset(ours).update_config({"key": "value"})
    lance.dataset(theirs).update_config({"key": "value"})
    assert coverage(ours) == coverage(theirs) == [{0}, {1}]
    unreliable = unpacked("unreliable-coverage", tmp_path)
    lance_core.dataset(unreliable).update_config({"key": "value"})
    assert coverage(unreliable) == [set()]


@pytest.mark.parametrize("name", CASES)
def test_cleanup_keeps_the_files_that_the_unrepaired_version_references(name: str, tmp_path: Path) -> None:
    uri = unpacked(name, tmp_path)
    columns = ["x", "b"] if name == "partly-renumbered-field-ids" else None
    before = lance.dataset(uri).to_table(columns)
    lance_core.dataset(uri).cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert len(lance.dataset(uri).versions()) == 1
    assert lance.dataset(uri).to_table(columns) == before
    assert lance_core.dataset(uri).count_rows() == len(CASES[name].x)


@pytest.mark.parametrize("name", CASES)
def test_table_without_its_data_files_can_be_opened_but_not_read(name: str, tmp_path: Path) -> None:
    uri = unpacked(name, tmp_path)
    rows = lance_core.dataset(uri).to_table().schema
    versions = lance_core.dataset(uri).version
    shutil.rmtree(Path(uri) / "data")
    dataset = lance_core.dataset(uri)
    assert dataset.schema == rows
    assert [each["version"] for each in dataset.versions()] == list(range(1, versions + 1))
    assert dataset.config() == {}
    assert dataset.tags.list() == {}
    assert [each.version for each in [dataset.checkout_version(1)]] == [1]
    for read in (dataset.to_table, lambda: dataset.take([0]), lambda: dataset.to_table(filter="x > 1")):
        with pytest.raises(NotFoundError):
            read()
    assert ProblemKind.MISSING_DATA_FILE in _ailments(uri)
    if name == "row-counts":
        # The row count is stored only in the data files.
        for verb in (dataset.count_rows, lambda: dataset.update_config({"key": "value"}), dataset.validate):
            with pytest.raises(NotFoundError):
                verb()
        assert lance_core.dataset(uri).version == versions
    else:
        assert dataset.count_rows() == len(CASES[name].x)


@pytest.mark.parametrize("name", CASES)
def test_branches_and_clones_of_a_defective_table_have_the_correct_rows(name: str, tmp_path: Path) -> None:
    case, uri = CASES[name], unpacked(name, tmp_path)
    columns = list(case.rows(()))
    lance_core.dataset(uri).create_branch("b")
    clone = str(tmp_path / "clone")
    lance_core.dataset(uri).shallow_clone(clone, lance_core.dataset(uri).version)
    for made in (f"{uri}/tree/b", clone):
        _reads_right(lance_core, made, case, case.x, columns=columns)
        if name != "partly-renumbered-field-ids":
            _reads_right(lance, made, case, case.x, columns=columns)
        lance_core.dataset(made).delete("x = 3")
        x = [each for each in case.x if each != 3]
        _reads_right(lance_core, made, case, x, columns=columns)
    assert lance_core.dataset(uri).count_rows() == len(case.x)
