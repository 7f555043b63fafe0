"""URIs of related datasets: the branches of one dataset, and table roots as recorded in manifests.

Both are derived from the location that a URI resolves to, never from its text, because the text can be ambiguous: it
may be relative to the working directory, or contain ``.`` or a double slash.

Source: paths that pylance 14.0.2 writes. It records a relative path as given, which resolves to a different location
from another working directory; the paths that this library records are absolute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.io.uri import place_of, recorded_uri
from lance_core.table.paths import BRANCH_ROOTS_DIRECTORY

if TYPE_CHECKING:
    from lance_core.table.version_log import VersionLog

__all__ = ["branch_uri", "line_uri", "recorded_root"]


def line_uri(uri: str, *, of: VersionLog, to: VersionLog) -> str:
    """Return the URI of another line (main branch or branch) of the same dataset.

    Args:
        uri: URI of the first line.
        of: the first line.
        to: the line whose URI is returned.
    """
    return uri if of.root == to.root else place_of(uri).uri(to.root)


def recorded_root(uri: str, line: VersionLog | None = None) -> str:
    """Return a root in the form in which manifests of other tables record it: an absolute path, or a URI.

    Args:
        uri: URI of a root of the dataset.
        line: the line whose root to return; None for the root at the URI itself.

    Raises:
        InvalidInputError: the URI is empty or malformed, or contains a part that may be secret.
    """
    return recorded_uri(uri, None if line is None else line.root)


def branch_uri(root: str, branch: str) -> str:
    """Return the root of a branch in the form in which manifests record it, given the root of the main branch."""
    return f"{root.rstrip('/')}/{BRANCH_ROOTS_DIRECTORY}/{branch}"
