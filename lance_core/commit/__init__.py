"""From a change to a version: what is checked first, how it is committed, and which error its outcome is.

The names of ``lance.commit`` can be imported from here.
"""

from lance_core.errors import CommitConflictError
from lance_core.places.location import CommitLock

__all__ = ["CommitConflictError", "CommitLock"]
