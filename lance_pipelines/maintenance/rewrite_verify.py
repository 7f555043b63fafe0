"""A check of rewritten fragments before they become part of a version.

The commit itself checks that the files exist with the recorded sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_core.optimize import RewriteResult

__all__ = ["RowsLostError", "verify_row_counts"]


class RowsLostError(InvalidInputError):
    """A rewrite has a different number of rows than what it replaces. Nothing was committed."""


def verify_row_counts(uri: str, results: Sequence[RewriteResult]) -> None:
    """Check that each group has as many rows as the replaced fragments have live rows.

    Raises:
        RowsLostError: names the first group that does not.
    """
    for result in results:
        expected = sum(fragment.num_rows for fragment in result.original_fragments)
        found = sum(fragment.num_rows for fragment in result.new_fragments)
        if found != expected:
            fragment_ids = [fragment.id for fragment in result.original_fragments]
            raise RowsLostError(
                f"{uri}: fragments {fragment_ids} hold {expected} rows, but their rewrite holds {found}: rows were "
                "lost or written twice",
                uri=uri,
                expected=expected,
                found=found,
            )
