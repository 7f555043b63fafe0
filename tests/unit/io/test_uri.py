"""Resolving a URI to a store and a path."""

import os

import pytest

from lance_core.errors import InvalidInputError, InvalidTypeError, NotSupportedError
from lance_core.io.local_store import LocalStore
from lance_core.io.memory_store import MemoryStore
from lance_core.io.uri import register_store, resolve, unregister_store


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("/lake/t.lance", "/lake/t.lance"),
        ("/lake/t.lance/", "/lake/t.lance"),
        ("file:///lake/t.lance", "/lake/t.lance"),
        ("file:/lake/t.lance", "/lake/t.lance"),
        ("FILE:/lake/t.lance", "/lake/t.lance"),
        ("file://localhost/lake/a%20b", "/lake/a b"),
        ("relative/t.lance", os.path.abspath("relative/t.lance")),
        ("a:b", os.path.abspath("a:b")),
    ],
)
def test_local_uris_resolve_to_paths(uri: str, path: str) -> None:
    store, found = resolve(uri)
    assert isinstance(store, LocalStore)
    assert found == path


def test_memory_uris_with_the_same_name_share_a_store() -> None:
    assert resolve("memory://one/a")[0] is resolve("memory://one/b")[0]
    assert resolve("memory://one/a")[0] is not resolve("memory://two/a")[0]


def test_registered_store_serves_its_name_until_unregistered() -> None:
    first, second = LocalStore(), MemoryStore()
    try:
        register_store("registered", first)
        assert resolve("memory://registered/lake/t") == (first, "lake/t")
        assert resolve("memory://another/lake/t")[0] is not first
        register_store("registered", second)
        assert resolve("memory://registered/lake/t")[0] is second
    finally:
        unregister_store("registered")
    assert resolve("memory://registered/lake/t")[0] not in (first, second)
    unregister_store("never registered")


@pytest.mark.parametrize("name", ["", "a/b"])
def test_registered_store_with_malformed_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInputError, match="invalid store name"):
        register_store(name, MemoryStore())


@pytest.mark.parametrize("uri", ["", "file://host/lake/t.lance", "/lake/t\0"])
def test_malformed_uris_are_refused(uri: str) -> None:
    with pytest.raises(InvalidInputError):
        resolve(uri)


@pytest.mark.parametrize("uri", ["/a/t", "memory://x/t", "s3://b/t", "gs://b/t", "s3+ddb://b/t?ddbTableName=n"])
@pytest.mark.parametrize("options", ["x", [("a", "b")], 1, [], {"a": None}, {1: "x"}])
def test_malformed_storage_options_are_refused_by_every_store(uri: str, options: object) -> None:
    with pytest.raises(InvalidTypeError, match=r"storage.option") as refused:
        resolve(uri, options)  # type: ignore[arg-type]  # that is the point
    assert isinstance(refused.value, TypeError)


def test_unknown_uri_scheme_is_named_in_the_error() -> None:
    with pytest.raises(NotSupportedError, match="ftp"):
        resolve("ftp://host/t.lance")
