"""A digest of what a version holds: its columns, the data files of its fragments and their deleted rows.

Two versions with one digest have the same rows in the same places. Commits that change no row and move none keep it
(configuration, an index); a rewrite changes it, and can be undone on paper, because it names what it replaced.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_core.proto import pb_table
    from lance_core.table.manifest import Manifest
    from lance_core.transactions.operations.rewrite import Rewrite

__all__ = ["content_digest", "content_digest_before"]

_DIGITS: Final = 32


def content_digest(manifest: Manifest) -> str:
    """The digest of a version; nothing is read."""
    return _digest(manifest, manifest.message.fragments)


def content_digest_before(manifest: Manifest, rewrite: Rewrite) -> str:
    """The digest of the version that a rewrite was applied to, told from the version that it made."""
    written = {_files(fragment.message) for fragment in rewrite.new_fragments}
    kept = [fragment for fragment in manifest.message.fragments if _files(fragment) not in written]
    return _digest(manifest, [*kept, *(fragment.message for fragment in rewrite.old_fragments)])


def _digest(manifest: Manifest, fragments: Iterable[pb_table.DataFragment]) -> str:
    digest = hashlib.sha256()
    for field in manifest.message.fields:
        digest.update(field.SerializeToString(deterministic=True))
    for line in sorted(f"{_files(fragment)} {_deletions(fragment)}" for fragment in fragments):
        digest.update(line.encode())
    return digest.hexdigest()[:_DIGITS]


def _files(fragment: pb_table.DataFragment) -> tuple[str, ...]:
    return tuple(file.path for file in fragment.files)


def _deletions(fragment: pb_table.DataFragment) -> tuple[int, int]:
    return fragment.deletion_file.read_version, fragment.deletion_file.id
