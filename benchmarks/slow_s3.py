"""An S3 server on this machine whose requests take as long as those of a remote one, and are counted.

A process of its own runs moto and, before it, a proxy: it waits before it passes on a request, for any number of
requests at the same time. moto reads an object anew for each range, so the proxy keeps data files, which never change.
"""

from __future__ import annotations

import asyncio
import http.client
import logging
import multiprocessing
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection
    from pathlib import Path

BUCKET: Final = "bench"
HOP_HEADERS: Final = frozenset({"connection", "content-length", "keep-alive", "transfer-encoding"})
LONGEST_HEAD: Final = 64 * 1024


@dataclass(frozen=True)
class SlowS3:
    """A running server with one bucket.

    Attributes:
        endpoint: the proxy.
        direct: the server behind it.
        requests: counts the requests to the proxy.
        num_bytes: counts the bytes of their bodies, in both directions.
    """

    endpoint: str
    direct: str
    requests: Any
    num_bytes: Any

    @property
    def options(self) -> dict[str, str]:
        """Storage options, for both libraries."""
        return {
            "aws_access_key_id": "test",
            "aws_secret_access_key": "testtest",
            "aws_endpoint": self.endpoint,
            "aws_region": "us-east-1",
            "allow_http": "true",
        }

    def counts(self) -> tuple[int, int]:
        """Requests and bytes so far."""
        return self.requests.value, self.num_bytes.value

    def upload(self, directory: Path, name: str) -> str:
        """Copy a table on disk into the bucket, past the proxy; its URI there."""
        from s3fs import S3FileSystem

        files = S3FileSystem(key="test", secret="testtest", endpoint_url=self.direct)
        files.put(str(directory) + "/", f"{BUCKET}/{name}/", recursive=True)
        return f"s3://{BUCKET}/{name}"


@contextmanager
def slow_s3(seconds: float) -> Iterator[SlowS3]:
    """Start a server each of whose requests takes that long, in addition to its own time."""
    context = multiprocessing.get_context("spawn")
    counters = context.Value("q", 0), context.Value("q", 0)
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(seconds, *counters, theirs), daemon=True)
    process.start()
    try:
        endpoint, direct = ours.recv()
        yield SlowS3(endpoint, direct, *counters)
    finally:
        process.terminate()
        process.join()


def serve(seconds: float, requests: Any, num_bytes: Any, ready: Connection) -> None:
    """Run the server and the proxy until the process is ended."""
    from moto.server import ThreadedMotoServer
    from s3fs import S3FileSystem

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    direct = f"http://{host}:{port}"
    S3FileSystem(key="test", secret="testtest", endpoint_url=direct).mkdir(BUCKET)
    proxy = Proxy(f"{host}:{port}", seconds, requests, num_bytes)

    async def listen() -> None:
        server = await asyncio.start_server(proxy.converse, "127.0.0.1", 0, limit=LONGEST_HEAD)
        ready.send((f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", direct))
        await server.serve_forever()

    asyncio.run(listen())


@dataclass
class Proxy:
    """Passes requests on, late.

    Attributes:
        upstream: host and port of the server.
        seconds: how late.
        requests: counts them.
        num_bytes: counts the bytes of their bodies.
        kept: the data files that were read, by path, with their headers.
    """

    upstream: str
    seconds: float
    requests: Any
    num_bytes: Any
    kept: dict[str, tuple[list[tuple[str, str]], memoryview]] = field(default_factory=dict)

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                line, *lines = (await reader.readuntil(b"\r\n\r\n"))[:-4].decode("latin-1").split("\r\n")
                method, target, _ = line.split(" ")
                headers = [tuple(each.split(": ", 1)) for each in lines]
                known = {name.lower(): value for name, value in headers}
                if "expect" in known:
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = await reader.readexactly(int(known.get("content-length", 0)))
                await asyncio.sleep(self.seconds)
                status, answer, data = await self.answer(method, target, headers, known, body)
                self.requests.value += 1
                self.num_bytes.value += len(data) + len(body)
                lengths = [value for name, value in answer if name.lower() == "content-length"]
                length = lengths[0] if method == "HEAD" and lengths else len(data)
                answer = [pair for pair in answer if pair[0].lower() not in HOP_HEADERS]
                head = [f"HTTP/1.1 {status} .", *(": ".join(pair) for pair in answer), f"Content-Length: {length}"]
                writer.write("\r\n".join([*head, "", ""]).encode("latin-1"))
                writer.write(data)
                await writer.drain()
        writer.close()

    async def answer(
        self, method: str, target: str, headers: list[Any], known: dict[str, str], body: bytes
    ) -> tuple[int, list[tuple[str, str]], Any]:
        """What the server says: status, headers, body."""
        # A signature may follow the path.
        path = target.partition("?")[0]
        if method == "GET" and "/data/" in path:
            if path not in self.kept:
                whole = [pair for pair in headers if pair[0].lower() != "range"]
                status, answer, data = await asyncio.to_thread(self.ask, "GET", target, whole, b"")
                if status != 200:
                    return status, answer, data
                self.kept[path] = answer, memoryview(data)
            return self.part(path, known.get("range"))
        return await asyncio.to_thread(self.ask, method, target, headers, body)

    def part(self, target: str, wanted: str | None) -> tuple[int, list[tuple[str, str]], memoryview]:
        """A range of a file that is kept."""
        answer, data = self.kept[target]
        if wanted is None:
            return 200, answer, data
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start = int(first) if first else len(data) - int(last)
        stop = min(int(last) + 1, len(data)) if first and last else len(data)
        return 206, [*answer, ("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")], data[start:stop]

    def ask(
        self, method: str, target: str, headers: list[tuple[str, str]], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Send a request to the server."""
        connection = http.client.HTTPConnection(self.upstream, timeout=60)
        try:
            passed = {name: value for name, value in headers if name.lower() not in {"expect", "connection"}}
            connection.request(method, target, body, passed)
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()
        finally:
            connection.close()
