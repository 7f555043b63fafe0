"""Concurrency pools: one per dataset, around the commit.

With ``default_limit: 1`` (see ``dagster.yaml``) the commits of one dataset wait for each other instead of conflicting.
That saves work and is not needed for correctness: runs that share no Dagster instance share no pools, and the commit
protocol alone keeps them correct.
"""

__all__ = ["commit_pool"]


def commit_pool(dataset: str) -> str:
    """Return the name of the pool for all steps that commit to this dataset."""
    return f"lance__{dataset}"
