"""URIs of datasets that have to do with each other: the lines of one dataset, and a root as a manifest records it.

Both are made of the place that a URI leads to, never of its text: ``tree/b`` in another working directory, ``.``, or
two slashes would lead elsewhere.

Source: paths that pylance 14.0.2 writes. It records a relative path as it was given, which leads elsewhere from another
working directory; those of this library are absolute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.io.uri import place_of, recorded_uri
from lance_core.table.paths import BRANCH_ROOTS_DIRECTORY

if TYPE_CHECKING:
    from lance_core.table.version_log import VersionLog

__all__ = ["branch_uri", "line_uri", "recorded_root"]


def line_uri(uri: str, *, of: VersionLog, to: VersionLog) -> str:
    """Return the URI of another line of the same dataset.

    Args:
        uri: of one line.
        of: that line.
        to: the line that is meant.
    """
    return uri if of.root == to.root else place_of(uri).uri(to.root)


def recorded_root(uri: str, line: VersionLog | None = None) -> str:
    """Return a root as manifests of other tables record it: an absolute path, or the URI of the objects.

    Args:
        uri: of the root.
        line: a line of the dataset that the URI was opened for, whose root is meant; None for that of the URI.

    Raises:
        InvalidInputError: the URI is empty or malformed, or has a part that may be secret.
    """
    return recorded_uri(uri, None if line is None else line.root)


def branch_uri(root: str, branch: str) -> str:
    """Return the root of a branch as manifests record it, from that of the main branch."""
    return f"{root.rstrip('/')}/{BRANCH_ROOTS_DIRECTORY}/{branch}"
