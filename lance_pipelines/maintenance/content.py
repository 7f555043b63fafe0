"""A digest of the content of a version: its columns, the data files of its fragments, their deleted rows, and overlays.

Two versions with the same digest have the same rows at the same positions. Commits that neither change nor move rows
keep the digest (configuration, an index, a delete that matches nothing). A rewrite of fragments changes the digest.
However, the rewrite records the fragments that it replaced, so the previous digest can be computed from it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from lance_core.errors import CorruptDataError, NotSupportedError, VersionNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lance_core.metadata import Fragment, Manifest, RewriteGroup, VersionLog

__all__ = ["content_digest", "content_digest_before", "has_previous_content"]

_DIGITS: Final = 32


def content_digest(manifest: Manifest) -> str:
    """Return the digest of a version, from its manifest alone."""
    return _digest(manifest, manifest.fragments)


def content_digest_before(manifest: Manifest, rewritten: Sequence[RewriteGroup]) -> str:
    """Return the digest of the version before a rewrite, which replaced fragments without changing rows.

    Args:
        manifest: the version that the rewrite created.
        rewritten: the groups of fragments that the rewrite replaced, with their replacements.
    """
    written = {fragment.data_file_paths for group in rewritten for fragment in group.new_fragments}
    kept = [fragment for fragment in manifest.fragments if fragment.data_file_paths not in written]
    return _digest(manifest, [*kept, *(fragment for group in rewritten for fragment in group.old_fragments)])


def has_previous_content(log: VersionLog, manifest: Manifest) -> bool:
    """Return whether a version has the same content as the previous version; False if that version cannot be read.

    Raises:
        StorageError: a storage operation failed.
    """
    if manifest.version == 1:
        return False
    try:
        before = log.read_version(manifest.version - 1)
    except (VersionNotFoundError, CorruptDataError, NotSupportedError):
        return False
    return content_digest(before) == content_digest(manifest)


def _digest(manifest: Manifest, fragments: Iterable[Fragment]) -> str:
    digest = hashlib.sha256(manifest.serialized_fields)
    for line in sorted(fragment.content_key for fragment in fragments):
        digest.update(line.encode())
    return digest.hexdigest()[:_DIGITS]
