"""S3Store against moto: operations, ranges, multipart uploads, and errors; credentials are never shown."""

import logging

import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CorruptDataError, NotFoundError, StorageError
from lance_core.io.byte_range import ByteRange
from lance_core.io.object_store import PutOutcome
from lance_core.io.s3_store import S3Store, open_s3_store
from lance_core.io.s3_upload import PART_BYTES
from lance_core.io.uri import resolve
from lance_core.transactions.options import CommitOptions
from tests.support.s3_servers import S3Server

SECRETS = {"aws_access_key_id": "AKIAVERYHIDDEN", "aws_secret_access_key": "nobody-may-see-this"}


@pytest.fixture
def store(server: S3Server) -> S3Store:
    return open_s3_store(server.bucket, server.options())


@pytest.fixture
def root(server: S3Server) -> str:
    return server.uri().partition("://")[2]


def test_s3_object_can_be_put_read_and_deleted(store: S3Store, root: str) -> None:
    path = store.join(root, "a", "b")
    with pytest.raises(NotFoundError, match="s3://"):
        store.get(path)
    with pytest.raises(NotFoundError):
        store.head(path)
    store.put(path, pa.py_buffer(b"hello"))
    assert bytes(store.get(path)) == b"hello"
    info = store.head(path)
    assert (info.path, info.num_bytes, info.modified_at > 1.6e9) == (path, 5, True)
    store.delete(path)
    store.delete(path)
    assert list(store.list_recursive(root)) == []


def test_s3_put_if_absent_creates_an_object_once(store: S3Store, root: str) -> None:
    path = store.join(root, "x.manifest")
    assert store.put_if_absent(path, b"one") is PutOutcome.CREATED
    assert store.put_if_absent(path, b"two") is PutOutcome.EXISTS
    assert bytes(store.get(path)) == b"one"
    assert [info.path for info in store.list(root)] == [path]


def test_s3_ranges_are_returned_in_the_requested_order(store: S3Store, root: str) -> None:
    path = store.join(root, "data")
    content = bytes(range(256)) * 2048
    store.put(path, content)
    ranges = [ByteRange(400_000, 400_010), ByteRange(0, 5), ByteRange(7, 7), ByteRange(3, 300_000), ByteRange(1, 2)]
    assert [bytes(part) for part in store.get_ranges(path, ranges)] == [
        content[each.start : each.stop] for each in ranges
    ]
    assert store.get_ranges(path, []) == []


@pytest.mark.parametrize("content", [b"", b"0123456789"])
def test_s3_get_tail_also_returns_the_size_of_the_object(store: S3Store, root: str, content: bytes) -> None:
    path = store.join(root, "data")
    store.put(path, content)
    for max_bytes in (1, 10, 11):
        tail, num_bytes = store.get_tail(path, max_bytes)
        assert (tail.to_pybytes(), num_bytes) == (content[-max_bytes:], len(content))
    with pytest.raises(NotFoundError):
        store.get_tail(store.join(root, "absent"), 8)


@pytest.mark.parametrize("wanted", [ByteRange(0, 11), ByteRange(10, 11), ByteRange(500, 510)])
def test_s3_range_past_the_end_raises_corrupt_data(store: S3Store, root: str, wanted: ByteRange) -> None:
    path = store.join(root, "data")
    store.put(path, b"0123456789")
    with pytest.raises(CorruptDataError, match="the object is shorter"):
        store.get_ranges(path, [wanted])


def test_s3_listing_is_sorted_and_limited_to_one_directory(store: S3Store, root: str) -> None:
    names = [f"{number:04d}" for number in range(1200)]
    for name in (*names[::-100], "sub/x", "sub/y"):
        store.put(store.join(root, name), b"")
    store.put(f"{root}-other/z", b"")
    assert list(store.list_names(root)) == sorted(names[::-100])
    assert [info.path.removeprefix(root) for info in store.list_recursive(root)][-2:] == ["/sub/x", "/sub/y"]
    assert list(store.list(store.join(root, "nothing"))) == []


def test_small_s3_object_is_written_in_one_request(store: S3Store, root: str, server: S3Server) -> None:
    path = store.join(root, "small")
    with store.create(path) as stream:
        stream.write(b"abc")
        stream.write(memoryview(b"def"))
        assert (stream.position, list(store.list(root))) == (6, [])
        stream.commit()
    assert bytes(store.get(path)) == b"abcdef"
    key = path.partition("/")[2]
    assert "-" not in server.client().head_object(Bucket=server.bucket, Key=key)["ETag"]


