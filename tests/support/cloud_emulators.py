"""Small emulators of Google Cloud Storage and Azure Blob Storage for the requests of gcsfs and adlfs.

Both enforce the condition of a create unless they are told to ignore it.
"""

import base64
import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

ACCOUNT = "emulated"
ACCOUNT_KEY = base64.b64encode(b"an account key of tests").decode()
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass
class Emulator:
    """A running emulator.

    Attributes:
        endpoint: where it listens.
        objects: container/key -> content.
        drops_conditions: pass the condition of a create over.
        conditions: conditional creates that came.
    """

    endpoint: str
    objects: dict[str, bytes] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    drops_conditions: bool = False
    conditions: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def google_options(self) -> dict[str, str]:
        """Return storage options for ``gs://``."""
        return {"google_base_url": self.endpoint, "google_skip_signature": "true"}

    @property
    def azure_options(self) -> dict[str, str]:
        """Return storage options for ``az://``."""
        parts = [
            "DefaultEndpointsProtocol=http",
            f"AccountName={ACCOUNT}",
            f"AccountKey={ACCOUNT_KEY}",
            f"BlobEndpoint={self.endpoint}/{ACCOUNT}",
        ]
        return {"azure_storage_connection_string": ";".join(parts)}

    def create(self, path: str, data: bytes, only_if_absent: bool) -> bool:
        """Create an object; return False if the condition is not met."""
        with self._lock:
            self.conditions += only_if_absent
            if only_if_absent and not self.drops_conditions and path in self.objects:
                return False
            self.objects[path] = data
            self.times[path] = time.time()
            return True

    def below(self, container: str, prefix: str, delimiter: str) -> tuple[list[str], list[str]]:
        """Return paths and common prefixes."""
        start = f"{container}/{prefix}"
        found = sorted(path for path in self.objects if path.startswith(start))
        if not delimiter:
            return found, []
        plain = [path for path in found if delimiter not in path[len(start) :]]
        deeper = {
            path[len(container) + 1 : path.index(delimiter, len(start)) + 1]
            for path in found
            if delimiter in path[len(start) :]
        }
        return plain, sorted(deeper)


@contextmanager
def google_storage() -> Iterator[Emulator]:
    """Run an emulator of the JSON API of Google Cloud Storage."""
    with _running(_Google) as emulator:
        yield emulator


@contextmanager
def azure_storage() -> Iterator[Emulator]:
    """Run an emulator of the Blob API of Azure."""
    with _running(_Azure) as emulator:
        yield emulator


