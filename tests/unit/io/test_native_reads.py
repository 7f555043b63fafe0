"""Read requests to S3 are sent by obstore, with the settings of the store and no other settings."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
from botocore.credentials import ReadOnlyCredentials

from lance_core.errors import CorruptDataError
from lance_core.io.byte_range import ByteRange
from lance_core.io.native_reads import FirstReadError
from lance_core.io.s3_store import S3Store, open_s3_store

CONTENT = os.urandom(3 * 1024 * 1024)
BUCKET = "some.bucket"
MANY = 150
KEY = "AKIDEXAMPLE"
SECRET = "secret-of-the-options"
CHILD = """
import multiprocessing, sys
from lance_core.io.byte_range import ByteRange
from lance_core.io.s3_store import open_s3_store

store = open_s3_store("b", {"aws_endpoint": sys.argv[1], "allow_http": "true", "aws_skip_signature": "true"})

def read(index):
    return store.get_ranges("b/k", [ByteRange(index, index + 3)])[0].to_pybytes()

first = read(0)
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map_async(read, [0] * 8).get(60) == [first] * 8
# Nobody waits for these requests.
pending = [store.begin_ranges("b/slow", [ByteRange(0, 3)]) for _ in range(20)]
print(first.hex())
"""


@dataclass
class Recorder:
    """A server that returns the same content for every path, and records the requests."""

    endpoint: str = ""
    seen: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    arrived: threading.Event = field(default_factory=threading.Event)
    may_answer: threading.Event = field(default_factory=threading.Event)
    meeting: threading.Barrier = field(default_factory=lambda: threading.Barrier(MANY))

    @property
    def agents(self) -> list[str]:
        """Return the user agents of the requests."""
        return [headers["user-agent"].partition("/")[0] for _, headers in self.seen]


@pytest.fixture
def server() -> Iterator[Recorder]:
    recorder = Recorder()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            recorder.seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            recorder.arrived.set()
            if self.path.endswith("/slow"):
                recorder.may_answer.wait(60)
            if self.path.endswith("/together"):
                recorder.meeting.wait(60)
            first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
            start = int(first) if first else max(0, len(CONTENT) - int(last))
            body = CONTENT[start : int(last) + 1 if first and last else None]
            self.send_response(206 if "Range" in self.headers else 200)
            self.send_header("Content-Length", str(len(body)))
            if "Range" in self.headers:
                self.send_header("Content-Range", f"bytes {start}-{start + len(body) - 1}/{len(CONTENT)}")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = MANY

        def handle_error(self, *_: object) -> None:
            """Print nothing, because the client may have disconnected."""

    listening = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    recorder.endpoint = f"http://127.0.0.1:{listening.server_port}"
    yield recorder
    recorder.may_answer.set()
    listening.shutdown()
    listening.server_close()


def _store(server: Recorder, **options: str) -> S3Store:
    given = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "aws_region": "eu-west-3", **options}
    return open_s3_store(BUCKET, {"aws_endpoint": server.endpoint, "allow_http": "true", **given})


def _read(store: S3Store, *ranges: tuple[int, int], key: str = "a/b.lance") -> list[bytes]:
    wanted = [ByteRange(start, stop) for start, stop in ranges]
    return [found.to_pybytes() for found in store.get_ranges(f"{BUCKET}/{key}", wanted)]


def test_ranges_of_all_sizes_are_returned_in_the_order_of_the_request(server):
    million = 1024 * 1024
    ranges = [
        (2 * million, 3 * million),
        (7, 7),
        (0, 5),
        *((300_000 + 70_000 * i, 300_010 + 70_000 * i) for i in range(9)),
    ]
    ranges += [(100_000, 180_001), (1_000_000, 1_700_000)]
    store = _store(server, read_latency_ms="0.001")
    assert _read(store, *ranges) == [CONTENT[start:stop] for start, stop in ranges]
    asked = [headers["range"] for _, headers in server.seen]
    assert sorted(asked) == sorted(f"bytes={start}-{stop - 1}" for start, stop in ranges if start < stop)
    assert set(server.agents) == {"object_store"}
    assert store.counters.snapshot().read_iops == len(server.seen)


def test_large_ranges_are_aligned_for_typed_access(server):
    for found in _store(server).get_ranges(f"{BUCKET}/k", [ByteRange(1, 100_002), ByteRange(1_000_001, 3_000_000)]):
        assert found.address % 16 == 0


def test_tail_and_whole_object_are_read_with_one_request_each(server):
    store = _store(server)
    tail, num_bytes = store.get_tail(f"{BUCKET}/k", 1000)
    assert (tail.to_pybytes(), num_bytes) == (CONTENT[-1000:], len(CONTENT))
    assert store.get(f"{BUCKET}/k").to_pybytes() == CONTENT
    assert server.agents == ["object_store"] * 2


def test_range_past_the_end_raises_corrupt_data_error(server):
    with pytest.raises(CorruptDataError, match="the object is shorter"):
        _read(_store(server), (len(CONTENT) - 5, len(CONTENT) + 5))


def test_environment_settings_are_ignored_if_explicit_settings_are_given(server, monkeypatch):
    for name, value in {
        "AWS_ACCESS_KEY_ID": "AKIDOTHER",
        "AWS_SECRET_ACCESS_KEY": "other",
        "AWS_SESSION_TOKEN": "token-of-the-environment",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1",
        "AWS_ENDPOINT": "http://127.0.0.1:1",
        "AWS_REGION": "us-west-1",
        "AWS_BUCKET": "other",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
    }.items():
        monkeypatch.setenv(name, value)
    _read(_store(server), (0, 5))
    [(path, headers)] = server.seen
    assert path == f"/{BUCKET}/a/b.lance"
    assert f"Credential={KEY}/" in headers["authorization"]
    assert "/eu-west-3/s3/" in headers["authorization"]
    assert "x-amz-security-token" not in headers


def test_temporary_credentials_and_special_characters_are_sent(server):
    _read(_store(server, aws_session_token="the-token"), (0, 5), key="a b/ä+c=d.lance")
    [(path, headers)] = server.seen
    assert path == f"/{BUCKET}/a%20b/%C3%A4%2Bc%3Dd.lance"
    assert headers["x-amz-security-token"] == "the-token"


def test_anonymous_requests_are_not_signed(server, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDOTHER")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "other")
    _read(
        open_s3_store(BUCKET, {"aws_endpoint": server.endpoint, "allow_http": "true", "skip_signature": "true"}), (0, 5)
    )
    [(_, headers)] = server.seen
    assert "authorization" not in headers
    assert server.agents == ["object_store"]


def test_refreshed_credentials_are_used_for_the_next_request(server):
    store = _store(server, timeout="28s")
    _read(store, (0, 5))
    api = store.client.wait_for(store.client._api)

    async def refreshed() -> ReadOnlyCredentials:
        return ReadOnlyCredentials("AKIDREFRESHED", "other", "new-token")

    api._request_signer._credentials.get_frozen_credentials = refreshed
    _read(store, (0, 5))
    assert ["Credential=AKIDREFRESHED/" in headers["authorization"] for _, headers in server.seen] == [False, True]


def test_requests_are_sent_through_the_proxy(server):
    store = open_s3_store(
        BUCKET,
        {
            "aws_endpoint": "http://storage.invalid",
            "allow_http": "true",
            "skip_signature": "true",
            "proxy_url": server.endpoint,
        },
    )
    assert _read(store, (3, 9)) == [CONTENT[3:9]]
    [(path, _)] = server.seen
    assert urlsplit(path).hostname in (None, "storage.invalid")
    assert server.agents == ["object_store"]


def test_key_that_obstore_rejects_is_read_with_a_signed_url(server):
    assert _read(_store(server), (3, 9), key="a//b") == [CONTENT[3:9]]
    assert [path.partition("?")[0] for path, _ in server.seen] == [f"/{BUCKET}/a//b"]


def test_reads_with_a_certificate_file_are_not_sent_by_the_native_client(server, monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "authorities.pem"))
    store = open_s3_store(
        BUCKET, {"aws_endpoint": "https://127.0.0.1:1", "skip_signature": "true", "client_max_retries": "0"}
    )
    native = store.client._native

    async def connect() -> None:
        api = await store.client._api()
        with pytest.raises(FirstReadError, match=r"^$"):
            await native.ranges(api, "https://127.0.0.1:1/b/", "b", "k", [ByteRange(0, 1)])
        assert not native._connections

    store.client.wait_for(connect)


def test_canceled_read_ends_while_the_server_is_silent(server):
    store = _store(server)
    pending = store.begin_ranges(f"{BUCKET}/slow", [ByteRange(0, 5)])
    assert server.arrived.wait(60)
    assert pending.cancel()

    async def others() -> list[object]:
        await asyncio.sleep(0)
        return [task for task in asyncio.all_tasks() if "_read_ranges" in repr(task)]

    while store.client.wait_for(others):
        pass


def test_requests_for_many_objects_are_in_flight_together(server):
    store = _store(server)
    pending = [store.begin_ranges(f"{BUCKET}/{index}/together", [ByteRange(0, 5)]) for index in range(MANY)]
    # The server answers when all requests have arrived.
    assert [future.result(60)[0].to_pybytes() for future in pending] == [CONTENT[:5]] * MANY
    assert set(server.agents) == {"object_store"}


def test_processes_read_after_a_fork_and_exit_while_requests_are_in_flight(server):
    done = subprocess.run(
        [sys.executable, "-c", CHILD, server.endpoint], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, CONTENT[:3].hex(), "")
