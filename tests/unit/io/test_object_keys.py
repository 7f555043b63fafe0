"""Converting paths of URIs to object keys and back."""

import pytest

from lance_core.errors import InvalidInputError
from lance_core.io.fsspec_options import BACKENDS
from lance_core.io.object_keys import key_of, quoted
from lance_core.io.uri import place_of, recorded_uri


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("", ""),
        ("/", ""),
        ("/a/", "a"),
        ("/a/./b", "a/b"),
        ("/./a", "a"),
        ("/a/.", "a"),
        ("/a/../b", "b"),
        ("/../b", "b"),
        ("/a/..", ""),
        ("/%2E%2E/b", "b"),
        ("/%2e/b", "b"),
        ("/a%2Fb", "a/b"),
        ("/a%25b", "a%b"),
        ("/a%b", "a%b"),
        ("/%C3%A9", "é"),
        ("/x%20", "x "),
        ("/a...", "a..."),
    ],
)
def test_path_is_converted_to_an_object_key(path: str, key: str) -> None:
    assert key_of(path) == key
    assert key_of(f"/{quoted(key)}") == key


@pytest.mark.parametrize("path", ["/p//", "//v", "/a//b", "/%2F", "/a%2F..%2Fb", "/%ff", "/a%0Ab", "/a\x01b", "/a%7Fb"])
def test_paths_without_an_object_key_raise_invalid_input(path: str) -> None:
    with pytest.raises(InvalidInputError):
        key_of(path)


@pytest.mark.parametrize(
    ("uri", "recorded"),
    [
        ("s3a://b/t", "s3://b/t"),
        ("S3://b/t/", "s3://b/t"),
        ("s3+ddb://b/t?ddbTableName=x", "s3://b/t"),
        ("s3a+sql://b/./t", "s3://b/t"),
        ("s3://b/a%2520b", "s3://b/a%2520b"),
        ("s3://b/a b", "s3://b/a%20b"),
        ("s3://b", "s3://b"),
        ("gcs://b/t", "gs://b/t"),
        ("abfs://c/t", "az://c/t"),
        ("abfss://c@account.dfs.core.windows.net/t", "abfss://c@account.dfs.core.windows.net/t"),
        ("abfs://c@account.dfs.core.windows.net/t", "abfss://c@account.dfs.core.windows.net/t"),
        ("file:///a//b/./c%20d", "/a/b/c d"),
        ("file+sql:///a/b?sqlTableName=x", "/a/b"),
        ("memory://n", "memory://n/dataset"),
        ("oss://b/t/", "oss://b/t"),
    ],
)
def test_recorded_uri_is_normalized(uri: str, recorded: str) -> None:
    assert recorded_uri(uri) == recorded


@pytest.mark.parametrize("uri", ["s3://b/t ", "s3://b/t\n", "s3://b/\tt"])
def test_trailing_spaces_and_newlines_of_a_uri_are_removed(uri: str) -> None:
    assert place_of(uri).path == "b/t"


@pytest.mark.parametrize("uri", ["file://[x", "file://[::1/x"])
def test_uri_with_a_malformed_host_raises_invalid_input(uri: str) -> None:
    with pytest.raises(InvalidInputError, match="host"):
        place_of(uri)


@pytest.mark.parametrize("uri", ["s3://[::1/x", "memory://[/x", "gs://[::1/x"])
def test_bracket_in_a_bucket_name_is_an_ordinary_character(uri: str) -> None:
    assert place_of(uri).path.endswith("x")


@pytest.mark.parametrize(
    ("uri", "other"),
    [
        ("/a/t", "/a/t/tree/b"),
        ("file:///a/t", "file:///a/t/tree/b"),
        ("s3+ddb://k/t/?ddbTableName=x", "s3+ddb://k/t/tree/b?ddbTableName=x"),
        ("s3a://k/./t", "s3a://k/t/tree/b"),
        ("memory://n/t", "memory://n/t/tree/b"),
        ("memory://n", "memory://n/dataset/tree/b"),
        ("memory://", "memory:///dataset/tree/b"),
    ],
)
def test_uri_of_a_path_below_a_location_refers_to_the_same_store(uri: str, other: str) -> None:
    place = place_of(uri)
    assert place.uri(f"{place.path}/tree/b") == other
    assert place_of(other).path == f"{place.path}/tree/b"


def test_an_endpoint_with_an_open_bracket_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="must be a URL"):
        BACKENDS["az"].arguments({"azure_storage_endpoint": "http://[x"}, "c")
