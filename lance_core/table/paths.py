"""Names and locations of all files below a table's root: pure string functions without I/O.

::

    {root}/
      _versions/     18446744073709551614.manifest   version 1, V2 naming: 2**64 - 1 - version, 20 digits
                     1.manifest                      version 1, V1 naming
                     d….manifest                     detached: not part of the history
                     latest_version_hint.json        advisory
      _transactions/ {read_version}-{uuid}.txn
      data/          {24 binary digits}{26 hex digits}.lance
      _deletions/    {fragment_id}-{read_version}-{id}.arrow | .bin
      _indices/      {uuid}/…
      _refs/tags/    {tag}.json
      _refs/branches/{branch, "/" as %2F}.json
      tree/          {branch}/…                       a complete root for each branch
      _blobs/        {id}.blob                        values that several data files share
      _fri/          {map id}/…                       where compactions moved rows
      _mem_wal/      {shard}/…                        rows not merged yet, in small tables with this layout

V2 names sort with the newest version first, so that a store that lists in lexical order returns it first. A table keeps
its naming scheme until it is migrated; a directory with names of both schemes indicates an interrupted migration.

Source: file names written by pylance 14.0.2.
"""

from __future__ import annotations

import re
import secrets
import uuid
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from lance_core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "BLOBS_DIRECTORY",
    "BRANCHES_DIRECTORY",
    "BRANCH_ROOTS_DIRECTORY",
    "DATA_DIRECTORY",
    "DELETIONS_DIRECTORY",
    "FIRST_DETACHED_VERSION",
    "HOLD_PREFIX",
    "INDICES_DIRECTORY",
    "MEM_WAL_DIRECTORY",
    "REFS_DIRECTORY",
    "REUSE_MAPS_DIRECTORY",
    "ROOT_DIRECTORIES",
    "TAGS_DIRECTORY",
    "TRANSACTIONS_DIRECTORY",
    "VERSIONS_DIRECTORY",
    "VERSION_HINT_NAME",
    "Hold",
    "ManifestName",
    "ManifestNaming",
    "data_file_name",
    "file_token_of",
    "hold_name",
    "is_detached_manifest_name",
    "is_detached_version",
    "is_staged_manifest_name",
    "manifest_name",
    "new_file_token",
    "newer_manifest_names",
    "newest_manifest_names",
    "parse_detached_name",
    "parse_hold_name",
    "parse_manifest_name",
    "transaction_file_name",
]

VERSIONS_DIRECTORY: Final = "_versions"
TRANSACTIONS_DIRECTORY: Final = "_transactions"
DATA_DIRECTORY: Final = "data"
DELETIONS_DIRECTORY: Final = "_deletions"
INDICES_DIRECTORY: Final = "_indices"
REFS_DIRECTORY: Final = "_refs"
TAGS_DIRECTORY: Final = f"{REFS_DIRECTORY}/tags"
BRANCHES_DIRECTORY: Final = f"{REFS_DIRECTORY}/branches"
BRANCH_ROOTS_DIRECTORY: Final = "tree"
BLOBS_DIRECTORY: Final = "_blobs"
REUSE_MAPS_DIRECTORY: Final = "_fri"
MEM_WAL_DIRECTORY: Final = "_mem_wal"
ROOT_DIRECTORIES: Final = frozenset(
    {
        VERSIONS_DIRECTORY,
        TRANSACTIONS_DIRECTORY,
        DATA_DIRECTORY,
        DELETIONS_DIRECTORY,
        INDICES_DIRECTORY,
        REFS_DIRECTORY,
        BRANCH_ROOTS_DIRECTORY,
        BLOBS_DIRECTORY,
        REUSE_MAPS_DIRECTORY,
        MEM_WAL_DIRECTORY,
    }
)
"""All directories that the root of a table or branch may contain. Only the first segment of a branch name may be one of
these names."""

