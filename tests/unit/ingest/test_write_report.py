"""The report of a write."""

from __future__ import annotations

import lance_core
from lance_pipelines.ingest.declaration import WriteMode
from lance_pipelines.ingest.write_report import report_write


def test_write_report_describes_the_committed_version(warehouse, numbers) -> None:
    first = warehouse.stage(numbers(1, 2, 3))
    outcome = warehouse.commit(first)
    warehouse.commit(warehouse.stage(numbers(4)))
    report = report_write(first, outcome)
    assert (report.version, report.rows_total, report.fragments_total) == (1, 3, 2)
    assert (
        report.bytes_total == report.bytes_written == sum(p.stat().st_size for p in warehouse.files(first.file_token))
    )
    assert report.schema.names == ["id", "name"]
    assert report.summary() == (
        f"{warehouse.uri} version 1: 3 rows in 2 fragments; this run wrote 3 rows in 2 fragments"
    )


def test_write_report_distinguishes_totals_from_added_rows(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(1, 2, 3)))
    second = warehouse.stage(numbers(4))
    report = report_write(second, warehouse.commit(second))
    assert (report.read_version, report.version) == (1, 2)
    assert (report.rows_total, report.rows_written) == (4, 1)
    assert (report.fragments_total, report.fragments_written) == (3, 1)
    assert report.bytes_total > report.bytes_written
    assert report.summary().endswith("4 rows in 3 fragments; this run wrote 1 row in 1 fragment")


def test_write_report_of_a_write_without_rows_describes_the_existing_dataset(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(1)))
    empty = warehouse.stage(numbers())
    report = report_write(empty, warehouse.commit(empty))
    assert (report.version, report.committed, report.rows_written) == (1, False, 0)
    assert report.summary().endswith("1 row in 1 fragment; this run added no rows")


def _partition(warehouse, rows):
    return warehouse.stage(rows, WriteMode.OVERWRITE_PARTITION, predicate="`id` = 1")


def test_write_report_of_a_partition_has_the_number_of_replaced_rows(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(2)))
    staged = [_partition(warehouse, numbers(*values)) for values in ([1, 1, 1], [1], [])]
    found = [report_write(each, warehouse.commit(each)) for each in staged]
    assert [each.rows_replaced for each in found] == [0, 3, 1]
    assert [each.headline() for each in found] == [
        "overwrite_partition: 3 rows written, 0 replaced, v2",
        "overwrite_partition: 1 row written, 3 replaced, v3",
        "overwrite_partition: 0 rows written, 1 replaced, v4",
    ]
    empty = _partition(warehouse, numbers())
    assert report_write(empty, warehouse.commit(empty)).rows_replaced is None
    assert report_write(staged[1], warehouse.commit(staged[1])).rows_replaced == 3


def test_write_report_of_a_partition_whose_previous_version_was_removed_omits_the_replaced_rows(
    warehouse, numbers
) -> None:
    warehouse.commit(warehouse.stage(numbers(1)))
    staged = _partition(warehouse, numbers(1))
    outcome = warehouse.commit(staged)
    lance_core.dataset(warehouse.uri).cleanup_old_versions(retain_versions=1)
    report = report_write(staged, outcome)
    assert (report.rows_replaced, report.headline()) == (None, "overwrite_partition: 1 row, v2")
