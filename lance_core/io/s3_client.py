"""S3Client: sends requests to one S3 endpoint through the client of s3fs, and waits for the responses.

Read requests are first sent through obstore (:mod:`~lance_core.io.native_reads`), which takes less CPU time.

Requests run on fsspec's thread. Each process has its own connection: a connection created before a fork belongs to the
parent process, and the child process creates its own connection for its first request.

Only this class retries requests. The retries of botocore are disabled, as are those of aiohttp, which resends a PUT if
the connection is lost. A request that may be repeated is retried with increasing delays. A request that must not be
repeated (``once``) is sent exactly once; if it fails, the error records whether the store may have executed it.

Source: API of s3fs, aiobotocore and aiohttp.
"""

from __future__ import annotations

import asyncio
import functools
import os
import random
import time
from collections import OrderedDict
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit

import pyarrow as pa

from lance_core.buffers.fork_lock import fork_lock
from lance_core.errors import LanceError, NotFoundError, StorageError
from lance_core.io.native_reads import FirstReadError, NativeReads
from lance_core.io.request_slots import RequestSlots
from lance_core.io.s3_errors import translate
from lance_core.io.signed_urls import SignedUrls

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from lance_core.io.byte_range import ByteRange
    from lance_core.io.s3_settings import S3Settings

__all__ = ["DIRECTORY_BUCKET", "S3Client", "client_of"]

DIRECTORY_BUCKET: Final = "--x-s3"
"""Suffix of the names of directory buckets."""

_PARALLEL_REQUESTS: Final = 256
_CALL_REQUESTS: Final = 4
"""Maximum number of concurrent requests for ranges in one process, and maximum number of ranges in one obstore call."""

_LARGE_BYTES: Final = 1024 * 1024
"""Ranges of at least this many bytes are read with separate calls."""

_MAX_NATIVE_FAILURES: Final = 3
"""After this many failures of obstore without a success, the first attempt of a request uses a signed URL instead."""

_POOL_CONNECTIONS: Final = 64
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 5.0
_KEPT_CLIENTS: Final = 32

_FOUND: Final = (200, 206)
_MISSING: Final = 404
_READ_BYTES: Final = 16 * 1024 * 1024

_REFUSED: Final = (301, 307, 400, 401, 403, 405, 501)

_VERBS: Final = {
    "abort_multipart_upload": "abort the upload of",
    "delete_object": "delete",
    "head_object": "find",
    "list_objects_v2": "list",
}
"""Maps operations to the verbs that messages use for them; the verb for all other operations is "write"."""

_R = TypeVar("_R")
_lock: Final = fork_lock()
_clients: OrderedDict[S3Settings, S3Client] = OrderedDict()


def client_of(settings: S3Settings) -> S3Client:
    """Return the client for these settings. The most recently used clients are cached."""
    with _lock:
        client = _clients.get(settings)
        if client is None:
            client = _clients[settings] = S3Client(settings)
            if len(_clients) > _KEPT_CLIENTS:
                _clients.popitem(last=False)
        _clients.move_to_end(settings)
        return client


class ReadBytes(NamedTuple):
    """The bytes that a request returned, and the size in bytes of the object that contains them."""

    data: pa.Buffer
    object_bytes: int

    @classmethod
    def of(cls, data: bytes, content_range: str) -> Self:
        """Return the bytes of a response, given its Content-Range header; the header is empty for whole objects."""
        _, _, object_bytes = content_range.rpartition("/")
        return cls(pa.py_buffer(data), int(object_bytes) if object_bytes.isdecimal() else len(data))