VERSION_HINT_NAME: Final = "latest_version_hint.json"

FIRST_DETACHED_VERSION: Final = 2**63
"""Versions with bit 63 set are detached: not part of the history."""

_MAX_U64: Final = 2**64 - 1
_MANIFEST: Final = re.compile(r"([0-9]{1,20})\.manifest")
_DETACHED: Final = re.compile(r"d[0-9]{1,20}\.manifest")
HOLD_PREFIX: Final = ".tmp_hold-"
"""Prefix of the names of files below ``_versions/`` that protect a version from cleanup."""
_HOLD: Final = re.compile(rf"{re.escape(HOLD_PREFIX)}([0-9]{{1,20}})-([0-9]{{1,20}})-[0-9a-f]+")
_STAGED: Final = re.compile(r"d?[0-9]{1,20}\.manifest(#[0-9]+|-[0-9a-f-]{32,36})")
_V2_DIGITS: Final = 20
_V2_LENGTH: Final = _V2_DIGITS + len(".manifest")
_TOKEN: Final = re.compile(r"[0-9a-f]{16}")
_TOKEN_DIGITS: Final = 16
_BINARY_BYTES: Final = 3


class ManifestNaming(Enum):
    """How a table encodes versions in the names of its manifests."""

    V1 = 1
    """The version as a decimal number."""

    V2 = 2
    """2**64 - 1 minus the version, as twenty digits; the default."""


@dataclass(frozen=True, slots=True)
class ManifestName:
    """The parsed file name of a manifest."""

    version: int
    naming: ManifestNaming


def is_detached_version(version: int) -> bool:
    """Return whether a version number belongs to a detached version."""
    return FIRST_DETACHED_VERSION <= version <= _MAX_U64


def manifest_name(version: int, naming: ManifestNaming = ManifestNaming.V2) -> str:
    """Return the file name of a version's manifest below ``_versions/``."""
    if is_detached_version(version):
        return f"d{version}.manifest"
    if not 0 < version < 2**63:
        raise InvalidInputError(
            f"invalid version number {version}; expected 1 to {_MAX_U64}",
            version=version,
        )
    if naming is ManifestNaming.V1:
        return f"{version}.manifest"
    return f"{_MAX_U64 - version:0{_V2_DIGITS}d}.manifest"


def parse_manifest_name(name: str) -> ManifestName | None:
    """Parse the name of a file below ``_versions/``; return None if it is not the name of an attached manifest.

    The result is None for staged manifests (``…manifest#1``), temporary files, the version hint, and detached
    manifests.
    """
    match = _MANIFEST.fullmatch(name)
    if match is None:
        return None
    digits = match[1]
    if len(digits) < _V2_DIGITS:
        return ManifestName(int(digits), ManifestNaming.V1)
    version = _MAX_U64 - int(digits)
    return ManifestName(version, ManifestNaming.V2) if version > 0 else None


def parse_detached_name(name: str) -> ManifestName | None:
    """Parse the name of a detached manifest below ``_versions/``; return None for any other file name."""
    version = int(name[1 : -len(".manifest")]) if is_detached_manifest_name(name) else 0
    return ManifestName(version, ManifestNaming.V2) if is_detached_version(version) else None


def newest_manifest_names(names: Iterable[str]) -> list[ManifestName]:
    """Return the newest manifest of each naming scheme, given the names of the files below ``_versions/`` in any order.

    V2 names have a fixed length and count down, so they can be compared as strings. To save time, a V2 name is parsed
    only if it sorts before all V2 names parsed so far.
    """
    newest: dict[ManifestNaming, ManifestName] = {}
    first = ""
    for name in names:
        if len(name) == _V2_LENGTH and first and name > first:
            continue
        parsed = parse_manifest_name(name)
        if parsed is None:
            continue
        if parsed.naming is ManifestNaming.V2:
            first = name
        if parsed.naming not in newest or parsed.version > newest[parsed.naming].version:
            newest[parsed.naming] = parsed
    return list(newest.values())


