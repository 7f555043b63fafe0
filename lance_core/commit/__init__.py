"""Commit of a change as a new version: checks, the commit itself, and the conversion of outcomes to errors.

Start with ``commit``, which goes through the steps of a commit with ``options`` and reads data files in between.
``operation_completion`` looks up what operations of users leave out; ``preflight`` says which of ``checks`` and
``row_id_checks`` an operation needs; ``legacy_dictionaries`` amends manifests of format 0.1; ``bases`` resolves base
paths.

The names of ``lance.commit`` can be imported from here.
"""

from lance_core.errors import CommitConflictError
from lance_core.places.location import CommitLock

__all__ = ["CommitConflictError", "CommitLock"]
