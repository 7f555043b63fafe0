"""Objects on S3 are read with signed URLs; if a server refuses them, the client of botocore reads the objects."""

from collections.abc import Iterator

import pytest

from lance_core.errors import NotFoundError, StorageError
from lance_core.io.byte_range import ByteRange
from lance_core.io.s3_store import S3Store, open_s3_store
from tests.support.fault_proxy import Fault, FaultProxy, Request, fault_proxy
from tests.support.s3_servers import S3Server, moto_server

CONTENT = bytes(range(256))


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with moto_server() as running:
        running.client().put_object(Bucket=running.bucket, Key="a b/ä+c.lance", Body=CONTENT)
        yield running


@pytest.fixture
def proxy(server: S3Server) -> Iterator[FaultProxy]:
    with fault_proxy(server.endpoint) as running:
        yield running


def _store(server: S3Server, proxy: FaultProxy, **options: str) -> S3Store:
    return open_s3_store(server.bucket, server.options(aws_endpoint=proxy.endpoint, **options))


def _path(server: S3Server) -> str:
    return f"{server.bucket}/a b/ä+c.lance"


def _read(store: S3Store, path: str) -> bytes:
    [found] = store.get_ranges(path, [ByteRange(10, 20)])
    return found.to_pybytes()


def test_object_is_read_with_one_request(server, proxy):
    store = _store(server, proxy)
    assert _read(store, _path(server)) == CONTENT[10:20]
    assert store.get(_path(server)).to_pybytes() == CONTENT
    assert proxy.methods() == ["GET", "GET"]


def test_anonymous_requests_are_not_signed(server, proxy, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "secret-of-the-environment")
    store = _store(server, proxy, aws_skip_signature="true")
    api = store.client.wait_for(store.client._api)
    url = store.client.wait_for(lambda: store.client._urls.url(api, server.bucket, "k"))
    assert url == f"{proxy.endpoint}/{server.bucket}/k"


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.THROTTLED, Fault.RESET, Fault.TORN, Fault.DENIED])
def test_failed_request_with_a_signed_url_is_repeated_by_the_client(server, proxy, fault):
    store = _store(server, proxy)
    proxy.reset(lambda request: fault if request.index == 0 else None)
    assert _read(store, _path(server)) == CONTENT[10:20]
    assert proxy.methods() == ["GET", "GET"]


def test_server_that_refuses_signed_urls_is_asked_only_once(server, proxy, monkeypatch):
    store = _store(server, proxy, timeout="29s")
    proxy.reset(lambda request: Fault.DENIED if request.index == 0 else None)
    for _ in range(3):
        assert _read(store, _path(server)) == CONTENT[10:20]
    assert proxy.methods() == ["GET"] * 4
    assert store.client._urls is None


def test_missing_object_is_reported_after_one_request(server, proxy):
    store = _store(server, proxy)
    with pytest.raises(NotFoundError, match=r"cannot read s3://.*: the object does not exist"):
        store.get(f"{server.bucket}/none")
    assert proxy.methods() == ["GET"]


def test_number_of_attempts_is_limited(server, proxy):
    store = _store(server, proxy, client_max_retries="1")

    def fails(request: Request) -> Fault:
        return Fault.BEFORE

    proxy.reset(fails)
    with pytest.raises(StorageError):
        _read(store, _path(server))
    assert proxy.methods() == ["GET", "GET"]


def test_reads_that_have_begun_return_their_bytes_or_their_error(server, proxy):
    store = _store(server, proxy)
    found = store.begin_ranges(_path(server), [ByteRange(200, 210), ByteRange(5, 5), ByteRange(0, 3)])
    missing = store.begin_ranges(f"{server.bucket}/none", [ByteRange(0, 1)])
    assert [each.to_pybytes() for each in found.result(60)] == [CONTENT[200:210], b"", CONTENT[:3]]
    with pytest.raises(NotFoundError):
        missing.result(60)
