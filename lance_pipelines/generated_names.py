"""The names that are generated from a dataset's name, and the check that no two of them are equal.

Dagster requires assets, jobs, and ops to have different names. Every generated name consists of the dataset's name, two
underscores, and the name of an operation or a step: the job ``events__compact``, the step ``events__write_fragments``.
Only a dataset whose key ends in one of these names, such as ``("events", "compact")``, could have the same name;
Dagster would report that without the keys of the datasets.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from dagster._core.definitions.utils import is_valid_name

from lance_core.errors import InvalidInputError
from lance_pipelines.ingest.declaration import DatasetDeclaration, key_parts, maintenance_key, published_key

__all__ = ["JOBS", "STEPS", "check_key", "check_names"]

JOBS: Final = (
    "ingest",
    "compact",
    "materialize_deletions",
    "cleanup",
    "delete_rows",
    "retention",
    "restore",
    "verify",
    "build_index",
    "optimize_indices",
    "check",
    "promote",
)
"""The operations of the jobs that a dataset can have; its declaration determines which of these jobs exist."""

STEPS: Final = (
    "write_fragments",
    "commit_fragments",
    "prepare_stream",
    "ingest_stream",
    "plan_compaction",
    "plan_materialization",
    "rewrite_fragments",
    "commit_rewrites",
    "plan_cleanup",
    "remove_old_versions",
    "plan_delete",
    "plan_retention",
    "commit_delete",
    "plan_restore",
    "commit_restore",
    "verify_files",
    "plan_index_build",
    "plan_index_update",
    "build_indices",
    "commit_indices",
    "run_checks",
    "publish",
    "audit_version",
    "move_tag",
)
"""The ops and graphs that a dataset can have; its declaration determines which of them exist."""

_LEGAL_PART: Final = re.compile(r"[A-Za-z0-9_.-]+")
_SEPARATOR: Final = "__"
_JOB_OF_ALL_ASSETS: Final = "__ASSET_JOB"
"""Dagster itself creates a job with this name."""


def check_key(declaration: DatasetDeclaration) -> None:
    """Reject a key with characters that Dagster does not accept in the keys of assets, checks, or dependencies.

    Raises:
        InvalidInputError: the key has a character that Dagster does not accept.
    """
    for part in key_parts(declaration.key):
        if not _LEGAL_PART.fullmatch(part):
            raise InvalidInputError(
                f"invalid asset key {'/'.join(key_parts(declaration.key))!r}: each part must consist of ASCII "
                "letters, digits, underscores, dashes, and dots"
            )


def check_names(declarations: Sequence[DatasetDeclaration]) -> None:
    """Reject datasets whose names are invalid or equal, or equal to the name of a job or an op of another dataset.

    Raises:
        InvalidInputError: a name is invalid or not unique; the message contains the asset keys.
    """
    keys: defaultdict[str, list[str]] = defaultdict(list)
    for declaration in declarations:
        keys[declaration.name].append("/".join(key_parts(declaration.key)))
        check_key(declaration)
    own_keys = {key_parts(declaration.key) for declaration in declarations}
    for declaration in declarations:
        if maintenance_key(declaration) in own_keys:
            raise InvalidInputError(
                f"the maintenance asset of dataset {'/'.join(key_parts(declaration.key))} has the key of another "
                f"dataset, {'/'.join(maintenance_key(declaration))}; change the asset key of one of these datasets"
            )
        if declaration.publish is not None and published_key(declaration) in own_keys:
            raise InvalidInputError(
                f"dataset {'/'.join(key_parts(declaration.key))}: the asset of tag {declaration.publish.tag!r} would "
                f"have the key {'/'.join(published_key(declaration))}, which another dataset has; choose another tag"
            )
    for name, found in keys.items():
        if len(found) > 1:
            raise InvalidInputError(
                f"datasets {' and '.join(found)} have the same name {name!r}, which is part of the names of their jobs "
                "and steps; give each dataset a different key"
            )
        if name == _JOB_OF_ALL_ASSETS or not is_valid_name(name):
            raise InvalidInputError(f"invalid dataset name {name!r}: it is reserved by Python or Dagster")
        owner, _, what = name.rpartition(_SEPARATOR)
        if owner in keys and what in {*JOBS, *STEPS}:
            raise InvalidInputError(
                f"the name {name!r} of dataset {found[0]} is also the name of a {'job' if what in JOBS else 'step'} "
                f"of dataset {keys[owner][0]}; change the asset key of one of these datasets"
            )
