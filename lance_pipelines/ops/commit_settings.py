"""Settings of all steps that commit to a dataset: the concurrency pool and the retry policy.

There is one pool per dataset. With ``default_limit: 1`` (see ``dagster.yaml``), the commits of one dataset wait for
each other instead of conflicting. This saves work but is not needed for correctness: runs of different Dagster
instances do not share pools, and the commit protocol alone ensures correctness.
"""

from typing import Final

import dagster as dg

__all__ = ["COMMIT_RETRIES", "commit_pool"]

COMMIT_RETRIES: Final = dg.RetryPolicy(
    max_retries=3, delay=1, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS
)
"""Retry policy for commits, which can be repeated safely; only temporary failures are retried (see ``failures.py``)."""


def commit_pool(dataset: str) -> str:
    """Return the name of the pool for all steps that commit to this dataset."""
    return f"lance__{dataset}"
