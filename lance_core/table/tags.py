"""Tags: small JSON files that assign names to versions.

::

    _refs/tags/{tag}.json    {"branch": null, "version": 3, "createdAt": "2026-01-31T12:00:00.5Z", "updatedAt": …,
                              "manifestSize": 391, "metadata": {}}

All tags are in the main root, including those that refer to branches. ``version`` and ``manifestSize`` are required;
unknown keys are ignored.

Source: files that pylance 14.0.2 writes, and files that it rejects.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from lance_core.errors import InvalidRefError, InvalidTypeError
from lance_core.table.paths import TAGS_DIRECTORY
from lance_core.table.ref_files import REF_SUFFIX, RefDocument, moment_text, ref_files, ref_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from lance_core.io.object_store import ObjectStore

__all__ = ["MAIN_BRANCH", "TagRecord", "check_tag_name", "list_tags", "tag_path"]

MAIN_BRANCH: Final = "main"
"""The name of the main branch in arguments; files record null instead."""

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRecord:
    """The record of a tag.

    Attributes:
        branch: the branch of the version; None for the main branch.
        version: the version number.
        manifest_size: size in bytes of the version's manifest when the tag was set.
        created_at_ns: creation time in nanoseconds since the epoch; None if not recorded.
        updated_at_ns: time of the last change in nanoseconds since the epoch; None if not recorded.
        metadata: user-defined strings.
    """

    branch: str | None
    version: int
    manifest_size: int
    created_at_ns: int | None = None
    updated_at_ns: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, data: pa.Buffer | bytes, path: str) -> Self:
        """Parse the file of a tag.

        Raises:
            CorruptDataError: the file is not a tag; the message contains the path and the key.
        """
        document = RefDocument.parse(data, path)
        return cls(
            branch=document.text("branch"),
            version=document.number("version"),
            manifest_size=document.number("manifestSize"),
            created_at_ns=document.moment("createdAt"),
            updated_at_ns=document.moment("updatedAt"),
            metadata=document.texts("metadata"),
        )

    @property
    def is_on_main_line(self) -> bool:
        """Whether the version is on the main branch."""
        return self.branch in (None, "", MAIN_BRANCH)

    def to_json(self) -> bytes:
        """Return the content of the file.

        Raises:
            InvalidInputError: a string in the metadata cannot be encoded as UTF-8.
        """
        document = {
            "branch": self.branch,
            "version": self.version,
            "createdAt": moment_text(self.created_at_ns),
            "updatedAt": moment_text(self.updated_at_ns),
            "manifestSize": self.manifest_size,
            "metadata": dict(self.metadata),
        }
        return ref_json(document, "tag")


def check_tag_name(name: str) -> None:
    """Check the name of a tag.

    Raises:
        InvalidTypeError: the name is not a string.
        InvalidRefError: the name has a non-ASCII letter or another invalid character, or dots in invalid positions.
            The reference implementation accepts any letter, but then cannot list the tags.
    """
    if not isinstance(name, str):
        raise InvalidTypeError(f"a tag name must be a string, found {name!r}")
    if not name:
        rule = "must not be empty"
    elif _NAME.fullmatch(name) is None:
        rule = "may contain only the letters a-z and A-Z, digits, '.', '-', and '_'"
    elif name.startswith(".") or name.endswith("."):
        rule = "must not begin or end with a dot"
    elif ".." in name:
        rule = "must not contain two consecutive dots"
    elif name.endswith(".lock"):
        rule = "must not end with .lock"
    else:
        return
    raise InvalidRefError(f"invalid tag name {name!r}: it {rule}", tag=name)


def tag_path(store: ObjectStore, root: str, name: str) -> str:
    """Return the path of a tag file."""
    return store.join(root, TAGS_DIRECTORY, f"{name}{REF_SUFFIX}")


def list_tags(store: ObjectStore, root: str) -> dict[str, TagRecord]:
    """Return all tags, keyed and ordered by name.

    Raises:
        CorruptDataError: a file is not a tag.
    """
    return {name: TagRecord.parse(data, path) for name, path, data in ref_files(store, root, TAGS_DIRECTORY)}
