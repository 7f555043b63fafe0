"""A policy in the words of an operation's configuration."""

from __future__ import annotations

import pytest

from lance_pipelines.maintenance.policy import CompactionPolicy, DeletionPolicy, MaintenancePolicy
from lance_pipelines.ops.maintenance_config import declared_values


@pytest.mark.parametrize("operation", ["compact", "materialize_deletions"])
def test_declared_values_are_those_of_the_policy_and_else_the_defaults(operation: str) -> None:
    own = MaintenancePolicy(
        compaction=CompactionPolicy(target_rows_per_fragment=7), deletion=DeletionPolicy(max_deleted_fraction=0.5)
    )
    found = declared_values(operation, own)
    assert (found["threshold"], found["target_rows_per_fragment"]) == (0.5, 7)
    found = declared_values(operation, MaintenancePolicy(compaction=None, deletion=None))
    assert found["threshold"] == DeletionPolicy().max_deleted_fraction
    assert found["target_rows_per_fragment"] == CompactionPolicy().target_rows_per_fragment
