"""Determines URIs of related tables: branches of a dataset, and table roots in the form that manifests record.

The URIs are derived from the location to which a dataset's URI resolves, never from the text of that URI. The text
can be ambiguous: it may be relative to the working directory, or contain ``.`` or a double slash.

Source: paths that pylance 14.0.2 writes. pylance records a relative path as given, so the path resolves to a
different location if the working directory changes. The paths that this library records are absolute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.io.uri import place_of, recorded_uri
from lance_core.table.paths import BRANCH_ROOTS_DIRECTORY

if TYPE_CHECKING:
    from lance_core.table.version_log import VersionLog

__all__ = ["branch_uri", "line_uri", "recorded_root"]


def line_uri(uri: str, *, of: VersionLog, to: VersionLog) -> str:
    """Return the URI of another line (the main branch or another branch) of the same dataset.

    Args:
        uri: URI of one line.
        of: version log of the line with this URI.
        to: version log of the line whose URI is returned.
    """
    return uri if of.root == to.root else place_of(uri).uri(to.root)


def recorded_root(uri: str, line: VersionLog | None = None) -> str:
    """Return a table root in the form that manifests of other tables record: an absolute path, or a URI.

    Args:
        uri: URI of a root of the dataset.
        line: the line whose root is returned; if None, the root at the URI itself.

    Raises:
        InvalidInputError: the URI is empty or malformed, or part of it may be secret.
    """
    return recorded_uri(uri, None if line is None else line.root)


def branch_uri(root: str, branch: str) -> str:
    """Return the root of a branch in the form that manifests record, given the root of the main branch in that form."""
    return f"{root.rstrip('/')}/{BRANCH_ROOTS_DIRECTORY}/{branch}"
