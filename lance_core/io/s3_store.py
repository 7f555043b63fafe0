"""S3Store: the objects in one bucket.

Paths have the form ``bucket/key``. The operations of the store use these requests:

===================  ==================================================================================================
``get``              one GetObject
``get_ranges``       one GetObject for each group of nearby ranges; several requests run concurrently
``put``              one PutObject
``put_if_absent``    one PutObject with ``If-None-Match: *``, sent once; never a multipart upload, because completing
                     one may replace an object on some servers
``create``           one PutObject, or a multipart upload that is aborted if it fails
``list…``            ListObjectsV2, in lexical order (except in a directory bucket)
===================  ==================================================================================================

Before the first conditional request, a test checks whether the server honors the condition
(:mod:`~lance_core.io.condition_probe`). A response of 412 or 409 means that the object exists or is being created; the
caller determines which writer created it.

Source: API of Amazon S3; requests of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lance_core.errors import CorruptDataError, NotFoundError, StorageError
from lance_core.io.byte_range import coalesce_ranges
from lance_core.io.condition_probe import require_condition
from lance_core.io.io_counters import IOCounters
from lance_core.io.object_store import ObjectInfo, PutOutcome, StoreCapabilities
from lance_core.io.read_costs import REMOTE_COSTS, ReadCosts
from lance_core.io.s3_client import DIRECTORY_BUCKET, S3Client, client_of
from lance_core.io.s3_settings import S3Settings
from lance_core.io.s3_upload import S3WriteStream, placement

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from lance_core.io.byte_range import ByteRange

__all__ = ["S3Store", "open_s3_store"]

_MAX_EXTENT_BYTES: Final = 16 * 1024 * 1024
_REFUSED_BY_CONDITION: Final = (409, 412)


def open_s3_store(bucket: str, storage_options: Mapping[str, str] | None) -> S3Store:
    """Open the store for a bucket. Stores with equal settings share their connections.

    Raises:
        InvalidInputError: an option is invalid.
    """
    settings = S3Settings.of(storage_options)
    if settings.endpoint is not None and settings.virtual_hosted:
        # The reference expects the bucket in such an endpoint; this client adds it.
        settings = replace(settings, endpoint=settings.endpoint.replace(f"://{bucket}.", "://", 1))
    return S3Store(client_of(settings), bucket, ReadCosts.of_object_store(storage_options))


class S3Store:
    """The objects in one bucket.

    Args:
        client: sends the requests.
        bucket: name of the bucket.
        read_costs: costs of reading.

    Attributes:
        counters: counts of the requests that read or write object contents; a request and its retries count as one.
    """

    def __init__(self, client: S3Client, bucket: str, read_costs: ReadCosts = REMOTE_COSTS) -> None:
        """Create the store without sending requests."""
        self._client = client
        self._bucket = bucket
        self.counters = IOCounters()
        express = client.settings.express or bucket.endswith(DIRECTORY_BUCKET)
        self._capabilities = StoreCapabilities(
            atomic_create=True, lexical_listing=not express, version_hint=express, read_costs=read_costs
        )

    def __repr__(self) -> str:
        """Return a representation that contains the endpoint and the bucket."""
        return f"S3Store(endpoint={self._client.settings.endpoint!r}, bucket={self._bucket!r})"

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """A key that stores share if they have the same bucket and settings; its text does not show credentials."""
        return ("s3", self._bucket, self._client.settings)

    @property
    def client(self) -> S3Client:
        """The client that sends the requests."""
        return self._client

    @property
    def capabilities(self) -> StoreCapabilities:
        return self._capabilities

    def uri_of(self, path: str) -> str:
        """Return the URI of a path, for messages."""
        return f"s3://{path}"

    def join(self, *segments: str) -> str:
        return "/".join(segment.strip("/") for segment in segments if segment.strip("/"))

    def head(self, path: str) -> ObjectInfo:
        answer = self._client.call("head_object", self.uri_of(path), **self._object(path))
        return ObjectInfo(path=path, num_bytes=answer["ContentLength"], modified_at=answer["LastModified"].timestamp())

    def get(self, path: str) -> pa.Buffer:
        key = self._key(path)
        read = self._client.wait_for(lambda: self._client.read(self._bucket, key, self.uri_of(path)))
        self.counters.add_read(1, read.data.size)
        return read.data

    def map(self, path: str) -> pa.Buffer:
        return self.get(path)

    def get_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        return self._client.wait_for(lambda: self._read_ranges(path, ranges))

    def begin_ranges(self, path: str, ranges: Sequence[ByteRange]) -> Future[list[pa.Buffer]]:
        """Start :meth:`get_ranges` without waiting for it. If the future is canceled, the requests are aborted."""
        future: Future[list[pa.Buffer]] = self._client.start(self._read_ranges(path, ranges))
        return future

    async def _read_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        wanted = [index for index, each in enumerate(ranges) if each.num_bytes]
        reads = coalesce_ranges(
            [ranges[index] for index in wanted],
            max_gap_bytes=self._capabilities.read_costs.near_bytes,
            max_extent_bytes=_MAX_EXTENT_BYTES,
        )
        extents = [read.extent for read in reads]
        shown = self.uri_of(path)
        buffers = await self._client.read_ranges(self._bucket, self._key(path), shown, extents)
        self.counters.add_read(len(reads), sum([extent.num_bytes for extent in extents]))
        found = [pa.py_buffer(b"")] * len(ranges)
        for read, buffer in zip(reads, buffers, strict=True):
            _check_length(shown, path, read.extent, buffer.size)
            for member in read.members:
                place = ranges[wanted[member]]
                found[wanted[member]] = buffer.slice(place.start - read.extent.start, place.num_bytes)
        return found

    def get_tail(self, path: str, max_bytes: int) -> tuple[pa.Buffer, int]:
        key = self._key(path)
        # A server refuses to read the end of an empty object: no bytes are returned.
        read = self._client.wait_for(lambda: self._client.read(self._bucket, key, self.uri_of(path), max_bytes))
        self.counters.add_read(1, read.data.size)
        return read.data.slice(max(0, read.data.size - max_bytes)), read.object_bytes

    def put(
        self, path: str, data: pa.Buffer | bytes, *, durable: bool = True, depends_on: Collection[str] = ()
    ) -> None:
        body = bytes(memoryview(data).cast("B"))
        self._client.call("put_object", self.uri_of(path), **self._new_object(path), Body=body)
        self.counters.add_write(1, len(body))

    def put_if_absent(self, path: str, data: pa.Buffer | bytes, *, depends_on: Collection[str] = ()) -> PutOutcome:
        self.require_condition(path)
        return self.put_if_none_match(path, data)

    def require_condition(self, path: str) -> None:
        """Raise an error if the server ignores the condition ``If-None-Match``."""
        require_condition(self, (self._client.settings.endpoint or "AWS", self._bucket), path)

    def put_if_none_match(self, path: str, data: pa.Buffer | bytes) -> PutOutcome:
        """Send one conditional request, without checking that the store honors the condition."""
        body = bytes(memoryview(data).cast("B"))
        try:
            self._client.call(
                "put_object", self.uri_of(path), once=True, **self._new_object(path), Body=body, IfNoneMatch="*"
            )
        except StorageError as error:
            if error.context.get("status") in _REFUSED_BY_CONDITION:
                return PutOutcome.EXISTS
            raise
        self.counters.add_write(1, len(body))
        return PutOutcome.CREATED

    def create(self, path: str) -> S3WriteStream:
        return S3WriteStream(self._client, self._new_object(path), self.uri_of(path), self.counters)

    def delete(self, path: str, *, durable: bool = True) -> None:
        try:
            self._client.call("delete_object", self.uri_of(path), **self._object(path))
        except NotFoundError:
            return

    def remove_empty_directory(self, path: str) -> None:
        """Do nothing, because there are no directories."""

    def remove_directory(self, path: str) -> None:
        """Do nothing, because there are no directories."""

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return self._listed(prefix, Delimiter="/")

    def list_names(self, prefix: str) -> Iterator[str]:
        return (info.path.rpartition("/")[2] for info in self.list(prefix))

    def list_recursive(self, prefix: str) -> Iterator[ObjectInfo]:
        return self._listed(prefix)

    def _listed(self, prefix: str, **parameters: str) -> Iterator[ObjectInfo]:
        directory = self._key(prefix).rstrip("/")
        asked: dict[str, Any] = {
            "Bucket": self._bucket,
            "Prefix": f"{directory}/" if directory else "",
            **parameters,
            **self._client.payer(),
        }
        while True:
            answer = self._client.call("list_objects_v2", self.uri_of(prefix), **asked)
            for entry in answer.get("Contents", ()):
                # Consoles create empty objects for directories.
                if not entry["Key"].endswith("/"):
                    yield ObjectInfo(
                        path=f"{self._bucket}/{entry['Key']}",
                        num_bytes=entry["Size"],
                        modified_at=entry["LastModified"].timestamp(),
                    )
            token = answer.get("NextContinuationToken")
            if not answer.get("IsTruncated") or not token:
                return
            asked["ContinuationToken"] = token

    def _key(self, path: str) -> str:
        bucket, _, key = path.partition("/")
        if bucket != self._bucket:
            raise StorageError(f"{self.uri_of(path)} is not in bucket {self._bucket}", path=path)
        return key

    def _object(self, path: str) -> dict[str, Any]:
        return {"Bucket": self._bucket, "Key": self._key(path), **self._client.payer()}

    def _new_object(self, path: str) -> dict[str, Any]:
        return {**self._object(path), **placement(self._client.settings)}


def _check_length(shown: str, path: str, extent: ByteRange, found: int) -> None:
    if found != extent.num_bytes:
        raise CorruptDataError(
            f"{shown}: bytes [{extent.start}, {extent.stop}) were requested, but the object is shorter",
            path=path,
            offset=extent.start,
            expected=extent.num_bytes,
            found=found,
        )
