"""CheckSettings: which properties of a dataset are checked, and how serious a violation is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from lance_core.errors import InvalidInputError

__all__ = ["DEFAULT_SEVERITIES", "CheckSettings", "Severity"]


class Severity(StrEnum):
    """How a failed check is reported."""

    OFF = "off"
    """The check does not exist."""

    WARN = "warn"
    """The asset shows a warning."""

    ERROR = "error"
    """The asset shows an error, and ``lance-pipelines check`` fails."""


DEFAULT_SEVERITIES: Final[Mapping[str, Severity]] = MappingProxyType(
    {
        "rows": Severity.ERROR,
        "fragments": Severity.WARN,
        "deletions": Severity.WARN,
        "schema": Severity.WARN,
        "freshness": Severity.WARN,
        "key_nulls": Severity.ERROR,
        "key_unique": Severity.ERROR,
        "orphans": Severity.WARN,
        "verify": Severity.ERROR,
        "pylance": Severity.OFF,
    }
)
"""Maps each check to its default severity; the checks ``key_…`` need a key, and ``freshness`` needs a maximum age."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSettings:
    """The checks of one dataset.

    Attributes:
        key: columns that together identify a row: they must not contain nulls, and no two rows may have the same
            values.
        max_age: maximum age of the last commit that changed rows.
        max_orphan_bytes: maximum total size of the files that no version references.
        severities: overrides the severities of individual checks, by name; ``"off"`` removes a check.
    """

    key: Sequence[str] = ()
    max_age: timedelta | None = None
    max_orphan_bytes: int = 1024**3
    severities: Mapping[str, Severity | str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.key, str):
            raise InvalidInputError(f"checks: key must be a sequence of column names, found the string {self.key!r}")
        if self.max_age is not None and self.max_age <= timedelta(0):
            raise InvalidInputError(f"checks: max_age must be positive, found {self.max_age}")
        if self.max_orphan_bytes < 0:
            raise InvalidInputError(f"checks: max_orphan_bytes must not be negative, found {self.max_orphan_bytes}")
        for name, severity in self.severities.items():
            if name not in DEFAULT_SEVERITIES:
                raise InvalidInputError(
                    f"checks: unknown check {name!r}; expected one of {', '.join(DEFAULT_SEVERITIES)}"
                )
            if severity not in list(Severity):
                expected = ", ".join(Severity)
                raise InvalidInputError(f"checks: severity of {name!r} must be one of {expected}, found {severity!r}")

    def severity(self, name: str) -> Severity:
        """Return the severity of a check."""
        return Severity(self.severities.get(name, DEFAULT_SEVERITIES[name]))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the checks that exist for the dataset."""
        missing = set() if self.key else {"key_nulls", "key_unique"}
        if self.max_age is None:
            missing.add("freshness")
        return tuple(
            name for name in DEFAULT_SEVERITIES if name not in missing and self.severity(name) is not Severity.OFF
        )
