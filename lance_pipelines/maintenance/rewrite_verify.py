"""A check over rewritten fragments before they may become part of a version.

That the files are there, with the sizes recorded, is looked at by the commit itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_core.optimize import RewriteResult

__all__ = ["RowsLostError", "verify_row_counts"]


class RowsLostError(InvalidInputError):
    """A rewrite has not as many rows as what it replaces. Nothing was committed."""


def verify_row_counts(uri: str, results: Sequence[RewriteResult]) -> None:
    """Each group has as many rows as the fragments that it replaces have live rows.

    Raises:
        RowsLostError: naming the first group that does not.
    """
    for result in results:
        expected = sum(fragment.num_rows for fragment in result.original_fragments)
        found = sum(fragment.num_rows for fragment in result.new_fragments)
        if found != expected:
            fragment_ids = [fragment.id for fragment in result.original_fragments]
            raise RowsLostError(
                f"{uri}: fragments {fragment_ids} hold {expected} rows, their rewrite holds {found}: rows were lost or "
                "written twice",
                uri=uri,
                expected=expected,
                found=found,
            )
