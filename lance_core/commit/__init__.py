"""Commits a change as a new version: checks it, performs the commit, and raises an error if the commit fails.

Start with ``commit``, which performs the steps of a commit with ``options`` and reads data files between the steps.
``operation_completion`` looks up information that users' operations lack; ``preflight`` selects the checks in
``checks`` and ``row_id_checks`` that an operation requires; ``legacy_dictionaries`` adds dictionary values to the
manifests of tables of format 0.1; ``bases`` resolves base paths.

The package also exports the names of pylance's ``lance.commit``.
"""

from lance_core.errors import CommitConflictError
from lance_core.places.location import CommitLock

__all__ = ["CommitConflictError", "CommitLock"]
