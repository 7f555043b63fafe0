"""The run configuration of maintenance jobs, and how it changes the declared policy for that run.

The configuration belongs to the job's first step::

    ops:
      plan_rewrites:
        config: {dry_run: true, target_rows_per_fragment: 500000}

Omitted fields keep the declared values.
"""

import dataclasses
from datetime import timedelta
from typing import Any, Final

import dagster as dg
from humanfriendly import InvalidTimespan, parse_timespan  # type: ignore[import-untyped]  # no types
from pydantic import Field

from lance_core.errors import InvalidInputError
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.policy import CleanupPolicy, CompactionPolicy, DeletionPolicy, MaintenancePolicy
from lance_pipelines.settings import absolute_uri

__all__ = [
    "BuildIndexConfig",
    "CleanupConfig",
    "CompactConfig",
    "DeleteConfig",
    "DeleteRowsConfig",
    "IndexConfig",
    "MaintenanceConfig",
    "MaterializeDeletionsConfig",
    "OptimizeIndicesConfig",
    "PromoteConfig",
    "RestoreConfig",
    "RetentionConfig",
    "VerifyConfig",
    "cleanup_policy",
    "compaction_options",
    "configured_uri",
    "dataset_uri",
    "declared_values",
    "duration_text",
    "is_dry_run",
    "materialization_options",
    "max_duration",
    "parse_duration",
]


_PLAN_DIGEST: Final = (
    "Digest of the plan that a dry run printed; the run fails if its own plan differs, for example because the dataset "
    "has changed since the dry run."
)

_ZERO_IS_NO_LIMIT: Final = ("target_bytes_per_fragment", "max_source_bytes", "batch_size")


class MaintenanceConfig(dg.Config):
    """The configuration shared by all maintenance jobs."""

    # Nullable for Dagster, so that a null reaches :func:`is_dry_run` and gets an error message.
    dry_run: bool | None = Field(default=False, description="Print the plan and change nothing.")
    uri: str | None = Field(
        default=None,
        description="Location of the Lance dataset; by default, the declared location. A relative path is resolved "
        "against the working directory.",
    )


class MaterializeDeletionsConfig(MaintenanceConfig):
    """The configuration of ``materialize_deletions``: which fragments are rewritten, and how."""

    threshold: float | None = Field(
        default=None,
        description="Rewrite fragments in which more than this fraction of the rows is deleted (0 to 1).",
    )
    target_rows_per_fragment: int | None = Field(default=None, description="Target number of rows per fragment.")
    target_bytes_per_fragment: int | None = Field(
        default=None,
        description="Approximate target size of a fragment in bytes; larger fragments are not merged. 0 for no limit.",
    )
    max_source_bytes: int | None = Field(
        default=None,
        description="Maximum number of bytes that this run reads, unless its smallest task reads more; 0 for no limit.",
    )
    max_duration: str | None = Field(
        default=None,
        description="Time limit for starting work, measured from when the plan is made: 90m, 2h, or a number of "
        "seconds; 0 for no limit. After this time, the run starts no more groups of fragments; it always rewrites at "
        "least one.",
    )
    batch_size: int | None = Field(
        default=None, description="Maximum number of rows that a task reads at a time; 0 for the default."
    )


class CompactConfig(MaterializeDeletionsConfig):
    """The configuration of ``compact``: which fragments are merged, and how."""

    materialize_deletions: bool | None = Field(
        default=None,
        description="Whether to also rewrite large fragments whose fraction of deleted rows exceeds the threshold; "
        "true by default, unless the deletion part of the policy is disabled.",
    )


class CleanupConfig(MaintenanceConfig):
    """The configuration of ``cleanup``: which old versions are kept. Tagged versions are always kept."""

    retain_versions: int | None = Field(
        default=None, description="Keep this many of the newest versions, regardless of age."
    )
    older_than: str | None = Field(
        default=None,
        description="Keep all versions newer than this age: 14d, 36h, 90m, or a number of seconds.",
    )
    min_age: str | None = Field(
        default=None,
        description="Keep all versions newer than this age, even if older_than is shorter; 10m unless the policy "
        "sets it. The limit prevents a slow writer from reusing the number of a removed version. Lower it only if no "
        "other process is writing to the dataset.",
    )
    delete_unverified: bool | None = Field(
        default=None,
        description="Also delete recent files that no version references. They may belong to an active writer, so "
        "use this only if no other process is writing to the dataset.",
    )


class DeleteConfig(MaintenanceConfig):
    """The configuration shared by the jobs that delete rows."""

    as_of: str | None = Field(
        default=None,
        description="Value of now() in the predicate, as ISO 8601 (2026-11-28T12:00:00Z); by default, the time at "
        "which the plan is made.",
    )
    plan_digest: str | None = Field(default=None, description=_PLAN_DIGEST)


