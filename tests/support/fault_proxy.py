"""FaultProxy: an HTTP proxy in front of an S3 server that fails selected requests.

Every request is recorded and numbered; ``plan`` decides for each which fault it meets. The server behind it sees what
a network would let it see: the whole request, half of it, nothing, or all of it too late.
"""

import http.client
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_HOP_HEADERS = frozenset({"connection", "expect", "keep-alive", "transfer-encoding", "content-length"})
_STATUS = {
    "before": (500, "InternalError"),
    "409": (409, "ConditionalRequestConflict"),
    "412": (412, "PreconditionFailed"),
    "403": (403, "AccessDenied"),
    "503": (503, "SlowDown"),
}


class Fault(Enum):
    """The fault of a request."""

    BEFORE = "before"
    """Not carried out; the answer is 500."""

    AFTER = "after"
    """Carried out; the answer is 500."""

    TORN = "torn"
    """The server gets half of the body; without a body, the client gets half of the answer. Then all is closed."""

    RESET = "reset"
    """Carried out; the connection is reset instead of an answer."""

    CONFLICT = "409"
    """Not carried out; the answer is 409."""

    PRECONDITION = "412"
    """Not carried out; the answer is 412."""

    DENIED = "403"
    """Not carried out; the answer is 403."""

    THROTTLED = "503"
    """Not carried out; the answer is 503, slow down."""

    SLOW = "slow"
    """Carried out only after :meth:`FaultProxy.release`; nobody waits for the answer any more."""

    REFUSED = "refused"
    """Not carried out; the connection is reset."""


@dataclass(frozen=True)
class Request:
    """One recorded request."""

    index: int
    method: str
    path: str
    conditional: bool

    @property
    def makes_version(self) -> bool:
        """Return whether the request creates a version."""
        return self.conditional and self.path.endswith(".manifest")


Plan = Callable[[Request], Fault | None]


def no_plan(request: Request) -> None:
    return None


def fault_at(index: int, fault: Fault) -> Plan:
    """Fail the request with this number."""
    return lambda request: fault if request.index == index else None


@dataclass
class FaultProxy:
    """A running proxy.

    Attributes:
        endpoint: where it listens.
        upstream: host and port of the server.
        plan: decides about each request.
        drops_conditions: pass requests on without ``If-None-Match``, as a server that does not know it would see them.
        requests: what came.
    """

    endpoint: str
    upstream: str
    plan: Plan = no_plan
    drops_conditions: bool = False
    requests: list[Request] = field(default_factory=list)
    _condition: threading.Condition = field(default_factory=threading.Condition)
    _released: threading.Event = field(default_factory=threading.Event)
    _busy: int = 0

    def reset(self, plan: Plan = no_plan) -> None:
        """Forget the recorded requests, and follow another plan."""
        self.settle()
        with self._condition:
            self.requests.clear()
        self._released.clear()
        self.plan = plan

    def release(self) -> None:
        """Let held requests through."""
        self._released.set()

    def settle(self) -> None:
        """Wait until all received requests have been handled."""
        self.release()
        with self._condition:
            self._condition.wait_for(lambda: self._busy == 0, timeout=60)

    def methods(self) -> list[str]:
        """Return the methods of the requests, in order."""
        return [request.method for request in self.requests]

    def enter(self, method: str, path: str, conditional: bool) -> Request:
        """Record a request."""
        with self._condition:
            self._busy += 1
            request = Request(len(self.requests), method, path, conditional)
            self.requests.append(request)
        return request

    def leave(self) -> None:
        """Record that a request has been handled."""
        with self._condition:
            self._busy -= 1
            self._condition.notify_all()

    def wait_for_release(self) -> None:
        """Hold a request."""
        self._released.wait(timeout=60)


@contextmanager
def fault_proxy(upstream: str) -> Iterator[FaultProxy]:
    """Run a proxy in front of the server at a URL."""
    server = _Server(("127.0.0.1", 0), _Handler)
    proxy = FaultProxy(f"http://127.0.0.1:{server.server_address[1]}", urlsplit(upstream).netloc)
    server.proxy = proxy
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.settle()
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    proxy: FaultProxy

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors of connections, because this server interrupts them on purpose."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        proxy = self.server.proxy
        path = self.path.partition("?")[0]
        request = proxy.enter(self.command, path, self.headers.get("If-None-Match") == "*")
        try:
            self._answer(proxy.plan(request), body)
        finally:
            proxy.leave()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _handle  # noqa: N815  # names that the base class calls

    def _answer(self, fault: Fault | None, body: bytes) -> None:
        if fault is None:
            self._pass_on(*self._forward(body))
        elif fault.value in _STATUS:
            self._fail(*_STATUS[fault.value])
        elif fault is Fault.AFTER:
            self._forward(body)
            self._fail(*_STATUS["before"])
        elif fault is Fault.RESET:
            self._forward(body)
            self._reset()
        elif fault is Fault.REFUSED:
            self._reset()
        elif fault is Fault.TORN:
            self._tear(body)
        else:
            self._hold(body)

    def _hold(self, body: bytes) -> None:
        # The client must have given up, and have closed its end of the connection.
        select.select([self.connection], [], [], 60)
        self.server.proxy.wait_for_release()
        with suppress(OSError, http.client.HTTPException):
            self._forward(body)
        self.close_connection = True

    def _tear(self, body: bytes) -> None:
        if body:
            with suppress(OSError):
                self._send_half(body)
            self._reset()
            return
        status, headers, data = self._forward(body)
        if self.command == "HEAD":
            # Such a response consists of headers only, and half of the headers is no response.
            self._reset()
            return
        self._start(status, headers, len(data))
        self.wfile.write(data[: len(data) // 2])
        self.wfile.flush()
        self.close_connection = True

    def _send_half(self, body: bytes) -> None:
        host, _, port = self.server.proxy.upstream.partition(":")
        lines = [f"{self.command} {self.path} HTTP/1.1", *(f"{name}: {value}" for name, value in self._headers())]
        head = "\r\n".join([*lines, f"Content-Length: {len(body)}", "Connection: close", "", ""])
        with socket.create_connection((host, int(port)), timeout=60) as upstream:
            upstream.sendall(head.encode() + body[: len(body) // 2])
            # The server has finished the request before the client can retry.
            upstream.shutdown(socket.SHUT_WR)
            while upstream.recv(65536):
                pass

    def _headers(self) -> list[tuple[str, str]]:
        dropped = {*_HOP_HEADERS, "if-none-match"} if self.server.proxy.drops_conditions else _HOP_HEADERS
        return [(name, value) for name, value in self.headers.items() if name.lower() not in dropped]

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self.server.proxy.upstream, timeout=60)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self._headers():
                connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()
        finally:
            connection.close()

    def _pass_on(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
        length = next((int(value) for name, value in headers if name.lower() == "content-length"), len(data))
        self._start(status, headers, length if self.command == "HEAD" else len(data))
        self.wfile.write(data)

    def _start(self, status: int, headers: list[tuple[str, str]], length: int) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _HOP_HEADERS:
                self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def _fail(self, status: int, code: str) -> None:
        data = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>injected</Message></Error>".encode()
        self._start(status, [("Content-Type", "application/xml")], len(data))
        if self.command != "HEAD":
            self.wfile.write(data)

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True