def newer_manifest_names(names: Iterable[str], version: int) -> list[ManifestName]:
    """Return the manifests newer than a version; for each naming scheme that has none, return one older manifest.

    The older manifests show which naming schemes occur. Only the V2 names of newer versions and one other V2 name are
    parsed. ``names`` are the names of the files below ``_versions/``.
    """
    newest_known = manifest_name(version) if version > 0 else manifest_name(1) + "~"
    found: list[ManifestName] = []
    others: dict[ManifestNaming, ManifestName] = {}
    is_older_seen = False
    for name in names:
        if is_older_seen and len(name) == _V2_LENGTH and name >= newest_known:
            continue
        parsed = parse_manifest_name(name)
        if parsed is None:
            continue
        if parsed.version > version:
            found.append(parsed)
        else:
            others.setdefault(parsed.naming, parsed)
            is_older_seen = ManifestNaming.V2 in others
    return found + [other for naming, other in others.items() if all(name.naming is not naming for name in found)]


def is_detached_manifest_name(name: str) -> bool:
    """Return whether a file below ``_versions/`` is a detached manifest."""
    return _DETACHED.fullmatch(name) is not None


def is_staged_manifest_name(name: str) -> bool:
    """Return whether a file below ``_versions/`` is a staged manifest: ``{final}#{n}`` or ``{final}-{uuid}``."""
    return _STAGED.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Hold:
    """The parsed name of a file below ``_versions/`` that protects a version from cleanup.

    Attributes:
        version: the protected version.
        since: the creation time of the hold, in seconds since the epoch.
    """

    version: int
    since: int


def hold_name(version: int, since: int) -> str:
    """Return a unique file name for a hold. The reference implementation treats such files as temporary files."""
    return f"{HOLD_PREFIX}{version}-{since}-{secrets.token_hex(8)}"


def parse_hold_name(name: str) -> Hold | None:
    """Parse the name of a hold; return None for any other file name."""
    match = _HOLD.fullmatch(name)
    return None if match is None else Hold(int(match[1]), int(match[2]))


def transaction_file_name(read_version: int, transaction_uuid: str) -> str:
    """Return the file name of a transaction below ``_transactions/``."""
    return f"{read_version}-{transaction_uuid}.txn"


def new_file_token() -> str:
    """Return a new token for :func:`data_file_name`: 16 hexadecimal digits."""
    return secrets.token_hex(_TOKEN_DIGITS // 2)


def data_file_name(token: str | None = None) -> str:
    """Return a new, unique file name below ``data/``: 24 binary digits, 26 hexadecimal digits, ``.lance``.

    The binary digits distribute files over the partitions of an object store.

    Args:
        token: 16 lowercase hexadecimal digits with which the stem ends, so that all files of a job can be found; the
            remaining 64 bits are random. If None, all digits are random.

    Raises:
        InvalidInputError: the token is not 16 lowercase hexadecimal digits.
    """
    if token is not None and _TOKEN.fullmatch(token) is None:
        raise InvalidInputError(
            f"invalid file token {token!r}: expected {_TOKEN_DIGITS} lowercase hexadecimal digits", token=token
        )
    random = uuid.uuid4().bytes
    head = "".join(f"{byte:08b}" for byte in random[:_BINARY_BYTES])
    tail = random[_BINARY_BYTES:].hex()
    if token is not None:
        tail = tail[:-_TOKEN_DIGITS] + token
    return f"{head}{tail}.lance"


def file_token_of(data_file_path: str) -> str | None:
    """Return the 16 hexadecimal digits at the end of a data file's stem; None if it does not end with such digits."""
    stem = data_file_path.removesuffix(".lance")
    tail = stem[-_TOKEN_DIGITS:]
    return tail if stem != data_file_path and _TOKEN.fullmatch(tail) else None
