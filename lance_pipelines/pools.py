"""Concurrency pools: one per dataset, around the commit.

With ``default_limit: 1`` (see ``dagster.yaml``) the commits of one dataset wait for each other instead of meeting as
conflicts. That saves work and is not needed for correctness: runs that share no Dagster instance share no pools, and
the commit protocol alone keeps them right.
"""

__all__ = ["commit_pool"]


def commit_pool(dataset: str) -> str:
    """Name of the pool that every step which commits to this dataset takes."""
    return f"lance__{dataset}"
