"""NativeReads: reads objects on S3 through obstore, whose requests run outside of Python.

A request takes 0.07 to 0.15 ms of CPU time (0.25 ms in aiohttp), and each MiB takes 0.4 ms (1 ms in aiohttp), mostly in
threads that do not hold the interpreter's lock.

obstore sends each request once. It receives the address of the bucket, the credentials, and the region from botocore's
client, and its other settings from :class:`~lance_core.io.s3_settings.S3Settings`; it reads no settings or credentials
itself. Its threads do not survive a fork: a process that was forked after obstore was loaded does not use it.

Source: API of obstore; our measurements; see ``docs/decisions/0029-reads-through-obstore.md``.
"""

from __future__ import annotations

import os
import re
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from obstore.store import ClientConfig

    from lance_core.io.byte_range import ByteRange
    from lance_core.io.s3_settings import S3Settings

__all__ = ["FirstReadError", "NativeReads"]

_COPIED_BYTES: Final = 64 * 1024
"""Responses with fewer bytes than this are copied, because they may refer to a much larger buffer of the connection."""

_ALIGNED: Final = 16
_NO_TIMEOUT: Final = timedelta(days=1)
_STATUS: Final = re.compile(r"status(?: code)?: ([1-5][0-9][0-9])\b")
_NO_KEY: Final = "<Code>NoSuchKey</Code>"

_forked = False


class FirstReadError(Exception):
    """The response to a request does not contain the requested bytes. The error is handled in this package.

    Attributes:
        status: status of the response; 0 if there was none.
        is_missing: whether the response says that the object does not exist.
    """

    def __init__(self, status: int = 0, *, is_missing: bool = False) -> None:
        """Initialize without a message, because the message of the original error may contain secrets."""
        super().__init__()
        self.status = status
        self.is_missing = is_missing


class _Connection(NamedTuple):
    """obstore's store for a bucket, and the credentials that the store uses."""

    store: Any
    credentials: Any


class NativeReads:
    """Sends the read requests of one client. To be used in the thread of the client's event loop.

    Args:
        settings: settings of the endpoint.
    """

    def __init__(self, settings: S3Settings) -> None:
        """Initialize without connecting."""
        self._settings = settings
        self._connections: dict[str, _Connection] = {}

    @property
    def is_usable(self) -> bool:
        """Whether obstore can be used in this process."""
        return not _forked

    async def ranges(self, api: Any, root: str, bucket: str, key: str, extents: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Read ranges of an object with one request each; at most 10 of them are in flight at the same time.

        Args:
            api: the client of aiobotocore.
            root: URL of the bucket.
            bucket: name of the bucket.
            key: key of the object.
            extents: the ranges, which neither overlap nor touch.

        Raises:
            FirstReadError: a request failed.
        """
        from obstore import get_range_async, get_ranges_async

        try:
            store = await self._store(api, root, bucket)
            if len(extents) == 1:
                [extent] = extents
                return [_buffer(await get_range_async(store, key, start=extent.start, end=extent.stop))]
            starts, ends = [extent.start for extent in extents], [extent.stop for extent in extents]
            return [_buffer(each) for each in await get_ranges_async(store, key, starts=starts, ends=ends, coalesce=0)]
        except Exception as error:  # noqa: BLE001  # the caller repeats the request, and reports its error
            raise _failure(error) from None

    async def end(
        self, api: Any, root: str, bucket: str, key: str, max_bytes: int | None = None
    ) -> tuple[pa.Buffer, int]:
        """Read the last bytes of an object, or the whole object; return them, and the size of the object.

        Raises:
            FirstReadError: the request failed.
        """
        from obstore import get_async

        try:
            store = await self._store(api, root, bucket)
            answer = await get_async(
                store, key, options=None if max_bytes is None else {"range": {"suffix": max_bytes}}
            )
            return _buffer(await answer.bytes_async()), answer.meta["size"]
        except Exception as error:  # noqa: BLE001  # the caller repeats the request, and reports its error
            raise _failure(error) from None

    async def _store(self, api: Any, root: str, bucket: str) -> Any:
        # The client has no public attribute for them. It refreshes those that expire.
        source = None if self._settings.anonymous else api._request_signer._credentials
        credentials = None if source is None else await source.get_frozen_credentials()
        found = self._connections.get(bucket)
        if found is None or found.credentials != credentials:
            found = _Connection(self._connect(api, root, bucket, credentials), credentials)
            self._connections[bucket] = found
        return found.store

    def _connect(self, api: Any, root: str, bucket: str, credentials: Any) -> Any:
        from obstore.store import S3Store

        settings = self._settings
        client: ClientConfig = {
            "allow_http": True,
            "allow_invalid_certificates": not settings.verifies_certificates,
            "connect_timeout": timedelta(seconds=settings.connect_timeout_seconds),
            # As in botocore, each part of a response may take this long.
            "read_timeout": timedelta(seconds=settings.timeout_seconds),
            "timeout": _NO_TIMEOUT,
        }
        if settings.proxy_url is not None:
            client["proxy_url"] = settings.proxy_url
        address = root.rstrip("/")
        if address.startswith("https:") and isinstance(api._endpoint.http_session._verify, str):
            # The client trusts only the authorities in a file; obstore would trust those of the operating system too.
            raise FirstReadError

        def given() -> Any:
            return {
                "access_key_id": credentials.access_key,
                "secret_access_key": credentials.secret_key,
                "token": credentials.token,
                "expires_at": None,
            }

        # obstore reads environment variables too; what is given here takes precedence.
        return S3Store(
            bucket,
            config={
                "endpoint": address,
                "aws_endpoint_url_s3": address,
                "virtual_hosted_style_request": True,
                "region": api.meta.region_name,
                "skip_signature": credentials is None,
            },
            client_options=client,
            retry_config={"max_retries": 0},
            credential_provider=None if credentials is None else given,
        )


def _buffer(data: Any) -> pa.Buffer:
    buffer = pa.py_buffer(data)
    if buffer.size <= _COPIED_BYTES or buffer.address % _ALIGNED:
        return pa.py_buffer(data.to_bytes())
    return buffer


def _failure(error: Exception) -> FirstReadError:
    if isinstance(error, FirstReadError):
        return error
    text = str(error)
    status = _STATUS.search(text)
    return FirstReadError(int(status[1]) if status else 0, is_missing=_NO_KEY in text)


def _note_fork() -> None:
    global _forked
    _forked = _forked or "obstore" in sys.modules


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)