class DeleteRowsConfig(DeleteConfig):
    """The configuration of ``delete_rows``: which rows are deleted."""

    predicate: str = Field(
        description="SQL expression: rows for which it is true are deleted. Example: day < '2024-01-01'."
    )


class RetentionConfig(DeleteConfig):
    """The configuration of ``retention``, whose predicate is declared."""


class PromoteConfig(MaintenanceConfig):
    """The configuration of ``promote``: which version is published."""

    version: int | None = Field(
        default=None,
        description="The version to check and publish; by default, the version that an ingest in this run "
        "created, or else the latest one. The tag is moved to an older version only if that version is given here.",
    )


class RestoreConfig(MaintenanceConfig):
    """The configuration of ``restore``: which version is restored."""

    version: int = Field(description="The version to restore. Its content becomes the content of a new version.")


class VerifyConfig(dg.Config):
    """The configuration of ``verify``: which version is examined, and how thoroughly."""

    version: int | None = Field(
        default=None, description="The version whose files are examined; by default, the latest one."
    )
    pages: bool = Field(default=False, description="Also read all values.")
    uri: str | None = Field(
        default=None,
        description="Location of the Lance dataset; by default, the declared location. A relative path is resolved "
        "against the working directory.",
    )


class IndexConfig(MaintenanceConfig):
    """The configuration shared by the jobs that change indices."""

    names: list[str] | None = Field(default=None, description="Names of the indices; by default, all of them.")
    plan_digest: str | None = Field(default=None, description=_PLAN_DIGEST)


class BuildIndexConfig(IndexConfig):
    """The configuration of ``build_index``: which declared indices are built."""

    replace: bool | None = Field(default=False, description="Also rebuild indices that already exist.")


class OptimizeIndicesConfig(IndexConfig):
    """The configuration of ``optimize_indices``: which indices are brought up to date, and how."""

    retrain: bool | None = Field(
        default=False, description="Retrain vector indices on all rows, with their recorded parameters."
    )


def dataset_uri(declaration: DatasetDeclaration, config: MaintenanceConfig) -> str:
    """Return the location of this run's dataset.

    Raises:
        InvalidInputError: the configured location is empty.
    """
    return configured_uri(declaration, config.uri)


def configured_uri(declaration: DatasetDeclaration, uri: str | None) -> str:
    """Return the location in a run configuration, or the declared location if there is none.

    Raises:
        InvalidInputError: the configured location is empty.
    """
    if uri is None:
        return declaration.uri
    # An empty value, for example of an unset variable, must not become the working directory.
    if not uri.strip():
        raise InvalidInputError(f"run configuration of {declaration.name}: the URI is empty")
    return absolute_uri(uri)


def is_dry_run(declaration: DatasetDeclaration, config: MaintenanceConfig) -> bool:
    """Return whether this run only prints its plan.

    Raises:
        InvalidInputError: ``dry_run`` is null, which is ambiguous.
    """
    if config.dry_run is None:
        raise InvalidInputError(f"run configuration of {declaration.name}: dry_run is null; expected true or false")
    return config.dry_run


def compaction_options(declaration: DatasetDeclaration, config: CompactConfig) -> dict[str, Any]:
    """Return ``Compaction.plan`` options that merge small fragments.

    If ``materialize_deletions`` is enabled, large fragments with more deleted rows than the threshold allows are also
    rewritten.

    Raises:
        InvalidInputError: a value is invalid; the message contains the dataset and the field.
    """
    also_large = config.materialize_deletions
    if also_large is None:
        also_large = declaration.maintenance.deletion is not None
    return _options(declaration, config) | {"materialize_deletions": also_large}


def materialization_options(declaration: DatasetDeclaration, config: MaterializeDeletionsConfig) -> dict[str, Any]:
    """Return ``Compaction.plan`` options that rewrite only fragments with more deleted rows than the threshold allows.

    Raises:
        InvalidInputError: a value is invalid; the message contains the dataset and the field.
    """
    return _options(declaration, config) | {"materialize_deletions": True}


def max_duration(declaration: DatasetDeclaration, config: MaterializeDeletionsConfig) -> timedelta | None:
    """Return the time after which this run starts no more groups of fragments; None if there is no limit.

    Raises:
        InvalidInputError: a value is invalid; the message contains the dataset and the field.
    """
    return _policies(declaration, config)[0].max_duration


