"""Resolves a user's URI to a store and a path in it.

========================================  ==============================================================================
``/path``, ``file:///path``               local files
``memory://name/path``                    the memory of this process
``s3://bucket/path``, ``s3a://…``         S3 and compatible servers
``gs://…``, ``gcs://…``                   Google Cloud Storage, through gcsfs
``az://…``, ``abfs://…``, ``abfss://…``   Azure Blob Storage, through adlfs
``{scheme}+ddb://``, ``{scheme}+sql://``  the store for ``{scheme}``, with the versions in an external manifest store
                                          (:mod:`lance_core.table.manifest_stores`)
========================================  ==============================================================================
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from lance_core.buffers.fork_lock import fork_lock
from lance_core.errors import InvalidInputError, UnsupportedSchemeError
from lance_core.io.fsspec_store import FSSPEC_SCHEMES, open_fsspec_store
from lance_core.io.local_store import LocalStore
from lance_core.io.memory_store import MemoryStore
from lance_core.io.object_keys import decoded, key_of, quoted, trimmed
from lance_core.io.s3_settings import lowered_options
from lance_core.io.s3_store import open_s3_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.io.object_store import ObjectStore

__all__ = [
    "EXTERNAL_SUFFIXES",
    "Place",
    "canonical_scheme",
    "place_of",
    "recorded_uri",
    "register_store",
    "require_no_credentials",
    "resolve",
    "split_external_scheme",
    "unregister_store",
]

EXTERNAL_SUFFIXES: Final = ("ddb", "sql")
"""Suffixes that follow a ``+`` in the scheme, for tables whose versions are listed in an external manifest store."""

_S3_SCHEMES: Final = ("s3", "s3a")
_AZURE_SCHEMES: Final = ("abfs", "abfss")
_MEMORY_ROOT: Final = "dataset"
_CANONICAL_SCHEMES: Final = {"s3a": "s3", "gcs": "gs", "abfs": "az", "abfss": "az"}

_memory_stores: dict[str, ObjectStore] = {}
_memory_lock: Final = fork_lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A parsed URI.

    Attributes:
        scheme: scheme of the objects, in lowercase; empty for a local path.
        suffix: name of the external manifest store; empty if there is none.
        authority: name of the bucket, container, or memory store; empty for local files.
        path: path of the dataset in its store.
        query: query of the external manifest store.
    """

    scheme: str
    suffix: str
    authority: str
    path: str
    query: str

    def uri(self, path: str) -> str:
        """Return the URI for a path in the same store, with the same scheme and suffix."""
        if not self.scheme:
            return path
        scheme = f"{self.scheme}+{self.suffix}" if self.suffix else self.scheme
        return f"{scheme}://{self._below(path)}" + (f"?{self.query}" if self.query else "")

    def recorded(self, path: str) -> str:
        """Return a path in the form recorded in manifests, with a canonical scheme that every reader supports."""
        if self.scheme in ("", "file"):
            return path
        return f"{_recorded_scheme(self.scheme, self.authority)}://{self._below(path)}"

    def _below(self, path: str) -> str:
        if self.scheme in ("", "file"):
            return quoted(path)
        if self.scheme == "memory":
            return f"{self.authority}/{path}"
        below = path.partition("/")[2]
        return f"{self.authority}/{quoted(below)}" if below else self.authority


def place_of(uri: str | os.PathLike[str]) -> Place:
    """Parse a URI.

    Args:
        uri: see the module docstring; a local path may start with ``~`` or be relative to the working directory.

    Raises:
        InvalidInputError: the URI is empty or malformed, or contains credentials.
        UnsupportedSchemeError: the scheme is not supported.
    """
    text = os.fspath(uri)
    if not text:
        raise InvalidInputError("the path or URI is empty")
    if "\0" in unquote(text):
        raise InvalidInputError(f"the path or URI {text!r} must not contain a NUL character")
    require_no_credentials(text)
    scheme, suffix, query = split_external_scheme(text)
    if scheme == "":
        return Place(scheme="", suffix="", authority="", path=os.path.abspath(os.path.expanduser(text)), query="")
    authority, path = _authority_and_path(trimmed(text), scheme, suffix)
    if scheme == "file":
        if authority not in ("", "localhost"):
            raise InvalidInputError(f"the URI {text!r} must not have a host; expected file:///path")
        path, authority = os.path.abspath(decoded(path)), ""
    elif scheme == "memory":
        path = path.strip("/") or _MEMORY_ROOT
    elif scheme in _S3_SCHEMES or scheme in FSSPEC_SCHEMES:
        if not authority:
            raise InvalidInputError(f"the URI {text!r} has no bucket or container; expected {scheme}://bucket/path")
        # abfss://container@account…/path: the store handles the account.
        path = f"{authority.partition('@')[0]}/{key_of(path)}".rstrip("/")
    else:
        raise UnsupportedSchemeError(
            f"unsupported scheme {scheme!r} in {scheme}://…: local paths, file://, memory://, s3://, gs://, and az:// "
            "are supported",
            scheme=scheme,
        )
    return Place(scheme=scheme, suffix=suffix, authority=authority, path=path, query=query)


