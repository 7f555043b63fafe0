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

    from lance_core.metadata import FragmentMessage, Manifest, RewriteGroup, VersionLog

__all__ = ["content_digest", "content_digest_before", "has_previous_content"]

_DIGITS: Final = 32


def content_digest(manifest: Manifest) -> str:
    """Return the digest of a version, from its manifest alone."""
    return _digest(manifest, manifest.message.fragments)


def content_digest_before(manifest: Manifest, rewritten: Sequence[RewriteGroup]) -> str:
    """Return the digest of the version before a rewrite, which replaced fragments without changing rows.

    Args:
        manifest: the version that the rewrite created.
        rewritten: the groups of fragments that the rewrite replaced, with their replacements.
    """
    written = {_files(fragment.message) for group in rewritten for fragment in group.new_fragments}
    kept = [fragment for fragment in manifest.message.fragments if _files(fragment) not in written]
    return _digest(manifest, [*kept, *(fragment.message for group in rewritten for fragment in group.old_fragments)])


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


def _digest(manifest: Manifest, fragments: Iterable[FragmentMessage]) -> str:
    digest = hashlib.sha256()
    for field in manifest.message.fields:
        digest.update(field.SerializeToString(deterministic=True))
    for line in sorted(f"{_files(fragment)} {_deletions(fragment)}{_overlays(fragment)}" for fragment in fragments):
        digest.update(line.encode())
    return digest.hexdigest()[:_DIGITS]


def _files(fragment: FragmentMessage) -> tuple[str, ...]:
    return tuple(file.path for file in fragment.files)


def _overlays(fragment: FragmentMessage) -> str:
    return "".join(f" {overlay.SerializeToString(deterministic=True).hex()}" for overlay in fragment.overlays)


def _deletions(fragment: FragmentMessage) -> tuple[int, int]:
    return fragment.deletion_file.read_version, fragment.deletion_file.id
