"""PublishSettings: the tag by which readers see a dataset, and the checks that a version must pass to get it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lance_core.errors import InvalidInputError
from lance_pipelines.maintenance.check_settings import CheckSettings, Severity

if TYPE_CHECKING:
    import dagster as dg

__all__ = ["PublishSettings"]

_TAG: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
"""Matches names that are allowed both for tags and as part of an asset key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishSettings:
    """How versions of a dataset are published.

    The tag is an asset of its own, below that of the dataset: with tag ``prod``, the asset of ``lake/events`` is
    ``lake/events/prod``. It is materialized when the tag is moved to other data, and assets that read the dataset by
    its tag depend on it.

    Attributes:
        tag: the name of the tag.
        checks: names of the checks that a version must pass before the tag is moved to it; if None, all checks of
            severity ``error``.
        automation_condition: the condition under which Dagster publishes the latest version automatically, for example
            ``on_new_data()``.
        freshness: the policy that says how old the published data may be.
    """

    tag: str
    checks: Sequence[str] | None = None
    automation_condition: dg.AutomationCondition[Any] | None = None
    freshness: dg.FreshnessPolicy | None = None

    def __post_init__(self) -> None:
        if not _TAG.fullmatch(self.tag) or self.tag.endswith(".lock"):
            raise InvalidInputError(
                f"publish: invalid tag {self.tag!r}: expected ASCII letters, digits, '-', and '_', "
                "optionally separated by single dots, and not ending in '.lock'"
            )
        if isinstance(self.checks, str):
            raise InvalidInputError(f"publish: checks must be a list, found {self.checks!r}; write [{self.checks!r}]")

    def required_checks(self, checks: CheckSettings) -> tuple[str, ...]:
        """Return the names of the checks that a version must pass, in the order in which they are evaluated.

        Raises:
            InvalidInputError: no check is required, or the dataset does not have one of the checks.
        """
        if self.checks is None:
            required = tuple(name for name in checks.names if checks.severity(name) is Severity.ERROR)
        else:
            unknown = sorted(set(self.checks) - set(checks.names))
            if unknown:
                raise InvalidInputError(
                    f"publish: unknown checks: {', '.join(unknown)}; the dataset has: "
                    f"{', '.join(checks.names) or 'none'}"
                )
            required = tuple(name for name in checks.names if name in self.checks)
        if not required:
            raise InvalidInputError(
                "publish: no check is required, so versions would be published unchecked; name at least one check in "
                "checks, or give one the severity 'error'"
            )
        return required
