from __future__ import annotations

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


def test_write_report_without_rows_describes_the_existing_dataset(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(1)))
    empty = warehouse.stage(numbers())
    report = report_write(empty, warehouse.commit(empty))
    assert (report.version, report.committed, report.rows_written) == (1, False, 0)
    assert report.summary().endswith("1 row in 1 fragment; this run added no rows")
