"""The digest of a plan, which ensures that a run executes only the plan that was reviewed."""

from __future__ import annotations

import hashlib
import json
from typing import Final

from lance_core.errors import InvalidInputError

__all__ = ["plan_digest", "require_digest"]

_DIGITS: Final = 16


def plan_digest(*parts: object) -> str:
    """Return the digest of everything that determines a plan; the parts can be represented as JSON."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:_DIGITS]


def require_digest(found: str, expected: str | None, *, uri: str, version: int) -> None:
    """Check that a plan is the one that was reviewed.

    Args:
        found: the digest of the plan.
        expected: the digest that a dry run printed; None if no plan was reviewed.
        uri: the dataset's location.
        version: the version that the plan is based on.

    Raises:
        InvalidInputError: the digest differs.
    """
    if expected is not None and expected != found:
        raise InvalidInputError(
            f"{uri}: the plan for version {version} has the digest {found}, expected {expected}; the dataset, the "
            "declaration, or the run's options have changed since the dry run. Start another dry run and review its "
            "plan.",
            expected=expected,
            found=found,
            version=version,
        )
