"""From a user's URI to a store and a path in it.

========================================  ==============================================================================
``/path``, ``file:///path``               local files
``memory://name/path``                    this process's memory
``s3://bucket/path``, ``s3a://…``         S3 and servers like it
``gs://…``, ``gcs://…``                   Google Cloud Storage, by gcsfs
``az://…``, ``abfs://…``, ``abfss://…``   Azure Blob Storage, by adlfs
``{scheme}+ddb://``, ``{scheme}+sql://``  the store of that scheme; which versions there are is kept elsewhere
                                          (:mod:`lance_core.table.manifest_stores`)
========================================  ==============================================================================
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from lance_core.buffers.fork_lock import fork_lock
from lance_core.errors import InvalidInputError, UnsupportedSchemeError
from lance_core.io.fsspec_store import FSSPEC_SCHEMES, open_fsspec_store
from lance_core.io.local_store import LocalStore
from lance_core.io.memory_store import MemoryStore
from lance_core.io.s3_store import open_s3_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.io.object_store import ObjectStore

__all__ = ["EXTERNAL_SUFFIXES", "resolve", "split_external_scheme"]

EXTERNAL_SUFFIXES: Final = ("ddb", "sql")
"""What may follow the scheme, after a ``+``, when the versions of a table are kept by an external manifest store."""

_S3_SCHEMES: Final = ("s3", "s3a")

_memory_stores: dict[str, MemoryStore] = {}
_memory_lock: Final = fork_lock()


def resolve(uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> tuple[ObjectStore, str]:
    """The store that a URI names and the path of the dataset in it.

    Args:
        uri: as above; a local path may be relative to the working directory and begin with ``~``.
        storage_options: credentials and settings of remote stores.

    Raises:
        InvalidInputError: the URI is empty or malformed.
        UnsupportedSchemeError: no store for this scheme.
    """
    text = os.fspath(uri)
    if not text:
        raise InvalidInputError(f"the path or URI {text!r} is empty")
    if "\0" in unquote(text):
        raise InvalidInputError(f"the dataset URI {text!r} has a NUL")
    scheme, text = _object_scheme(text)
    if scheme == "":
        return LocalStore(), os.path.abspath(os.path.expanduser(text))
    parts = urlsplit(text)
    if scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise InvalidInputError(f"file URI {text!r} names a host; expected file:///path")
        return LocalStore(), os.path.abspath(unquote(parts.path))
    if scheme == "memory":
        with _memory_lock:
            store = _memory_stores.setdefault(parts.netloc, MemoryStore())
        return store, parts.path.strip("/") or "dataset"
    if scheme in _S3_SCHEMES:
        bucket, key = _bucket_and_key(text, scheme)
        return open_s3_store(bucket, storage_options), f"{bucket}/{key}".rstrip("/")
    if scheme in FSSPEC_SCHEMES:
        container, key = _bucket_and_key(text, scheme)
        remote = open_fsspec_store(scheme, container, storage_options)
        # abfss://container@account…/path: the account is the store's business.
        return remote, f"{container.partition('@')[0]}/{key}".rstrip("/")
    raise UnsupportedSchemeError(
        f"no store for scheme {scheme!r} of {scheme}://…: local paths, file://, memory://, s3://, gs:// and az:// are "
        "supported",
        scheme=scheme,
    )


def split_external_scheme(uri: str) -> tuple[str, str, str]:
    """Scheme of the objects, suffix that names the external manifest store, and the query; empty where there is none.

    The query is cut off only where there is a suffix: elsewhere it belongs to nothing.
    """
    base, _, suffix = _scheme(uri).partition("+")
    if suffix not in EXTERNAL_SUFFIXES or not base:
        return _scheme(uri), "", ""
    return base, suffix, uri.partition("?")[2]


def _object_scheme(text: str) -> tuple[str, str]:
    """The scheme of the objects, and the URI without what concerns an external manifest store."""
    scheme, suffix, _ = split_external_scheme(text)
    if not suffix:
        return scheme, text
    return scheme, f"{scheme}://{text.partition('?')[0].partition('://')[2]}"


def _bucket_and_key(text: str, scheme: str) -> tuple[str, str]:
    rest = text.partition("://")[2]
    if "?" in rest or "#" in rest:
        raise InvalidInputError(f"the URI {scheme}://{rest.partition('?')[0]} has a query or a fragment")
    bucket, _, key = rest.partition("/")
    if not bucket:
        raise InvalidInputError(f"the URI {text!r} names no bucket")
    key = unquote(key).strip("/")
    if any(segment in ("", ".", "..") for segment in key.split("/") if key):
        raise InvalidInputError(f"the path of the URI {text!r} has an empty or relative segment")
    return bucket, key


def _scheme(text: str) -> str:
    head, separator, _ = text.partition("://")
    if not separator and text[:6].lower() == "file:/":
        return "file"
    return head.lower() if separator else ""
