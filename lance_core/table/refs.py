"""Tags and branches: small JSON files that give versions names.

::

    _refs/tags/{tag}.json                       {"branch": null, "version": 3, "createdAt": "2026-01-31T12:00:00.5Z",
                                                 "updatedAt": …, "manifestSize": 391, "metadata": {}}
    _refs/branches/{branch, "/" as %2F}.json    {"parentBranch": null, "identifier": {"version_mapping": [[3, "…"]]},
                                                 "parentVersion": 3, "createAt": 1769860800, "manifestSize": 391, …}

All of them lie in the main root, also those that speak of branches. Of a tag, ``version`` and ``manifestSize`` are
required; unknown keys are ignored. ``version_mapping`` is the way from the main line to the branch: the version that
each fork on the way was made from.

Source: files of pylance 14.0.2; what it refuses in them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import unquote

from lance_core.errors import CorruptDataError, InvalidInputError, InvalidRefError, InvalidTypeError, NotFoundError
from lance_core.table.paths import BRANCHES_DIRECTORY, TAGS_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from lance_core.io.object_store import ObjectStore

__all__ = ["MAIN_BRANCH", "BranchRecord", "TagRecord", "check_tag_name", "list_branches", "list_tags", "tag_path"]

MAIN_BRANCH: Final = "main"
"""What the main line is called where a branch can be named; in files it is null."""

_SUFFIX: Final = ".json"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_TIME: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9:]{8})(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})")
_MAX_U64: Final = 2**64 - 1
_NANOSECONDS: Final = 1_000_000_000
_NANOSECOND_DIGITS: Final = 9
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRecord:
    """What a tag's file says.

    Attributes:
        branch: the branch of the version; None for the main line.
        version: the version's number.
        manifest_size: bytes of the version's manifest when the tag was set.
        created_at_ns: nanoseconds since the epoch; None when it is not recorded.
        updated_at_ns: when it was set or moved last.
        metadata: texts of the user.
    """

    branch: str | None
    version: int
    manifest_size: int
    created_at_ns: int | None = None
    updated_at_ns: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, data: pa.Buffer | bytes, path: str) -> Self:
        """Parse the file.

        Raises:
            CorruptDataError: it is no tag; names the file and the key.
        """
        document = _Document.parse(data, path)
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
        """Whether the version is one of the main line."""
        return self.branch in (None, "", MAIN_BRANCH)

    def to_json(self) -> bytes:
        """The bytes of the file.

        Raises:
            InvalidInputError: a text of the metadata cannot be written as UTF-8.
        """
        document = {
            "branch": self.branch,
            "version": self.version,
            "createdAt": _moment_text(self.created_at_ns),
            "updatedAt": _moment_text(self.updated_at_ns),
            "manifestSize": self.manifest_size,
            "metadata": dict(self.metadata),
        }
        try:
            return json.dumps(document, indent=2, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise InvalidInputError(f"the metadata of a tag has a text that is not Unicode: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchRecord:
    """What a branch's file says, as far as it matters to the main line.

    Attributes:
        name: of the branch; its root is ``tree/{name}``.
        forked_from: the version of the main line that the branch, or the first branch on the way to it, was made
            from; None when the file does not tell.
    """

    name: str
    forked_from: int | None

    @classmethod
    def parse(cls, name: str, data: pa.Buffer | bytes, path: str) -> Self:
        """Parse the file.

        Raises:
            CorruptDataError: it is no branch; names the file and the key.
        """
        document = _Document.parse(data, path)
        parent_version = document.number("parentVersion")
        forked_from = document.first_fork()
        if forked_from is None and document.text("parentBranch") is None:
            forked_from = parent_version
        return cls(name=name, forked_from=forked_from)


def check_tag_name(name: str) -> None:
    """Check the name of a tag.

    Raises:
        InvalidTypeError: it is no text.
        InvalidRefError: it has a letter that is not ASCII or another character that no name may have, or dots in
            places where they would lead astray. (The reference takes any letter, and then cannot list its tags.)
    """
    if not isinstance(name, str):
        raise InvalidTypeError(f"the name of a tag must be a text, found {name!r}")
    if not name:
        rule = "must not be empty"
    elif _NAME.fullmatch(name) is None:
        rule = "may have only the letters a-z and A-Z, digits, '.', '-' and '_'"
    elif name.startswith(".") or name.endswith("."):
        rule = "must not begin or end with a dot"
    elif ".." in name:
        rule = "must not have two dots in a row"
    elif name.endswith(".lock"):
        rule = "must not end with .lock"
    else:
        return
    raise InvalidRefError(f"the name of a tag {rule}, found {name!r}", tag=name)


def tag_path(store: ObjectStore, root: str, name: str) -> str:
    """The file of a tag."""
    return store.join(root, TAGS_DIRECTORY, f"{name}{_SUFFIX}")


def list_tags(store: ObjectStore, root: str) -> dict[str, TagRecord]:
    """All tags by name, in the order of the names.

    Raises:
        CorruptDataError: a file is no tag.
    """
    return {name: TagRecord.parse(data, path) for name, path, data in _files(store, root, TAGS_DIRECTORY)}


def list_branches(store: ObjectStore, root: str) -> dict[str, BranchRecord]:
    """All branches by name, in the order of the names; directories without such a file are none.

    Raises:
        CorruptDataError: a file is no branch.
    """
    return {name: BranchRecord.parse(name, data, path) for name, path, data in _files(store, root, BRANCHES_DIRECTORY)}


def _files(store: ObjectStore, root: str, directory: str) -> Iterator[tuple[str, str, pa.Buffer]]:
    for file_name in sorted(store.list_names(store.join(root, directory))):
        if not file_name.endswith(_SUFFIX):
            continue
        path = store.join(root, directory, file_name)
        try:
            data = store.get(path)
        except NotFoundError:
            # Deleted since it was listed.
            continue
        yield unquote(file_name.removesuffix(_SUFFIX)), path, data


@dataclass(frozen=True, slots=True)
class _Document:
    """A JSON object whose values are checked as they are taken."""

    values: dict[str, Any]
    path: str

    @classmethod
    def parse(cls, data: pa.Buffer | bytes, path: str) -> Self:
        try:
            values = json.loads(bytes(data))
        except (ValueError, RecursionError) as error:
            raise CorruptDataError(f"{path} is not JSON: {error}", path=path) from error
        if not isinstance(values, dict):
            raise CorruptDataError(f"{path}: expected a JSON object, found {values!r:.40}", path=path)
        return cls(values, path)

    def number(self, key: str) -> int:
        value = self.values.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_U64:
            raise self._unexpected(key, "a whole number", value)
        return value

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise self._unexpected(key, "a text or null", value)
        return value

    def texts(self, key: str) -> dict[str, str]:
        value = self.values.get(key, {})
        if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
            raise self._unexpected(key, "an object of texts", value)
        return value

    def moment(self, key: str) -> int | None:
        value = self.text(key)
        if value is None:
            return None
        match = _TIME.fullmatch(value)
        try:
            if match is None:
                raise ValueError(value)
            whole = datetime.fromisoformat(f"{match[1]}T{match[2]}{match[4].upper()}")
        except ValueError as error:
            raise self._unexpected(key, "an RFC 3339 time", value) from error
        fraction = (match[3] or ".")[1 : 1 + _NANOSECOND_DIGITS].ljust(_NANOSECOND_DIGITS, "0")
        return (whole - _EPOCH) // timedelta(seconds=1) * _NANOSECONDS + int(fraction)

    def first_fork(self) -> int | None:
        """The first version of ``identifier.version_mapping``; None when there is none."""
        try:
            version = self.values["identifier"]["version_mapping"][0][0]
        except (KeyError, IndexError, TypeError):
            return None
        # 0 is what the reference puts where it does not know.
        return version if isinstance(version, int) and version > 0 else None

    def _unexpected(self, key: str, expected: str, found: object) -> CorruptDataError:
        return CorruptDataError(
            f"{self.path}: {key} must be {expected}, found {found!r:.80}", path=self.path, expected=expected
        )


def _moment_text(nanoseconds: int | None) -> str | None:
    """RFC 3339 in UTC with as many groups of three digits as it takes."""
    if nanoseconds is None:
        return None
    seconds, fraction = divmod(nanoseconds, _NANOSECONDS)
    text = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    digits = f"{fraction:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{text}.{digits}Z" if digits else f"{text}Z"
