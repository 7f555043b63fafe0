"""Removal of old versions and of files that nothing refers to: planned as a whole first, then executed.

Start with ``plan``, which puts the others together. ``policy`` is what the caller asks for; ``inventory`` lists the
stored files; ``reachability`` decides which versions are kept, and which files they and ``branches`` reference, by the
keys of ``ownership``; ``classification`` and ``path_rules`` decide about each file; ``removal`` removes them, at the
rate of ``pacing``, while ``guard`` looks for new references. ``records`` has the results. ``automatic`` is the cleanup
after a commit, with ``durations`` in the table config; ``drop`` removes a whole dataset; ``file_listings`` lists its
files for users.
"""

from lance_core.cleanup.plan import CleanupPlan, plan_cleanup
from lance_core.cleanup.policy import CleanupPolicy
from lance_core.cleanup.records import CleanupExplanation, CleanupStats

__all__ = ["CleanupExplanation", "CleanupPlan", "CleanupPolicy", "CleanupStats", "plan_cleanup"]
