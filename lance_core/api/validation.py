"""validate(): is a version what it claims to be?

The manifest is checked against its own rules first, then every data file and deletion file is opened and compared
with what the manifest records.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from lance_core.api.fragment_reader import FragmentReader
from lance_core.errors import CorruptDataError

if TYPE_CHECKING:
    from lance_core.table.base_paths import FileLocator
    from lance_core.table.fragment import Fragment
    from lance_core.table.manifest import Manifest

__all__ = ["validate_fragment", "validate_version"]


def validate_version(manifest: Manifest, locator: FileLocator) -> None:
    """Check a version.

    Raises:
        CorruptDataError: names the first rule that is broken.
        NotFoundError: a file is missing.
    """
    manifest.check_readable()
    ids = [fragment.id for fragment in manifest.fragments]
    for left, right in pairwise(ids):
        if left >= right:
            raise CorruptDataError(f"version {manifest.version}: fragment {right} stands after fragment {left}")
    highest = manifest.message.max_fragment_id if manifest.message.HasField("max_fragment_id") else None
    if ids and highest is not None and highest < ids[-1]:
        raise CorruptDataError(f"version {manifest.version}: max_fragment_id is {highest}, fragment {ids[-1]} exists")
    # Parsing checks that ids are unique and parents precede their children.
    _ = manifest.schema
    for fragment in manifest.fragments:
        validate_fragment(fragment, locator)


def validate_fragment(fragment: Fragment, locator: FileLocator) -> None:
    """Check a fragment; see :func:`validate_version`."""
    seen: set[int] = set()
    for file in fragment.files:
        stored = set(file.columns())
        if seen & stored:
            raise CorruptDataError(f"fragment {fragment.id}: field {min(seen & stored)} is stored in two data files")
        seen |= stored
    FragmentReader(fragment, locator).check()