class S3Client:
    """Sends requests to one endpoint. Thread-safe and fork-safe.

    Args:
        settings: settings of the endpoint.
    """

    def __init__(self, settings: S3Settings) -> None:
        """Create the client without connecting."""
        self._settings = settings
        self._connections: dict[int, Any] = {}
        self._slots: dict[int, RequestSlots] = {}
        self._urls: SignedUrls | None = None if settings.requester_pays else SignedUrls(anonymous=settings.anonymous)
        self._native = NativeReads(settings)
        self._native_failures = 0
        self._is_proven = False

    def __repr__(self) -> str:
        """Return a representation that contains the endpoint."""
        return f"S3Client(endpoint={self._settings.endpoint!r})"

    @property
    def settings(self) -> S3Settings:
        """Settings of the endpoint."""
        return self._settings

    def wait_for(self, work: Callable[[], Coroutine[Any, Any, _R]]) -> _R:
        """Run a coroutine on fsspec's thread and wait for it."""
        from fsspec.asyn import sync

        result: _R = sync(self._connection().loop, work)
        return result

    def start(self, work: Coroutine[Any, Any, _R]) -> Any:
        """Start a coroutine on fsspec's thread and return a ``concurrent.futures.Future``."""
        return asyncio.run_coroutine_threadsafe(work, self._connection().loop)

    def call(self, operation: str, place: str, **parameters: Any) -> dict[str, Any]:
        """Send one request and wait for the response; see :meth:`request`."""
        return self.wait_for(lambda: self.request(operation, place, **parameters))

    async def request(self, operation: str, place: str, *, once: bool = False, **parameters: Any) -> dict[str, Any]:
        """Send one request.

        Args:
            operation: method of the client, such as ``head_object``.
            place: object or bucket of the request, for messages.
            once: whether the request must not be repeated.
            parameters: parameters of the operation.

        Raises:
            LanceError: see :mod:`~lance_core.io.s3_errors`.
        """

        async def send() -> dict[str, Any]:
            answer: dict[str, Any] = await getattr(await self._api(), operation)(**parameters)
            return answer

        return await self._repeating(send, _VERBS.get(operation, "write"), place, once=once)

    async def read(self, bucket: str, key: str, place: str, max_bytes: int | None = None) -> ReadBytes:
        """Read an object or its last bytes. If the response is incomplete, the whole read is repeated.

        The first attempt uses obstore, or a signed URL. If it fails, the client of botocore repeats the request: it
        follows redirects to other regions, refreshes credentials, and reports errors.
        """
        byte_range = None if max_bytes is None else f"bytes=-{max_bytes}"
        urls = self._urls_of(bucket)
        if urls is None or not self._is_native():
            return await self._read(urls, bucket, key, place, byte_range)
        try:
            api, root = await self._address(urls, bucket)
            found = ReadBytes(*await self._native.end(api, root, bucket, key, max_bytes))
        except FirstReadError as failure:
            self._native_failures += 1
            return await self._repeat(failure, bucket, key, place, byte_range)
        self._is_proven = True
        return found

    async def read_ranges(self, bucket: str, key: str, place: str, extents: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Read ranges of an object with one request each; several requests run concurrently. See :meth:`read`.

        If a range extends past the end of the object, only the existing bytes are returned.

        Args:
            bucket: name of the bucket.
            key: key of the object.
            place: the object, for messages.
            extents: the ranges in ascending order.
        """
        parts = _parts(extents)
        if len(parts) == 1:
            # A task of its own would cost as much as the request.
            return await self._read_part(bucket, key, place, parts[0])
        found = await asyncio.gather(*(self._read_part(bucket, key, place, part) for part in parts))
        return [buffer for buffers in found for buffer in buffers]

    async def _read_part(self, bucket: str, key: str, place: str, extents: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Read some ranges of an object."""
        async with self._slots_of_process().taken(len(extents)):
            urls = self._urls_of(bucket)
            read = functools.partial(self._read, urls)
            if urls is not None and self._is_native():
                try:
                    api, root = await self._address(urls, bucket)
                    buffers = await self._native.ranges(api, root, bucket, key, extents)
                except FirstReadError as failure:
                    read = functools.partial(self._repeat, failure)
                    self._native_failures += 1
                else:
                    self._is_proven = True
                    return buffers
            ranges = [f"bytes={extent.start}-{extent.stop - 1}" for extent in extents]
            found = await asyncio.gather(*(read(bucket, key, place, byte_range) for byte_range in ranges))
        return [each.data for each in found]

    async def _address(self, urls: SignedUrls, bucket: str) -> tuple[Any, str]:
        """Return the client of botocore, and the URL of a bucket."""
        try:
            api = await self._api()
            return api, await urls.root(api, bucket)
        except Exception:  # noqa: BLE001  # the client repeats the request, and reports its error
            raise FirstReadError from None

    async def _read(
        self, urls: SignedUrls | None, bucket: str, key: str, place: str, byte_range: str | None
    ) -> ReadBytes:
        """Send a request with a signed URL, or with the client of botocore."""
        if urls is None:
            return await self._repeat(None, bucket, key, place, byte_range)
        try:
            return await self._read_signed(urls, bucket, key, byte_range)
        except FirstReadError as failure:
            urls.forget(bucket, key)
            return await self._repeat(failure, bucket, key, place, byte_range)

    async def _read_signed(self, urls: SignedUrls, bucket: str, key: str, byte_range: str | None) -> ReadBytes:
        headers = {} if byte_range is None else {"Range": byte_range}
        try:
            api = await self._api()
            url = await urls.url(api, bucket, key)
            status, data, content_range = await api._endpoint.http_session.fetch(url, headers)
        except Exception:  # noqa: BLE001  # the client repeats the request, and reports its error
            raise FirstReadError from None
        if status not in _FOUND:
            raise FirstReadError(status, is_missing=b"<Code>NoSuchKey</Code>" in data)
        return ReadBytes.of(data, content_range)

    async def _repeat(
        self, failure: FirstReadError | None, bucket: str, key: str, place: str, byte_range: str | None
    ) -> ReadBytes:
        """Send a request with the client of botocore, after the first attempt failed.

        Args:
            failure: how the first attempt failed; None if there was none.
            bucket: name of the bucket.
            key: key of the object.
            place: the object, for messages.
            byte_range: the header ``Range``, if any.
        """
        if failure is not None and failure.is_missing:
            raise NotFoundError(f"cannot read {place}: the object does not exist", path=place, status=failure.status)
        parameters = {"Bucket": bucket, "Key": key, **self.payer()}
        if byte_range is not None:
            parameters["Range"] = byte_range

        async def send() -> ReadBytes:
            answer = await (await self._api()).get_object(**parameters)
            async with answer["Body"] as body:
                data: bytes = await body.read()
            return ReadBytes.of(data, answer.get("ContentRange", ""))

        is_refused = failure is not None and failure.status in _REFUSED
        counts = failure is not None and not is_refused and self._settings.max_retries > 0
        try:
            found = await self._repeating(send, "read", place, once=False, num_failed=int(counts))
        except LanceError as error:
            if byte_range is not None and _is_outside(error):
                return ReadBytes(pa.py_buffer(b""), 0)
            raise
        if is_refused:
            # This server accepts neither signed URLs nor the requests of obstore.
            self._urls = None
        return found

    def _urls_of(self, bucket: str) -> SignedUrls | None:
        """Return the signed URLs for the first attempts; None if the bucket is not read through signed URLs."""
        # Directory buckets require the credentials of a session.
        return None if self._settings.express or bucket.endswith(DIRECTORY_BUCKET) else self._urls

    def _is_native(self) -> bool:
        """Return whether obstore sends the first attempts."""
        return self._native.is_usable and (self._is_proven or self._native_failures < _MAX_NATIVE_FAILURES)

    def _slots_of_process(self) -> RequestSlots:
        """Return the limit on the concurrent requests of this process."""
        pid = os.getpid()
        if pid not in self._slots:
            self._slots[pid] = RequestSlots(_PARALLEL_REQUESTS)
        return self._slots[pid]

    def payer(self) -> dict[str, str]:
        """Return the parameters by which the requester agrees to pay; empty if ``requester_pays`` is not set."""
        return {"RequestPayer": "requester"} if self._settings.requester_pays else {}

    async def _repeating(
        self, send: Callable[[], Coroutine[Any, Any, _R]], verb: str, place: str, *, once: bool, num_failed: int = 0
    ) -> _R:
        started = time.monotonic()
        attempt = num_failed
        while True:
            try:
                return await send()
            except Exception as error:  # noqa: BLE001  # whatever the client raises becomes one of ours
                failure = translate(error, verb=verb, place=place, secrets=self._settings.secrets)
            if once or not self._may_repeat(failure, attempt, started):
                # The error is not chained: the text of the original error may contain a URL with a password.
                raise failure
            await asyncio.sleep(min(_FIRST_PAUSE_SECONDS * 2**attempt, _LONGEST_PAUSE_SECONDS) * random.uniform(0.5, 1))
            attempt += 1

    def _may_repeat(self, failure: LanceError, attempt: int, started: float) -> bool:
        return (
            isinstance(failure, StorageError)
            and failure.retryable
            and attempt < self._settings.max_retries
            and time.monotonic() - started < self._settings.retry_timeout_seconds
        )

    async def _api(self) -> Any:
        return await self._connection().set_session()

    def _connection(self) -> Any:
        """Return the connection of this process. Inherited connections are not closed, because the parent uses them."""
        pid = os.getpid()
        found = self._connections.get(pid)
        if found is None:
            with _lock:
                found = self._connections.get(pid) or _connect(self._settings)
                self._connections[pid] = found
        return found


def _is_outside(error: LanceError) -> bool:
    """Return whether a request failed because the requested range is outside the object."""
    return error.context.get("code") == "InvalidRange" or error.context.get("status") == 416


def _parts(extents: Sequence[ByteRange]) -> list[Sequence[ByteRange]]:
    """Divide ranges into groups, each of which is read with one call; their order is kept."""
    parts: list[Sequence[ByteRange]] = []
    for is_large, group in groupby(extents, lambda extent: extent.num_bytes >= _LARGE_BYTES):
        alike, num_together = list(group), 1 if is_large else _CALL_REQUESTS
        parts += [alike[start : start + num_together] for start in range(0, len(alike), num_together)]
    return parts


@functools.cache
def _http_session_class() -> type:
    from aiobotocore.httpsession import AIOHTTPSession

    class OnceSession(AIOHTTPSession):  # type: ignore[misc]  # the library is untyped
        """A session without the retries of aiohttp, which would repeat a conditional PUT when its connection ends."""

        async def _get_session(self, proxy_url: str | None) -> Any:
            session = await super()._get_session(proxy_url)
            session._retry_connection = False
            return session

        async def fetch(self, url: str, headers: dict[str, str]) -> tuple[int, bytes, str]:
            """Send a GET request that needs no further signature; return status, body, and the header Content-Range."""
            from yarl import URL

            proxy = self._proxy_config.proxy_url_for(url)
            proxy_headers = self._proxy_config.proxy_headers_for(url)
            session = await self._get_session(proxy)
            asked = {"Accept-Encoding": "identity", **headers}
            async with session.get(
                URL(url, encoded=True),
                headers=asked,
                proxy=proxy,
                proxy_headers=proxy_headers,
                allow_redirects=False,
                # The body is read at once, so that nothing is gained by pausing.
                read_bufsize=_READ_BYTES,
            ) as answer:
                return answer.status, await answer.read(), answer.headers.get("Content-Range", "")

    return OnceSession


def _connect(settings: S3Settings) -> Any:
    from s3fs import S3FileSystem

    config: dict[str, Any] = {
        "retries": {"total_max_attempts": 1, "mode": "standard"},
        "max_pool_connections": _POOL_CONNECTIONS,
        "connect_timeout": settings.connect_timeout_seconds,
        "read_timeout": settings.timeout_seconds,
        "http_session_cls": _http_session_class(),
    }
    client: dict[str, Any] = {}
    endpoint = settings.endpoint
    if endpoint is not None:
        # Servers other than AWS may not support the checksums that botocore has added since version 1.36.
        config |= {"request_checksum_calculation": "when_required", "response_checksum_validation": "when_required"}
        config["s3"] = {"addressing_style": "virtual" if settings.virtual_hosted else "path"}
        client["region_name"] = settings.region or "us-east-1"
    elif settings.region is not None:
        client["region_name"] = settings.region
    if settings.proxy_url is not None:
        config["proxies"] = {"http": settings.proxy_url, "https": settings.proxy_url}
    if not settings.verifies_certificates:
        client["verify"] = False
    return S3FileSystem(
        anon=settings.anonymous,
        key=settings.access_key_id,
        secret=settings.secret_access_key,
        token=settings.session_token,
        endpoint_url=endpoint,
        use_ssl=endpoint is None or urlsplit(endpoint).scheme == "https",
        client_kwargs=client,
        config_kwargs=config,
        skip_instance_cache=True,
    )
