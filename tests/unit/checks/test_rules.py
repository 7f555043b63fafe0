"""The rule of each check: when a check passes or fails, and the text that it reports."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import StorageError
from lance_pipelines.checks import rules
from lance_pipelines.checks.rules import RULES, Finding, evaluate
from lance_pipelines.checks.subject import CheckedVersion
from lance_pipelines.maintenance.check_settings import DEFAULT_SEVERITIES, CheckSettings
from lance_pipelines.maintenance.policy import CompactionPolicy, DeletionPolicy, MaintenancePolicy


@pytest.fixture(autouse=True)
def _two_fragments(uri: str) -> None:
    for ids in ([1, 2, None], [4, 5]):
        lance_core.write_dataset(pa.table({"id": pa.array(ids, pa.int64())}), uri, mode="append")


def subject(uri: str, **known) -> CheckedVersion:
    policy = known.pop("policy", MaintenancePolicy())
    settings = CheckSettings(key=["id"], **known.pop("settings", {}))
    return CheckedVersion(dataset=lance_core.dataset(uri), settings=settings, policy=policy, **known)


def check(name: str, uri: str, **known) -> tuple[bool, str]:
    finding = evaluate(name, subject(uri, **known))
    return finding.passed, finding.text


def test_every_declared_check_has_a_rule_in_the_same_order() -> None:
    assert list(RULES) == list(DEFAULT_SEVERITIES)


def test_rows_check_passes_if_the_event_and_the_files_agree(uri) -> None:
    text = "5 rows, as Dagster's event for this version records; checked the files of 2 of 2 fragments"
    assert check("rows", uri, recorded_rows=5) == (True, text)
    assert check("rows", uri) == (True, "5 rows; checked the files of 2 of 2 fragments")


def test_rows_check_fails_if_the_event_records_a_different_number(uri) -> None:
    text = "the manifest records 5 rows, but Dagster's event for this version records 6"
    assert check("rows", uri, recorded_rows=6) == (False, text)


def test_rows_check_fails_if_a_file_has_a_different_number_of_rows(uri) -> None:
    first, second = sorted(Path(uri, "data").iterdir(), key=lambda path: path.stat().st_mtime)
    first.write_bytes(second.read_bytes())
    passed, text = check("rows", uri)
    assert not passed
    assert first.name in text


def test_fragments_check_fails_if_a_compaction_is_due(uri) -> None:
    due = MaintenancePolicy(compaction=CompactionPolicy(min_small_fragments=2))
    assert check("fragments", uri) == (True, "2 small fragments < 16")
    assert check("fragments", uri, policy=due) == (False, "2 small fragments >= 2")


def test_deletions_check_fails_above_the_limit_even_if_the_policy_is_disabled(uri) -> None:
    assert check("deletions", uri)[0]
    lance_core.dataset(uri).delete("id = 4")
    text = "1 fragment with more than 0.1 of the rows deleted, 1 deleted row >= 1"
    assert check("deletions", uri) == (False, text)
    assert check("deletions", uri, policy=MaintenancePolicy(deletion=None)) == (False, text)
    assert check("deletions", uri, policy=MaintenancePolicy(deletion=DeletionPolicy(max_deleted_fraction=0.6)))[0]


def test_schema_check_names_every_change_since_the_last_evaluation(uri) -> None:
    assert check("schema", uri) == (True, "1 column; no earlier evaluation to compare with")
    assert check("schema", uri, earlier_columns={"id": "int64"}) == (
        True,
        "1 column, unchanged since the last evaluation",
    )
    changed = check("schema", uri, earlier_columns={"id": "int32 not null", "name": "string"})
    assert changed == (False, "name was removed; id changed from int32 not null to int64")
    assert check("schema", uri, earlier_columns={}) == (False, "id was added")


def test_freshness_check_measures_the_age_of_the_last_row_change(uri) -> None:
    now = time.time() + 3600
    limits = {"max_age": timedelta(hours=2)}
    passed, text = check("freshness", uri, now=now, changed_version=2, settings=limits)
    assert passed
    assert text.startswith("the rows last changed 1 hour")
    passed, text = check("freshness", uri, now=now + 7200, changed_version=1, settings=limits)
    assert not passed
    assert text.endswith(" ago (version 1); the limit is 2 hours")


def test_freshness_check_without_the_version_of_the_last_change_reports_a_minimum_age(
    uri,
) -> None:
    passed, text = check("freshness", uri, now=time.time() + 7300, settings={"max_age": timedelta(hours=1)})
    assert not passed
    assert "last changed at least 2 hours" in text


def test_key_nulls_check_names_the_column_and_the_first_row(uri) -> None:
    assert check("key_nulls", uri) == (False, "'id' is null in 1 row, first in fragment 0, offset 2")
    lance_core.dataset(uri).delete("id IS NULL")
    assert check("key_nulls", uri) == (True, "no nulls in id")


def test_key_unique_check_names_the_repeated_key_and_its_rows(uri) -> None:
    assert check("key_unique", uri) == (True, "no duplicate keys (id) in 4 rows")
    lance_core.write_dataset(pa.table({"id": [2]}), uri, mode="append")
    passed, text = check("key_unique", uri)
    assert not passed
    assert text == (
        "1 row repeats the key (id) of another row: {'id': 2} in 2 rows (fragment 0, offset 1 … fragment 2, offset 0)"
    )


def test_a_key_column_that_does_not_exist_is_reported_as_a_problem(uri) -> None:
    bad = CheckedVersion(dataset=lance_core.dataset(uri), settings=CheckSettings(key=["x"]), policy=MaintenancePolicy())
    for name in ("key_nulls", "key_unique"):
        assert evaluate(name, bad).text == "key column 'x' does not exist; the columns are: id"


def test_orphans_check_applies_the_limit_and_names_the_files(uri) -> None:
    assert check("orphans", uri) == (True, "0 files that no version references, 0 bytes")
    Path(uri, "data", "notes.txt").write_text("x" * 3000)
    passed, text = check("orphans", uri, settings={"max_orphan_bytes": 2000})
    assert not passed
    assert "1 file that no version references, 2.93 KiB" in text
    assert "data/notes.txt; the limit is 1.95 KiB" in text
    assert check("orphans", uri)[0]


def test_files_of_old_versions_are_not_reported_as_orphaned(uri) -> None:
    lance_core.write_dataset(pa.table({"id": [1]}), uri, mode="overwrite")
    assert check("orphans", uri, settings={"max_orphan_bytes": 0})[0]


def test_verify_check_reports_the_problems_that_the_doctor_finds(uri) -> None:
    assert check("verify", uri) == (True, "no problems; the files of 2 fragments match the manifest")
    next(Path(uri, "data").iterdir()).unlink()
    passed, text = check("verify", uri)
    assert not passed
    assert text.startswith("lance-core doctor finds 1 problem: missing data file")


def test_verify_check_reports_a_damaged_file(uri) -> None:
    path = next(Path(uri, "data").iterdir())
    path.write_bytes(path.read_bytes()[:-1])
    passed, text = check("verify", uri)
    assert not passed
    assert path.name in text


def test_pylance_check_passes_if_pylance_reads_the_version(uri) -> None:
    assert check("pylance", uri) == (True, "pylance validated the version and read 5 rows")


@pytest.mark.slow
def test_pylance_failure_is_reported_as_a_problem(uri) -> None:
    examined = subject(uri)
    for path in Path(uri, "data").iterdir():
        path.unlink()
    finding = evaluate("pylance", examined)
    assert not finding.passed
    assert finding.text.startswith("pylance could not read version 2: ")


def test_pylance_check_without_pylance_is_skipped_and_states_the_reason(uri, monkeypatch) -> None:
    monkeypatch.setattr(rules, "_REFERENCE_MODULE", "no_such_module")
    assert check("pylance", uri) == (True, "skipped: pylance is not installed (pip install pylance)")


def test_a_storage_error_is_not_reported_as_a_problem(uri, monkeypatch) -> None:
    def fail(subject: CheckedVersion) -> Finding:
        raise StorageError("connection reset", retryable=True)

    monkeypatch.setattr(rules, "RULES", {"rows": rules.Rule(description="", examine=fail)})
    with pytest.raises(StorageError, match="connection reset"):
        evaluate("rows", subject(uri))
