"""CommitSettings: how a commit is made."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from lance_core.table.manifest import Manifest
from lance_core.table.row_lineage import HiddenColumns, no_hidden_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from pyroaring import BitMap

    from lance_core.table.manifest_draft import ManifestDraft

__all__ = ["DEFAULT_MAX_RETRIES", "CommitProgress", "CommitSettings"]

DEFAULT_MAX_RETRIES: Final = 20
"""As many as the reference."""


def _no_check(manifest: Manifest) -> None:
    """Accept everything."""


def _no_amendment(draft: ManifestDraft) -> None:
    """Leave the draft as it is."""


def _no_identity(manifest: Manifest) -> Hashable:
    """A line that can only be deleted together with its table."""
    return None


def _no_hidden_columns(manifest: Manifest) -> HiddenColumns:
    """Read no hidden column."""
    return no_hidden_columns


@dataclass(slots=True)
class CommitProgress:
    """The progress of a commit, for the caller that removes its files after an exception.

    Attributes:
        may_land: whether a version may name the files of the transaction, now or later. Set before the step that can
            make one, taken back when that is known to have failed.
        made: the version that the commit made.
        line: what the line of versions was told by when the first try began.
    """

    may_land: bool = False
    made: Manifest | None = None
    line: Hashable = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSettings:
    """How a commit is made.

    Attributes:
        max_retries: attempts after the first. 0 also forbids an overwrite to be placed on anything but the version
            that it was planned on.
        timeout_seconds: no attempt starts later than this; None for no limit.
        create_only: fail when the table exists.
        is_first_try: nobody has tried to commit this transaction before, so that no version can be its work yet.
        template: the empty manifest that a new table starts from.
        affected_rows: the rows that a delete or update hides, by fragment id; with them it can be merged with others.
        storage_options: handed to the stores of base paths.
        check: called once with the manifest to build on, before anything is written; refuses by raising.
        amend: called with every draft before it is sealed; adds what data files say and operations do not.
        identity_of: tells the line of a version from one that was made in its place; asked before and after the create.
            Raises RefNotFoundError when the line was deleted.
        hidden_columns: how hidden columns of a version's fragments are read; called with the manifest to build on.
        progress: told how far the commit got.
        wait: sleeps that many seconds.
        rng: the source of randomness for waiting times.
    """

    max_retries: int = DEFAULT_MAX_RETRIES
    timeout_seconds: float | None = None
    create_only: bool = False
    is_first_try: bool = False
    template: Manifest = field(default_factory=Manifest.empty)
    affected_rows: Mapping[int, BitMap] | None = None
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    check: Callable[[Manifest], None] = _no_check
    amend: Callable[[ManifestDraft], None] = _no_amendment
    identity_of: Callable[[Manifest], Hashable] = _no_identity
    hidden_columns: Callable[[Manifest], HiddenColumns] = _no_hidden_columns
    progress: CommitProgress = field(default_factory=CommitProgress)
    wait: Callable[[float], None] = time.sleep
    rng: random.Random = field(default_factory=random.Random)
