"""Removal of old versions and of files that nothing refers to: planned as a whole first, then executed."""

from lance_core.cleanup.plan import CleanupPlan, plan_cleanup
from lance_core.cleanup.policy import CleanupPolicy
from lance_core.cleanup.records import CleanupExplanation, CleanupStats

__all__ = ["CleanupExplanation", "CleanupPlan", "CleanupPolicy", "CleanupStats", "plan_cleanup"]