def test_large_s3_object_is_written_in_parts(store: S3Store, root: str, server: S3Server) -> None:
    path = store.join(root, "large")
    piece = bytes(range(256)) * 20_000
    with store.create(path) as stream:
        for _ in range(5):
            stream.write(piece)
        assert list(store.list(root)) == []
        stream.commit()
        stream.abort()
    assert store.head(path).num_bytes == 5 * len(piece) > 2 * PART_BYTES
    assert bytes(store.get(path)) == piece * 5
    head = server.client().head_object(Bucket=server.bucket, Key=path.partition("/")[2])
    assert head["ETag"].rstrip('"').endswith("-4")


@pytest.mark.parametrize("num_bytes", [10, 3 * PART_BYTES])
def test_aborted_s3_upload_leaves_nothing(store: S3Store, root: str, server: S3Server, num_bytes: int) -> None:
    with store.create(store.join(root, "gone")) as stream:
        stream.write(b"x" * num_bytes)
    assert list(store.list(root)) == []
    assert "Uploads" not in server.client().list_multipart_uploads(Bucket=server.bucket)
    with pytest.raises(StorageError, match="closed"):
        stream.write(b"x")
    with pytest.raises(StorageError, match="closed"):
        stream.commit()


def test_s3_store_refuses_a_path_in_another_bucket(store: S3Store) -> None:
    with pytest.raises(StorageError, match="not in bucket"):
        store.get("elsewhere/key")


def test_s3_stores_with_equal_settings_share_a_client(server: S3Server) -> None:
    one, two = (resolve(server.uri("a"), server.options())[0] for _ in range(2))
    other, _ = resolve(server.uri("a"), server.options(client_max_retries="1"))
    assert one.client is two.client
    assert other.client is not one.client


def test_s3_endpoint_that_includes_the_bucket_is_reduced_to_its_host(server: S3Server) -> None:
    options = server.options(aws_endpoint="http://b.host:9000", virtual_hosted_style_request="true")
    assert open_s3_store("b", options).client.settings.endpoint == "http://host:9000"


@pytest.mark.parametrize(
    ("uri", "more", "expected", "message"),
    [
        ("s3://no-such-bucket-anywhere/t", {}, StorageError, "'no-such-bucket-anywhere' does not exist"),
        ("s3://{bucket}/none", {}, lance_core.DatasetNotFoundError, "no dataset"),
        ("s3://{bucket}/none", {"aws_endpoint": "http://127.0.0.1:1"}, StorageError, "connection failed"),
        ("s3://", {}, lance_core.InvalidInputError, "bucket"),
    ],
)
def test_opening_an_unreachable_s3_dataset_raises_a_typed_error(
    server: S3Server, uri: str, more: dict[str, str], expected: type[Exception], message: str
) -> None:
    options = server.options(**{"client_max_retries": "0", **more})
    with pytest.raises(expected, match=message):
        lance_core.dataset(uri.format(bucket=server.bucket), storage_options=options)


def test_s3_credentials_are_never_shown_or_logged(server: S3Server, caplog: pytest.LogCaptureFixture) -> None:
    options = server.options(**SECRETS)
    uri = server.uri()
    caplog.set_level(logging.DEBUG, logger="lance_core")
    dataset = lance_core.write_dataset({"a": [1]}, uri, storage_options=options)
    shown = [repr(dataset), repr(dataset.log.store), str(dataset.log), repr(dataset.locator), caplog.text]
    shown += [repr(CommitOptions(storage_options=options))]
    with pytest.raises(StorageError) as raised:
        lance_core.dataset("s3://no-such-bucket-anywhere/t", storage_options=options)
    error: BaseException | None = raised.value
    while error is not None:
        shown += [str(error), repr(error), repr(error.args), repr(getattr(error, "context", None))]
        error = error.__cause__
    keys = server.keys(uri)
    client = server.client()
    prefix = uri.rpartition("/")[2]
    shown += [
        client.get_object(Bucket=server.bucket, Key=f"{prefix}/{key}")["Body"].read().decode("latin-1") for key in keys
    ]
    for secret in SECRETS.values():
        assert not [text for text in shown if secret in text]