def resolve(uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> tuple[ObjectStore, str]:
    """Return the store for a URI, and the path of the dataset in that store.

    Args:
        uri: see the module docstring; a local path may start with ``~`` or be relative to the working directory.
        storage_options: credentials and settings for remote stores.

    Raises:
        InvalidInputError: the URI is empty or malformed, or contains credentials.
        InvalidTypeError: the storage options are not a mapping of strings to strings.
        UnsupportedSchemeError: the scheme is not supported.
    """
    # Checked for every store, even if the store does not use options: in another deployment, it may be remote.
    lowered_options(storage_options)
    place = place_of(uri)
    if place.scheme in ("", "file"):
        return LocalStore(), place.path
    if place.scheme == "memory":
        with _memory_lock:
            return _memory_stores.setdefault(place.authority, MemoryStore()), place.path
    if place.scheme in _S3_SCHEMES:
        return open_s3_store(place.authority, storage_options), place.path
    return open_fsspec_store(place.scheme, place.authority, storage_options), place.path


def register_store(name: str, store: ObjectStore) -> None:
    """Register a store for ``memory://{name}/…`` in this process, replacing any previous store with the same name.

    Open datasets keep the store with which they were opened.

    Args:
        name: the text between ``memory://`` and the first slash.
        store: the store; it receives the paths that follow the slash.

    Raises:
        InvalidInputError: the name is empty or contains a slash.
    """
    if not name or "/" in name:
        raise InvalidInputError(f"invalid store name {name!r}; expected a non-empty name without slashes")
    with _memory_lock:
        _memory_stores[name] = store


def unregister_store(name: str) -> None:
    """Remove the store for ``memory://{name}/…``; the next use of the name creates an empty memory store."""
    with _memory_lock:
        _memory_stores.pop(name, None)


def recorded_uri(uri: str, path: str | None = None) -> str:
    """Return a root directory in the form recorded in manifests: an absolute path, or a URI.

    Args:
        uri: URI of the root.
        path: path in the store of the URI; if None, the path of the URI.

    Raises:
        InvalidInputError: the URI is empty or malformed, contains credentials, or has a query or fragment that may
            contain secrets.
    """
    try:
        place = place_of(uri)
    except UnsupportedSchemeError:
        # Another implementation may support the scheme.
        if "?" in uri or "#" in uri:
            raise InvalidInputError(
                f"the URI {uri.partition('?')[0].partition('#')[0]} must not have a query or a fragment"
            ) from None
        return uri.rstrip("/")
    return place.recorded(place.path if path is None else path)


def canonical_scheme(scheme: str) -> str:
    """Return the canonical name of a scheme that has several names."""
    return _CANONICAL_SCHEMES.get(scheme, scheme)


def require_no_credentials(uri: str) -> None:
    """Reject a URI with a user name or password, because URIs appear in messages and are written to manifests.

    Raises:
        InvalidInputError: the URI contains credentials; the message does not include them.
    """
    scheme, separator, rest = uri.partition("://")
    user, has_user, _ = re.split("[/?#]", rest, maxsplit=1)[0].rpartition("@")
    # In abfss://container@account…/path, the part before the @ is the container.
    is_container = scheme.lower().partition("+")[0] in _AZURE_SCHEMES and ":" not in user
    if separator and has_user and not is_container:
        raise InvalidInputError(f"the URI {scheme}://… contains credentials; pass them as storage options")


def split_external_scheme(uri: str) -> tuple[str, str, str]:
    """Return the scheme of the objects, the suffix that specifies the external manifest store, and the query.

    Missing parts are empty strings. Without a suffix, the query is empty even if the URI contains one.
    """
    base, _, suffix = _scheme(uri).partition("+")
    if suffix not in EXTERNAL_SUFFIXES or not base:
        return _scheme(uri), "", ""
    return base, suffix, uri.partition("?")[2]


def _recorded_scheme(scheme: str, authority: str) -> str:
    # Only abfss:// URIs contain the account.
    return "abfss" if scheme in _AZURE_SCHEMES and "@" in authority else canonical_scheme(scheme)


def _authority_and_path(text: str, scheme: str, suffix: str) -> tuple[str, str]:
    """Return the part between the scheme and the first slash, and the rest. Reject queries and fragments."""
    rest = text.partition("?")[0] if suffix else text
    rest = rest.partition(":")[2]
    if not rest.startswith("//"):
        authority, path = "", rest
    else:
        authority, slash, path = rest[2:].partition("/")
        path = slash + path
    if scheme in ("file", "memory"):
        return authority, re.split("[?#]", path, maxsplit=1)[0]
    if "?" in rest or "#" in rest:
        raise InvalidInputError(f"the URI {scheme}:{rest.partition('?')[0]} must not have a query or a fragment")
    return authority, path


def _scheme(text: str) -> str:
    head, separator, _ = text.partition("://")
    if not separator and text[:6].lower() == "file:/":
        return "file"
    return head.lower() if separator else ""
