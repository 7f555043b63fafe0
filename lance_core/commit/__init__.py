"""Commit of a change as a new version: checks, the commit itself, and the conversion of outcomes to errors.

The names of ``lance.commit`` can be imported from here.
"""

from lance_core.errors import CommitConflictError
from lance_core.places.location import CommitLock

__all__ = ["CommitConflictError", "CommitLock"]
