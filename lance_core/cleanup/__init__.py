"""Removal of old versions and of files that nothing refers to: first planned as a whole, then executed.

Start with ``plan``, which combines the other modules. ``policy`` has the options of the caller; ``inventory`` lists the
stored files; ``reachability`` decides which versions are kept, and determines the files that they and ``branches``
reference, by the keys of ``ownership``; ``classification`` and ``path_rules`` decide about each file; ``removal``
removes files, at the rate of ``pacing``, while ``guard`` looks for new references. ``records`` has the results.
``automatic`` is the cleanup after a commit, with ``durations`` in the table config; ``drop`` removes a whole dataset;
``file_listings`` lists the files of a dataset for users.
"""

from lance_core.cleanup.plan import CleanupPlan, plan_cleanup
from lance_core.cleanup.policy import CleanupPolicy
from lance_core.cleanup.records import CleanupExplanation, CleanupStats

__all__ = ["CleanupExplanation", "CleanupPlan", "CleanupPolicy", "CleanupStats", "plan_cleanup"]