def cleanup_policy(declaration: DatasetDeclaration, config: CleanupConfig) -> CleanupPolicy:
    """Return the cleanup policy of this run.

    Raises:
        InvalidInputError: a value is invalid; the message contains the dataset and the field.
    """
    try:
        return dataclasses.replace(
            declaration.maintenance.cleanup or CleanupPolicy(),
            **_given(
                retain_versions=config.retain_versions,
                older_than=None if config.older_than is None else parse_duration(config.older_than),
                min_age=None if config.min_age is None else parse_duration(config.min_age),
                delete_unverified=config.delete_unverified,
            ),
        )
    except InvalidInputError as error:
        raise InvalidInputError(f"run configuration of {declaration.name}: {error}") from error


def declared_values(operation: str, policy: MaintenancePolicy) -> dict[str, Any]:
    """Return a policy as the values of an operation's configuration, which the launchpad shows."""
    if operation == "cleanup":
        cleanup = policy.cleanup or CleanupPolicy()
        return {
            "dry_run": False,
            "retain_versions": cleanup.retain_versions,
            "older_than": duration_text(cleanup.older_than),
            "min_age": duration_text(cleanup.min_age),
            "delete_unverified": cleanup.delete_unverified,
        }
    target, deletion = policy.compaction or CompactionPolicy(), policy.deletion or DeletionPolicy()
    return {
        "dry_run": False,
        "threshold": deletion.max_deleted_fraction,
        "target_rows_per_fragment": target.target_rows_per_fragment,
        "target_bytes_per_fragment": target.target_bytes_per_fragment,
        "max_source_bytes": target.max_source_bytes,
        "max_duration": None if target.max_duration is None else duration_text(target.max_duration),
        "batch_size": target.batch_size,
    }


def parse_duration(text: str) -> timedelta:
    """Parse a duration.

    Args:
        text: a number with a unit (``ms``, ``s``, ``m``, ``h``, ``d``, ``w``, ``y``, or the whole word); without a
            unit, the number is in seconds.

    Raises:
        InvalidInputError: ``text`` is not a duration, or the duration is too long.
    """
    try:
        return timedelta(seconds=parse_timespan(text))
    except (InvalidTimespan, OverflowError) as error:
        raise InvalidInputError(
            f"{text!r} is not a valid duration; expected a number and a unit (14d, 36h, 90m), or a number of seconds"
        ) from error


def duration_text(duration: timedelta) -> str:
    """Return a duration as text in seconds, for example ``0.25s``; the inverse of :func:`parse_duration`."""
    seconds, microseconds = divmod(duration, timedelta(seconds=1))
    fraction = f".{microseconds.microseconds:06d}".rstrip("0").rstrip(".")
    return f"{seconds}{fraction}s"


def _policies(
    declaration: DatasetDeclaration, config: MaterializeDeletionsConfig
) -> tuple[CompactionPolicy, DeletionPolicy]:
    """Return the policies of this run."""
    unlimited: dict[str, Any] = {name: None for name in _ZERO_IS_NO_LIMIT if getattr(config, name) == 0}
    try:
        if config.max_duration is not None:
            # As for the other limits, zero means no limit.
            unlimited["max_duration"] = parse_duration(config.max_duration) or None
        _check_limits(config)
        target = dataclasses.replace(
            declaration.maintenance.compaction or CompactionPolicy(),
            **_given(
                target_rows_per_fragment=config.target_rows_per_fragment,
                target_bytes_per_fragment=config.target_bytes_per_fragment,
                max_source_bytes=config.max_source_bytes,
                batch_size=config.batch_size,
            )
            | unlimited,
        )
        deletion = dataclasses.replace(
            declaration.maintenance.deletion or DeletionPolicy(), **_given(max_deleted_fraction=config.threshold)
        )
    except InvalidInputError as error:
        raise InvalidInputError(f"run configuration of {declaration.name}: {error}") from error
    return target, deletion


def _options(declaration: DatasetDeclaration, config: MaterializeDeletionsConfig) -> dict[str, Any]:
    target, deletion = _policies(declaration, config)
    return {
        "materialize_deletions_threshold": deletion.max_deleted_fraction,
        **_given(
            target_rows_per_fragment=target.target_rows_per_fragment,
            target_bytes_per_fragment=target.target_bytes_per_fragment,
            max_source_bytes=target.max_source_bytes,
            batch_size=target.batch_size,
        ),
    }


def _check_limits(config: MaterializeDeletionsConfig) -> None:
    """Check the limits: here, unlike in a policy, zero means no limit; negative numbers are invalid."""
    for name in _ZERO_IS_NO_LIMIT:
        number = getattr(config, name)
        if number is not None and number < 0:
            raise InvalidInputError(f"{name} must be at least 0 (0 means no limit), found {number}")
    # The policy has another name for this limit.
    if config.threshold is not None and not 0 <= config.threshold < 1:
        raise InvalidInputError(f"threshold must be at least 0 and less than 1, found {config.threshold}")


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
