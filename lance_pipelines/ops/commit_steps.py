"""What all steps that commit to a dataset have in common: their concurrency pool, and when they are retried.

There is one pool per dataset. With ``default_limit: 1`` (see ``dagster.yaml``) the commits of one dataset wait for each
other instead of conflicting. That saves work and is not needed for correctness: runs that share no Dagster instance
share no pools, and the commit protocol alone keeps them correct.
"""

from typing import Final

import dagster as dg

__all__ = ["COMMIT_RETRIES", "commit_pool"]

COMMIT_RETRIES: Final = dg.RetryPolicy(
    max_retries=3, delay=1, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS
)
"""A commit can be repeated safely. Only temporary failures are retried, see ``failures.py``."""


def commit_pool(dataset: str) -> str:
    """Return the name of the pool for all steps that commit to this dataset."""
    return f"lance__{dataset}"
