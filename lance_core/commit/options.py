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
        max_retries: attempts after the first.
        timeout: no attempt starts later than this; None for no limit.
        create_only: fail when the dataset exists.
        naming: of manifests, when the dataset is created.
        stable_row_ids: whether rows get stable ids, when the dataset is created.
        storage_options: passed to the stores of base paths.
        affected_rows: the rows that a delete or update newly hides: fragment id to physical positions. With them it is
            merged with concurrent ones of other rows, without them it would have to be planned again.
        checks_files: check the files that the operation adds first: new data files, the deletion files of a
            change whose rows are not given. Not needed right after writing them.
        file_version: of an Overwrite that brings no data file; None for the table's.
        is_first_try: this transaction has not been tried before, so no version can be its result yet.
        progress: records the progress of the commit; use a separate one for each commit. Its line is that of the
            handle that the change was planned on.
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
