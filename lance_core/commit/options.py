"""CommitOptions: the options of a commit, as given by a user."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from lance_core.table.paths import ManifestNaming
from lance_core.transactions.settings import DEFAULT_MAX_RETRIES, CommitProgress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyroaring import BitMap

    from lance_core.versions import LanceFileVersion

__all__ = ["DEFAULT_COMMIT_TIMEOUT", "CommitOptions"]

DEFAULT_COMMIT_TIMEOUT: Final = timedelta(minutes=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOptions:
    """The options of a commit, as given by a user.

    Attributes:
        max_retries: maximum number of attempts after the first.
        timeout: no attempt starts once this much time has passed; None for no limit.
        create_only: whether to fail if the dataset already exists.
        naming: the naming scheme for the manifests of a newly created dataset.
        stable_row_ids: whether a newly created dataset uses stable row ids.
        storage_options: options for the stores of base paths.
        affected_rows: the physical positions of the rows that a delete or update removes, by fragment id. If given, the
            change can be merged with concurrent changes to different rows; if None, it must be planned again after such
            changes.
        checks_files: whether to check the files that the operation adds: new data files, and the deletion files of a
            change without ``affected_rows``. The checks are not needed if the caller has just written the files.
        file_version: the data file version for an Overwrite without data files; None for the table's version or, for a
            new table, the default version.
        is_first_try: whether this is the first commit of this transaction; if so, no version created by it can exist
            yet.
        progress: records the progress of the commit; use a separate object for each commit. Its attribute ``line`` is
            taken from the handle with which the change was planned.
    """

    max_retries: int = DEFAULT_MAX_RETRIES
    timeout: timedelta | None = DEFAULT_COMMIT_TIMEOUT
    create_only: bool = False
    naming: ManifestNaming = ManifestNaming.V2
    stable_row_ids: bool = False
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    affected_rows: Mapping[int, BitMap] | None = None
    checks_files: bool = True
    file_version: LanceFileVersion | None = None
    is_first_try: bool = False
    progress: CommitProgress = field(default_factory=CommitProgress)
