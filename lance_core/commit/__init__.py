"""Commit of a change as a new version: checks, the commit itself, and the conversion of outcomes to errors.

Start with ``commit``, which performs the steps of a commit with ``options`` and reads data files between the steps.
``operation_completion`` looks up information that the operations of users lack; ``preflight`` selects those of
``checks`` and ``row_id_checks`` that an operation needs; ``legacy_dictionaries`` amends manifests of format 0.1;
``bases`` resolves base paths.

The names of ``lance.commit`` can be imported from here.
"""

from lance_core.errors import CommitConflictError
from lance_core.places.location import CommitLock

__all__ = ["CommitConflictError", "CommitLock"]
