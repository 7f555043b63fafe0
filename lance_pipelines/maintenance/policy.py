"""The maintenance policy of a dataset: numbers in its declaration that determine when and how it is maintained.

=================  ============================================================  =======================================
Part               Due when                                                      What it does
=================  ============================================================  =======================================
compaction         ``min_small_fragments`` fragments below the target can merge  small fragments become few large ones
deletion           a fragment lost more than ``max_deleted_fraction`` of its     such fragments are rewritten without
                   rows                                                          the deleted rows
cleanup            ``min_old_versions`` versions exceed both limits              their manifests and files are removed
indices            an index does not cover ``min_unindexed_rows`` rows or        indices cover all rows; declared ones
                   ``min_unindexed_fragments`` fragments                         are built
=================  ============================================================  =======================================

A part that is None is disabled. The digest of a policy is part of every run key: if the policy changes, the dataset is
evaluated again, even if the dataset itself did not change.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from lance_core.errors import InvalidInputError

__all__ = ["CleanupPolicy", "CompactionPolicy", "DeletionPolicy", "IndexPolicy", "MaintenancePolicy"]

_DIGEST_DIGITS: Final = 8

_MAX_AGE: Final = timedelta(days=365_000)
"""Maximum age in a cleanup policy. The time at which a version reaches a greater age may not be representable."""

_MIN_OVERDUE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPolicy:
    """Policy for merging small fragments.

    Attributes:
        target_rows_per_fragment: target number of rows of a fragment; a fragment with fewer rows is small.
        target_bytes_per_fragment: approximate target size of a fragment in bytes; a fragment of at least this size is
            not small. None for no limit.
        min_small_fragments: a compaction is due if at least this number of small fragments can be merged.
        max_source_bytes: maximum number of bytes that one run reads, unless its smallest task reads more; None for no
            limit.
        max_duration: time limit for starting work, measured from when a run makes its plan; None for no limit. After
            this time, a run starts no more groups of fragments, unless it has rewritten none; the next run continues
            the work.
        batch_size: maximum number of rows that a task reads at a time; if None, the reader chooses.
    """

    target_rows_per_fragment: int = 1024 * 1024
    target_bytes_per_fragment: int | None = 2 * 1024**3
    min_small_fragments: int = 16
    max_source_bytes: int | None = None
    max_duration: timedelta | None = None
    batch_size: int | None = None

    def __post_init__(self) -> None:
        _require_count("compaction", self, "target_rows_per_fragment")
        _require_count("compaction", self, "min_small_fragments", least=2)
        limits = ("target_bytes_per_fragment", "max_source_bytes", "batch_size")
        _require_count("compaction", self, *(name for name in limits if getattr(self, name) is not None))
        if self.max_duration is not None and _duration("compaction", self, "max_duration") <= timedelta(0):
            raise InvalidInputError(f"compaction: max_duration must be greater than 0, found {self.max_duration}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionPolicy:
    """Policy for rewriting fragments with deleted rows.

    Attributes:
        max_deleted_fraction: fragments with a higher fraction of deleted rows are rewritten; between 0 and 1.
        min_deleted_rows: a rewrite is due if these fragments together contain at least this number of deleted rows.
    """

    max_deleted_fraction: float = 0.1
    min_deleted_rows: int = 1

    def __post_init__(self) -> None:
        fraction: object = self.max_deleted_fraction
        if not isinstance(fraction, int | float) or not 0 <= fraction < 1:
            raise InvalidInputError(
                f"deletion: max_deleted_fraction must be at least 0 and less than 1, found {fraction!r}"
            )
        _require_count("deletion", self, "min_deleted_rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPolicy:
    """Policy for removing the versions that none of the limits below keeps. Tagged versions are always kept.

    This policy is part of a declaration; ``cleanup_plan.py`` converts it to the policy of the same name in
    ``lance_core.metadata``, with which a cleanup is planned.

    Attributes:
        retain_versions: keep this many of the newest versions, regardless of age.
        older_than: keep all versions newer than this age.
        min_age: keep all versions newer than this age, even if ``older_than`` is shorter. A writer that is suspended
            for longer than this just before it commits may reuse the number of a removed version. Writers of this
            library detect this and fail; if the writer uses pylance, its commit is lost. Lower the value only while no
            process is writing to the dataset.
        min_old_versions: a cleanup is due if at least this number of versions can be removed.
        delete_unverified: also delete recent files that no version references. Use this only while no process is
            writing to the dataset.
    """

    retain_versions: int = 10
    older_than: timedelta = timedelta(days=14)
    min_age: timedelta = timedelta(minutes=10)
    min_old_versions: int = 1
    delete_unverified: bool = False

    def __post_init__(self) -> None:
        _require_count("cleanup", self, "retain_versions", "min_old_versions")
        for name in ("older_than", "min_age"):
            age = _duration("cleanup", self, name)
            if age < timedelta(0):
                raise InvalidInputError(f"cleanup: {name} must not be negative, found {age}")
            if age > _MAX_AGE:
                raise InvalidInputError(
                    f"cleanup: {name} must be at most {_MAX_AGE.days} days, found {age}; to keep all versions, set the "
                    "cleanup part of the policy to None"
                )

    @property
    def retention(self) -> timedelta:
        """The period for which every version is kept."""
        return max(self.older_than, self.min_age)


def newest_versions(policy: CleanupPolicy) -> str:
    """Return the versions that a cleanup policy keeps regardless of age, in words."""
    return "the newest version" if policy.retain_versions == 1 else f"the newest {policy.retain_versions} versions"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPolicy:
    """Policy for keeping indices current: those that are declared, and those that other programs built.

    Rows that an index does not cover are scanned by every search, which stays correct but becomes slower.

    Attributes:
        min_unindexed_rows: an update is due if an index does not cover at least this number of rows.
        min_unindexed_fragments: an update is due if an index does not cover at least this number of fragments.
    """

    min_unindexed_rows: int = 100_000
    min_unindexed_fragments: int = 16

    def __post_init__(self) -> None:
        _require_count("indices", self, "min_unindexed_rows", "min_unindexed_fragments")


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePolicy:
    """The maintenance policy of one dataset.

    Attributes:
        compaction: policy for merging small fragments; None disables it.
        deletion: policy for rewriting fragments with many deleted rows; None disables it.
        cleanup: policy for removing old versions; None disables it.
        indices: policy for keeping indices current; None disables it.
        overdue_after: time without a maintenance run after which the asset ``maintenance/<dataset>`` counts as not
            fresh, at least a minute. A run that finds nothing to do counts as well. By default, a day longer than the
            interval of the weekly schedule; None disables it.
        running: whether the sensors maintain this dataset. True: they do, and run without being started in the web
            interface. False: they never do; jobs and schedules are not affected. None: they do if they run for all
            datasets (``maintenance_status``), or if somebody starts them and no dataset sets ``running`` to True.
    """

    compaction: CompactionPolicy | None = field(default_factory=CompactionPolicy)
    deletion: DeletionPolicy | None = field(default_factory=DeletionPolicy)
    cleanup: CleanupPolicy | None = field(default_factory=CleanupPolicy)
    indices: IndexPolicy | None = field(default_factory=IndexPolicy)
    overdue_after: timedelta | None = timedelta(days=8)
    running: bool | None = None

    def __post_init__(self) -> None:
        for name, kind in _PARTS.items():
            part = getattr(self, name)
            if part is not None and not isinstance(part, kind):
                raise InvalidInputError(f"maintenance: {name} must be of type {kind.__name__} or None, found {part!r}")
        # Dagster evaluates no shorter freshness policy.
        if self.overdue_after is not None and _duration("maintenance", self, "overdue_after") < _MIN_OVERDUE:
            raise InvalidInputError(
                f"maintenance: overdue_after must be at least one minute, found {self.overdue_after}"
            )

        running: object = self.running
        if running is not None and not isinstance(running, bool):
            raise InvalidInputError(f"maintenance: running must be True, False, or None, found {running!r}")

    def digest(self) -> str:
        """Return a hexadecimal digest of everything that determines when work is due; the same in every process."""
        parts = dataclasses.asdict(self)
        del parts["overdue_after"], parts["running"]
        text = json.dumps(parts, sort_keys=True, default=timedelta.total_seconds)
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_DIGITS]


_PARTS: Final = MappingProxyType(
    {"compaction": CompactionPolicy, "deletion": DeletionPolicy, "cleanup": CleanupPolicy, "indices": IndexPolicy}
)
"""Maps each part of a maintenance policy to its class."""


def _require_count(part: str, policy: object, *names: str, least: int = 1) -> None:
    for name in names:
        number = getattr(policy, name)
        if not isinstance(number, int) or isinstance(number, bool):
            raise InvalidInputError(f"{part}: {name} must be a whole number, found {number!r}")
        if number < least:
            raise InvalidInputError(f"{part}: {name} must be at least {least}, found {number}")


def _duration(part: str, policy: object, name: str) -> timedelta:
    duration = getattr(policy, name)
    if not isinstance(duration, timedelta):
        raise InvalidInputError(f"{part}: {name} must be a timedelta, found {duration!r}")
    return duration
