"""The health card of a table version: grades, due maintenance, and charts."""

from __future__ import annotations

import base64
import re
import time
from datetime import timedelta
from pathlib import Path
from xml.etree import ElementTree

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.metadata import IndexCoverage, VersionLog
from lance_pipelines.maintenance import health_card
from lance_pipelines.maintenance.health_card import Grade, HealthCard
from lance_pipelines.maintenance.policy import (
    CleanupPolicy,
    CompactionPolicy,
    DeletionPolicy,
    IndexPolicy,
    MaintenancePolicy,
)

AT_ONCE = CleanupPolicy(retain_versions=1, older_than=timedelta(0), min_age=timedelta(0))


def write(uri: str, *sizes: int) -> None:
    for num_rows in sizes:
        lance_core.write_dataset(pa.table({"id": range(num_rows)}), uri, mode="append")


def card(uri: str, **policy) -> HealthCard:
    return HealthCard.of(lance_core.dataset(uri), MaintenancePolicy(**policy))


def part(card: HealthCard, name: str):
    return next(part for part in card.parts if part.part == name)


def cells(markdown: str, first: str) -> list[str]:
    (line,) = [line for line in markdown.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_table_without_due_maintenance_has_grade_a(uri) -> None:
    write(uri, 10, 10)
    found = card(uri)
    assert found.grade is Grade.A
    assert found.headline() == "A: no maintenance is due"
    assert [part.next_step for part in found.parts] == ["", "", ""]
    assert cells(found.markdown(), "Fragments") == ["Fragments", "A", "2 small fragments < 16", "nothing"]


@pytest.mark.parametrize(
    ("fragments", "grade"), [(1, "A"), (2, "B"), (7, "B"), (8, "C"), (31, "C"), (32, "D"), (127, "D"), (128, "F")]
)
def test_more_fragments_to_merge_lower_the_grade(uri, fragments, grade) -> None:
    write(uri, 1)
    dataset = lance_core.dataset(uri)
    template = dataset.manifest.message.fragments[0]
    for number in range(1, fragments):
        dataset.manifest.message.fragments.add().CopyFrom(template)
        dataset.manifest.message.fragments[-1].id = number
    policy = MaintenancePolicy(compaction=CompactionPolicy(min_small_fragments=2))
    assert part(HealthCard.of(dataset, policy), "Fragments").grade.name == grade


@pytest.mark.parametrize(("deleted", "grade"), [(10, "A"), (11, "B"), (24, "B"), (25, "C"), (50, "D"), (75, "F")])
def test_more_deleted_rows_lower_the_grade(uri, deleted, grade) -> None:
    write(uri, 100)
    lance_core.dataset(uri).delete(f"id < {deleted}")
    found = part(card(uri, deletion=DeletionPolicy(max_deleted_fraction=0.1)), "Deleted rows")
    assert found.grade.name == grade
    assert found.next_step.startswith("materialize deletions: rewrite 1 fragment (" if grade != "A" else "")


def test_card_shows_the_bytes_that_a_cleanup_of_removable_versions_frees(uri) -> None:
    write(uri, 1000)
    old = sum(path.stat().st_size for path in Path(uri, "data").iterdir())
    lance_core.write_dataset(pa.table({"id": [1]}), uri, mode="overwrite")
    found = part(card(uri, cleanup=AT_ONCE), "Old versions")
    assert found.grade is Grade.B
    assert re.fullmatch(r"clean up: remove 1 version, free ([\d.]+) KiB", found.next_step)
    assert float(found.next_step.split()[-2]) == pytest.approx(old / 1024, abs=0.01)


def test_files_that_a_kept_version_needs_are_not_reclaimable(uri) -> None:
    write(uri, 10, 10, 10)
    assert part(card(uri, cleanup=AT_ONCE), "Old versions").next_step == "clean up: remove 2 versions, free 0 bytes"


def test_health_card_of_an_older_version_does_not_grade_old_versions(uri) -> None:
    write(uri, 10, 10, 10)
    older = HealthCard.of(lance_core.dataset(uri, version=2), MaintenancePolicy(cleanup=AT_ONCE))
    assert part(older, "Old versions").found == "assessed only for the latest version (3)"
    assert (older.health.version, older.health.fragments) == (2, 2)


def test_health_card_grades_a_disabled_part_of_the_policy_and_suggests_no_next_step_for_the_part(uri) -> None:
    write(uri, *[1] * 16)
    found = card(uri, compaction=None, deletion=None, cleanup=None)
    fragments = part(found, "Fragments")
    assert (fragments.grade, fragments.next_step) == (Grade.B, "")
    assert fragments.found == "16 small fragments >= 16; compaction is disabled"


def test_a_damaged_tag_does_not_prevent_the_health_card(uri) -> None:
    write(uri, 1, 1)
    lance_core.dataset(uri).tags.create("kept", 1)
    (tag,) = Path(uri, "_refs", "tags").iterdir()
    tag.write_text("{")
    found = part(card(uri, cleanup=AT_ONCE), "Old versions")
    assert found.grade is Grade.A
    assert found.found.startswith("cannot be examined: ")


def test_the_histogram_has_a_bar_for_each_size_class_that_occurs(uri) -> None:
    write(uri, 1, 1, 1, 1)
    dataset = lance_core.dataset(uri)
    for fragment, size in zip(dataset.manifest.message.fragments, (100, 2**20 - 1, 2**20, 0), strict=True):
        fragment.files[0].file_size_bytes = size
    markdown = HealthCard.of(dataset, MaintenancePolicy()).fragments_markdown()
    (histogram,) = re.findall(r"```text\n(.*?)\n```", markdown, re.DOTALL)
    assert histogram.splitlines() == [
        " below 1 MiB  ████████████████████████  2",
        "  1 to 8 MiB  ████████████  1",
        "not recorded  ████████████  1",
    ]


def test_the_chart_is_an_svg_image_with_deleted_rows_in_red(uri) -> None:
    write(uri, 100, 50)
    lance_core.dataset(uri).delete("id < 25")
    markdown = card(uri).fragments_markdown()
    (data,) = re.findall(r"!\[rows per fragment\]\(data:image/svg\+xml;base64,([^)]+)\)", markdown)
    paths = ElementTree.fromstring(base64.b64decode(data)).findall("{*}path")
    shapes = {path.get("fill"): path.get("d") for path in paths}
    assert shapes == {
        "#e0a526": "M0 80v-80.0h209v80.0zM210 80v-40.0h209v40.0z",
        "#d1495b": "M0 20v-20.0h209v20.0zM210 60v-20.0h209v20.0z",
    }


def test_the_card_of_an_empty_table_has_neither_histogram_nor_chart(uri) -> None:
    lance_core.write_dataset(pa.table({"id": pa.array([], pa.int64())}), uri)
    assert card(uri).fragments_markdown() == ""
    assert "0 fragments" in card(uri).markdown()


def test_the_card_of_many_fragments_is_short_and_reads_few_manifests(uri, monkeypatch) -> None:
    write(uri, *[1] * 30)
    dataset = lance_core.dataset(uri)
    template = dataset.manifest.message.fragments[0]
    for number in range(30, 5000):
        dataset.manifest.message.fragments.add().CopyFrom(template)
        dataset.manifest.message.fragments[-1].id = number
    read, real = [], VersionLog.read

    def count(log, name):
        read.append(name.version)
        return real(log, name)

    monkeypatch.setattr(VersionLog, "read", count)
    found = HealthCard.of(dataset, MaintenancePolicy(cleanup=AT_ONCE), now=time.time() + 60)
    assert len(found.markdown()) < 1000
    assert len(found.fragments_markdown()) < 5000
    assert len(read) == 9
    assert read[0] == 1
    assert "at least" in part(found, "Old versions").found


def test_health_card_lists_the_largest_fragments_first(uri) -> None:
    write(uri, 10, 2000, 300)
    found = cells(card(uri).fragments_markdown(), "1")
    assert found[:3] == ["1", "2,000", "0"]
    lines = card(uri).fragments_markdown().splitlines()
    ids = [
        line.split("|")[1].strip() for line in lines[lines.index("| Fragment | Rows | Deleted | Size | Files |") + 2 :]
    ]
    assert ids == ["1", "2", "0"]
    assert np.all(card(uri).figures.num_bytes[[1, 2]] > card(uri).figures.num_bytes[0])


def covering(name: str, fragments: int, rows: int) -> IndexCoverage:
    """An index that lacks this number of fragments and rows."""
    return IndexCoverage(
        name=name,
        index_type="BTREE",
        columns=("id",),
        uuids=(name,),
        size_bytes=None,
        indexed_rows=0,
        unindexed_rows=rows,
        unindexed_fragments=tuple(range(fragments)),
        is_known=True,
    )


@pytest.mark.parametrize(
    ("fragments", "rows", "grade"),
    [
        (0, 0, "A"),
        (15, 99, "A"),
        (1, 100, "B"),
        (16, 99, "B"),
        (1, 400, "C"),
        (64, 1, "C"),
        (1, 1600, "D"),
        (1, 6400, "F"),
        (1024, 1, "F"),
    ],
)
def test_rows_that_an_index_does_not_cover_lower_the_grade(uri, monkeypatch, fragments, rows, grade) -> None:
    write(uri, 10)
    found = [covering("id_idx", fragments, rows), covering("kind_idx", 0, 0)]
    monkeypatch.setattr(health_card, "index_coverage", lambda _: found)
    graded = card(uri, indices=IndexPolicy(min_unindexed_rows=100, min_unindexed_fragments=16))
    assert graded.grade.name == grade
    assert graded.coverage == tuple(found)
    noun = "row" if rows == 1 else "rows"
    expected = f"id_idx: {rows:,} unindexed {noun}" if fragments else "2 indices up to date"
    step = "nothing" if grade == "A" else "optimize 1 index"
    assert cells(graded.markdown(), "Indices") == ["Indices", grade, expected, step]


def test_index_coverage_is_graded_by_the_default_limits_if_index_maintenance_is_disabled(uri, monkeypatch) -> None:
    write(uri, 10)
    found = [covering(f"index{number}", 1, 100_000 * number) for number in range(1, 4)]
    monkeypatch.setattr(health_card, "index_coverage", lambda _: found)
    shown = "index3: 300,000 unindexed rows; index2: 200,000 unindexed rows; 1 more; index maintenance is disabled"
    assert cells(card(uri, indices=None).markdown(), "Indices") == ["Indices", "B", shown, "nothing"]


def test_card_of_a_dataset_with_a_real_index_shows_its_unindexed_rows(uri) -> None:
    write(uri, 100)
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    assert cells(card(uri).markdown(), "Indices")[1:] == ["A", "1 index up to date", "nothing"]
    write(uri, 30)
    found = cells(card(uri, indices=IndexPolicy(min_unindexed_rows=30)).markdown(), "Indices")
    assert found[1:] == ["B", "id_idx: 30 unindexed rows", "optimize 1 index"]
