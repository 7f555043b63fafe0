"""Cleanup: plans the complete removal of old versions and unreferenced files, and then executes the plan.

The entry point is ``plan``, which combines the other modules. ``policy`` contains the caller's options. ``inventory``
lists the stored files. ``reachability`` decides which versions are kept and determines which files they reference;
``branches`` determines which files other branches reference. ``ownership`` defines the keys of these references.
``classification`` and ``path_rules`` decide for each file whether it is kept. ``removal`` removes files at a rate that
``pacing`` limits, while ``guard`` looks for new references. ``records`` defines the results. ``automatic`` performs
the cleanup after a commit, and ``durations`` parses its settings in the table config. ``drop`` removes a whole dataset,
and ``file_listings`` lists the files of a dataset for users.
"""

from lance_core.cleanup.plan import CleanupPlan, plan_cleanup
from lance_core.cleanup.policy import CleanupPolicy
from lance_core.cleanup.records import CleanupExplanation, CleanupStats

__all__ = ["CleanupExplanation", "CleanupPlan", "CleanupPolicy", "CleanupStats", "plan_cleanup"]