@contextmanager
def _running(handler: type["_Handler"]) -> Iterator[Emulator]:
    server = _Server(("127.0.0.1", 0), handler)
    server.emulator = Emulator(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.emulator
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    emulator: Emulator


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing."""

    @property
    def emulator(self) -> Emulator:
        return self.server.emulator

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def answer(self, status: int, data: bytes = b"", **headers: str) -> None:
        self.send_response_only(status)
        self.send_header("Content-Length", headers.pop("length", str(len(data))))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def part(self, content: bytes, asked: str | None) -> tuple[int, bytes, dict[str, str]]:
        """Return status, bytes, and headers of a read."""
        match = _RANGE.fullmatch(asked or "")
        if match is None:
            return 200, content, {}
        start, stop = int(match[1]), int(match[2]) + 1 if match[2] else len(content)
        if start >= len(content):
            return 416, b"", {"Content_Range": f"bytes */{len(content)}"}
        piece = content[start:stop]
        return 206, piece, {"Content_Range": f"bytes {start}-{start + len(piece) - 1}/{len(content)}"}


class _Google(_Handler):
    def do_POST(self) -> None:  # a name that the base class calls
        url = urlsplit(self.path)
        query, bucket = parse_qs(url.query), url.path.split("/")[5]
        first, _, rest = self.body().partition(b"\n--==0==\n")
        name = json.loads(first.partition(b"\n\n")[2])["name"]
        data = rest.partition(b"\n\n")[2].removesuffix(b"\n--==0==--")
        if not self.emulator.create(f"{bucket}/{name}", data, query.get("ifGenerationMatch") == ["0"]):
            self._json(412, {"error": {"code": 412, "message": "condition not met"}})
        else:
            self._json(200, self._record(f"{bucket}/{name}"))

    def do_GET(self) -> None:  # a name that the base class calls
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        bucket, _, key = url.path.partition("/b/")[2].partition("/o")
        path = f"{bucket}/{unquote(key.lstrip('/'))}"
        if not key.strip("/"):
            self._list(bucket, query.get("prefix", [""])[0], query.get("delimiter", [""])[0])
        elif path not in self.emulator.objects:
            self._json(404, {"error": {"code": 404, "message": "not found"}})
        elif query.get("alt") == ["media"]:
            status, data, headers = self.part(self.emulator.objects[path], self.headers.get("Range"))
            if status == 416:
                self._json(416, {"error": {"code": 416, "message": "no such range"}})
            else:
                self.answer(status, data, **headers)
        else:
            self._json(200, self._record(path))

    def do_DELETE(self) -> None:  # a name that the base class calls
        bucket, _, key = urlsplit(self.path).path.partition("/b/")[2].partition("/o/")
        if self.emulator.objects.pop(f"{bucket}/{unquote(key)}", None) is None:
            self._json(404, {"error": {"code": 404, "message": "not found"}})
        else:
            self.answer(204)

    def _list(self, bucket: str, prefix: str, delimiter: str) -> None:
        paths, prefixes = self.emulator.below(bucket, prefix, delimiter)
        self._json(200, {"items": [self._record(path) for path in paths], "prefixes": prefixes})

    def _record(self, path: str) -> dict[str, str]:
        bucket, _, name = path.partition("/")
        data = self.emulator.objects[path]
        moment = datetime.fromtimestamp(self.emulator.times[path], UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "kind": "storage#object",
            "bucket": bucket,
            "name": name,
            "size": str(len(data)),
            "updated": moment,
            "timeCreated": moment,
            "generation": "1",
            "md5Hash": base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode(),
        }

    def _json(self, status: int, document: object) -> None:
        self.answer(status, json.dumps(document).encode(), Content_Type="application/json")


class _Azure(_Handler):
    def _path(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix(f"/{ACCOUNT}/")

    def do_PUT(self) -> None:  # a name that the base class calls
        data = self.body()
        if not self.emulator.create(self._path(), data, self.headers.get("If-None-Match") == "*"):
            self._fail(409, "BlobAlreadyExists")
        else:
            self.answer(201, ETag='"1"', Last_Modified=formatdate(usegmt=True))

    def do_GET(self) -> None:  # a name that the base class calls
        query = parse_qs(urlsplit(self.path).query)
        if query.get("comp") == ["list"]:
            self._list(self._path(), query.get("prefix", [""])[0], query.get("delimiter", [""])[0])
            return
        content = self.emulator.objects.get(self._path())
        if content is None:
            self._fail(404, "BlobNotFound")
            return
        status, data, headers = self.part(content, self.headers.get("x-ms-range") or self.headers.get("Range"))
        if status == 416:
            self._fail(416, "InvalidRange")
            return
        headers |= {"length": str(len(content))} if self.command == "HEAD" else {}
        self.answer(status, data, ETag='"1"', x_ms_blob_type="BlockBlob", Last_Modified=self._moment(), **headers)

    do_HEAD = do_GET  # noqa: N815  # a name that the base class calls

    def do_DELETE(self) -> None:  # a name that the base class calls
        if self.emulator.objects.pop(self._path(), None) is None:
            self._fail(404, "BlobNotFound")
        else:
            self.answer(202)

    def _moment(self) -> str:
        return formatdate(self.emulator.times[self._path()], usegmt=True)

    def _list(self, container: str, prefix: str, delimiter: str) -> None:
        paths, prefixes = self.emulator.below(container, prefix, delimiter)
        blobs = "".join(
            f"<Blob><Name>{escape(path[len(container) + 1 :])}</Name><Properties>"
            f"<Last-Modified>{formatdate(self.emulator.times[path], usegmt=True)}</Last-Modified><Etag>1</Etag>"
            f"<Content-Length>{len(self.emulator.objects[path])}</Content-Length><BlobType>BlockBlob</BlobType>"
            "</Properties></Blob>"
            for path in paths
        )
        deeper = "".join(f"<BlobPrefix><Name>{escape(each)}</Name></BlobPrefix>" for each in prefixes)
        document = (
            f"<?xml version='1.0' encoding='utf-8'?><EnumerationResults ContainerName='{container}'>"
            f"<Prefix>{escape(prefix)}</Prefix><Blobs>{blobs}{deeper}</Blobs><NextMarker/></EnumerationResults>"
        )
        self.answer(200, document.encode(), Content_Type="application/xml")

    def _fail(self, status: int, code: str) -> None:
        data = f"<?xml version='1.0' encoding='utf-8'?><Error><Code>{code}</Code><Message>no</Message></Error>".encode()
        self.answer(status, data, Content_Type="application/xml", x_ms_error_code=code)
