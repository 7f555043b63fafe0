"""S3Client: sends requests to one S3 endpoint through the client of s3fs, and waits for the responses.

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
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

from lance_core.buffers.fork_lock import fork_lock
from lance_core.errors import LanceError, StorageError
from lance_core.io.s3_errors import translate

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from lance_core.io.s3_settings import S3Settings

__all__ = ["PARALLEL_REQUESTS", "S3Client", "client_of"]

PARALLEL_REQUESTS: Final = 32
"""Maximum number of requests that one call sends concurrently."""

_POOL_CONNECTIONS: Final = 64
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 5.0
_KEPT_CLIENTS: Final = 32

_VERBS: Final = {
    "abort_multipart_upload": "abort the upload of",
    "delete_object": "delete",
    "head_object": "find",
    "list_objects_v2": "list",
}
"""Operation -> the verb that messages use for it; all other operations write."""

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
    """The bytes that a request returned, and the size of the object that contains them in bytes."""

    data: bytes
    object_bytes: int


class S3Client:
    """Sends requests to one endpoint. Thread-safe and fork-safe.

    Args:
        settings: settings of the endpoint.
    """

    def __init__(self, settings: S3Settings) -> None:
        """Create the client without connecting."""
        self._settings = settings
        self._connections: dict[int, Any] = {}

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

    async def read(self, bucket: str, key: str, place: str, byte_range: str | None = None) -> ReadBytes:
        """Read an object or a range of its bytes. If the response is incomplete, the whole read is repeated."""
        parameters = {"Bucket": bucket, "Key": key, **self.payer()}
        if byte_range is not None:
            parameters["Range"] = byte_range

        async def send() -> ReadBytes:
            answer = await (await self._api()).get_object(**parameters)
            async with answer["Body"] as body:
                data: bytes = await body.read()
            _, _, object_bytes = answer.get("ContentRange", "").rpartition("/")
            return ReadBytes(data, int(object_bytes) if object_bytes.isdecimal() else len(data))

        return await self._repeating(send, "read", place, once=False)

    def payer(self) -> dict[str, str]:
        """Return the parameters by which the requester agrees to pay; empty if ``requester_pays`` is not set."""
        return {"RequestPayer": "requester"} if self._settings.requester_pays else {}

    async def _repeating(self, send: Callable[[], Coroutine[Any, Any, _R]], verb: str, place: str, *, once: bool) -> _R:
        started = time.monotonic()
        attempt = 0
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


@functools.cache
def _http_session_class() -> type:
    from aiobotocore.httpsession import AIOHTTPSession

    class OnceSession(AIOHTTPSession):  # type: ignore[misc]  # the library is untyped
        """A session without the retries of aiohttp, which would repeat a conditional PUT when its connection ends."""

        async def _get_session(self, proxy_url: str | None) -> Any:
            session = await super()._get_session(proxy_url)
            session._retry_connection = False
            return session

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
