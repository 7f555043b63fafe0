"""Commits a change as a new version: checks it, performs the commit, and raises an error if the commit fails.

Start with ``commit``, which performs the steps of a commit and reads data files between the steps: ``checks`` compares
the files of a change with what the change records about them, and ``draft_completion`` adds to the next manifest what
only data files contain.

The package also exports the names of pylance's ``lance.commit``.
"""

from lance_core.errors import CommitConflictError
from lance_core.places.location import CommitLock

__all__ = ["CommitConflictError", "CommitLock"]
