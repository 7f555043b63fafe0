r"""LIKE and ILIKE as regular expressions.

``%`` matches any text, including line breaks, ``_`` matches one character, and a backslash escapes the character that
follows it; at the end of the pattern it matches itself.

Source: predicates tested with pylance 14.0.2.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_core.predicate.expressions import Values

__all__ = ["like"]

_WILDCARDS: Final = {"%": ".*", "_": "."}
_PIECE: Final = re.compile(r"\\(.)|(.)", re.DOTALL)


def like(pattern: str | None, *, ignores_case: bool) -> Callable[[Values], Values]:
    """Return a matcher of strings against a pattern; it gives null for a null pattern."""
    if pattern is None:
        return _unknown
    expression = _PIECE.sub(_translated, pattern)
    flags = "(?si)" if ignores_case else "(?s)"

    def test(values: Values) -> Values:
        return pc.match_substring_regex(values, pattern=f"{flags}\\A(?:{expression})\\z")

    return test


def _translated(match: re.Match[str]) -> str:
    escaped, plain = match.groups()
    return re.escape(escaped) if escaped is not None else _WILDCARDS.get(plain, re.escape(plain))


def _unknown(values: Values) -> Values:
    return pa.nulls(len(values), pa.bool_()) if isinstance(values, pa.Array) else pa.scalar(None, pa.bool_())
