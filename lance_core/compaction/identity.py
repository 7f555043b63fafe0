"""Whether a fragment still is what it was when it was planned on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

    from lance_core.public.fragment_metadata import FragmentMetadata

__all__ = ["content_key"]


def content_key(fragment: FragmentMetadata) -> Hashable:
    """What the rows of a fragment depend on: its id, its data files and its deletion file.

    Two fragments of equal keys hold the same rows at the same addresses.
    """
    deletion = fragment.deletion_file
    return (
        fragment.id,
        fragment.physical_rows,
        tuple((file.base_id, file.path, tuple(file.fields)) for file in fragment.files),
        None if deletion is None else (deletion.base_id, deletion.read_version, deletion.id, deletion.file_type),
        len(fragment.overlays),
    )
