"""Maintenance policies: digests, valid values, and defaults."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import timedelta

import pytest

from lance_core.errors import InvalidInputError
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.ingest.sources import FileSource, SourceFormat
from lance_pipelines.maintenance.policy import CleanupPolicy, CompactionPolicy, DeletionPolicy, MaintenancePolicy

OTHER_POLICIES = [
    MaintenancePolicy(compaction=None),
    MaintenancePolicy(deletion=None),
    MaintenancePolicy(cleanup=None),
    MaintenancePolicy(compaction=CompactionPolicy(min_small_fragments=17)),
    MaintenancePolicy(deletion=DeletionPolicy(max_deleted_fraction=0.2)),
    MaintenancePolicy(cleanup=CleanupPolicy(older_than=timedelta(days=13))),
]


def test_equal_maintenance_policies_have_equal_digests() -> None:
    digests = {policy.digest() for policy in [MaintenancePolicy(), MaintenancePolicy(), *OTHER_POLICIES]}
    assert len(digests) == 1 + len(OTHER_POLICIES)


def test_policy_digest_does_not_depend_on_who_starts_the_maintenance() -> None:
    """A run that was requested before is not requested again when somebody switches the sensors on."""
    assert {MaintenancePolicy(running=says).digest() for says in (None, True, False)} == {MaintenancePolicy().digest()}


def test_policy_digest_is_the_same_in_another_process() -> None:
    code = "from lance_pipelines.maintenance.policy import MaintenancePolicy; print(MaintenancePolicy().digest())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == MaintenancePolicy().digest()


@pytest.mark.parametrize(
    ("policy", "values", "message"),
    [
        (CompactionPolicy(), {"target_rows_per_fragment": 0}, "target_rows_per_fragment must be at least 1, found 0"),
        (CompactionPolicy(), {"target_bytes_per_fragment": -1}, "target_bytes_per_fragment must be at least 1"),
        (MaintenancePolicy(), {"running": "yes"}, "running must be True, False, or None, found 'yes'"),
        (MaintenancePolicy(), {"running": 1}, "running must be True, False, or None, found 1"),
        (CompactionPolicy(), {"max_source_bytes": 0}, "max_source_bytes must be at least 1"),
        (CompactionPolicy(), {"max_duration": timedelta(0)}, "max_duration must be greater than 0, found 0:00:00"),
        (CompactionPolicy(), {"max_duration": 90}, "max_duration must be a timedelta, found 90"),
        (CompactionPolicy(), {"batch_size": 0}, "batch_size must be at least 1"),
        (CompactionPolicy(), {"min_small_fragments": 1}, "min_small_fragments must be at least 2, found 1"),
        (DeletionPolicy(), {"max_deleted_fraction": 1.0}, "max_deleted_fraction must be at least 0 and less than 1"),
        (DeletionPolicy(), {"max_deleted_fraction": float("nan")}, "max_deleted_fraction"),
        (DeletionPolicy(), {"min_deleted_rows": 0}, "min_deleted_rows must be at least 1"),
        (CleanupPolicy(), {"retain_versions": 0}, "retain_versions must be at least 1"),
        (CleanupPolicy(), {"min_old_versions": 0}, "min_old_versions must be at least 1"),
        (CleanupPolicy(), {"older_than": timedelta(seconds=-1)}, "older_than must not be negative"),
        (CleanupPolicy(), {"min_age": timedelta(seconds=-1)}, "min_age must not be negative"),
        (CleanupPolicy(), {"older_than": timedelta.max}, "older_than must be at most 365000 days"),
        (CleanupPolicy(), {"min_age": timedelta(days=365_001)}, "min_age must be at most 365000 days"),
        (CompactionPolicy(), {"target_rows_per_fragment": "100"}, "must be a whole number, found '100'"),
        (CompactionPolicy(), {"target_rows_per_fragment": None}, "must be a whole number, found None"),
        (CompactionPolicy(), {"max_source_bytes": 1.5}, "max_source_bytes must be a whole number, found 1.5"),
        (CompactionPolicy(), {"min_small_fragments": True}, "must be a whole number, found True"),
        (DeletionPolicy(), {"max_deleted_fraction": "0.1"}, "max_deleted_fraction must be .*, found '0.1'"),
        (DeletionPolicy(), {"min_deleted_rows": float("nan")}, "min_deleted_rows must be a whole number, found nan"),
        (CleanupPolicy(), {"older_than": 14}, "older_than must be a timedelta, found 14"),
        (CleanupPolicy(), {"min_age": None}, "min_age must be a timedelta, found None"),
        (MaintenancePolicy(), {"compaction": True}, "compaction must be of type CompactionPolicy or None, found True"),
        (MaintenancePolicy(), {"overdue_after": 8}, "overdue_after must be a timedelta, found 8"),
    ],
)
def test_policy_with_an_invalid_value_is_refused(policy, values, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        replace(policy, **values)


def test_dataset_declaration_has_a_default_maintenance_policy() -> None:
    declaration = DatasetDeclaration(key="events", uri="/e", source=FileSource(format=SourceFormat.ENVIRONMENT))
    assert declaration.maintenance == MaintenancePolicy()
