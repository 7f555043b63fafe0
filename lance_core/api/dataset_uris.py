"""URIs of datasets that have to do with each other: a main root, its branches, and a root as a manifest records it.

Source: paths that pylance 14.0.2 writes. It records a relative path as it was given, which leads elsewhere from another
working directory; ours are absolute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.io.local_store import LocalStore
from lance_core.io.uri import resolve, split_external_scheme
from lance_core.table.branches import branch_at, main_root
from lance_core.table.paths import BRANCH_ROOTS_DIRECTORY

if TYPE_CHECKING:
    from lance_core.table.version_log import VersionLog

__all__ = ["line_uri", "recorded_root"]


def line_uri(uri: str, *, of: VersionLog, to: VersionLog, branch: str) -> str:
    """The URI of another line of the same dataset.

    Args:
        uri: of one line.
        of: that line.
        to: the line that is meant.
        branch: what the manifests of that line say; empty for the main line.
    """
    if of.root == to.root:
        return uri
    main = main_root(to.root, branch)
    current, target = (branch_at(to.store, main, line.root) for line in (of, to))
    # Only where there is an external manifest store the query is no part of the path.
    head, mark, query = uri.partition("?") if split_external_scheme(uri)[1] else (uri, "", "")
    root = main_root(head.rstrip("/"), current)
    return root + (f"/{BRANCH_ROOTS_DIRECTORY}/{target}" if target else "") + mark + query


def recorded_root(uri: str) -> str:
    """A root as manifests of other tables record it: an absolute path, or the URI of the objects.

    Raises:
        InvalidInputError: the URI is empty or malformed.
        UnsupportedSchemeError: no store for this scheme.
    """
    scheme, suffix, _ = split_external_scheme(uri)
    if suffix:
        return f"{scheme}://{uri.partition('?')[0].partition('://')[2]}".rstrip("/")
    if scheme and scheme != "file":
        return uri.rstrip("/")
    store, root = resolve(uri)
    return root if isinstance(store, LocalStore) else uri.rstrip("/")
