"""S3WriteStream: an object that is written in parts.

An object that fits in one part is sent with one PutObject. The parts of a larger object are sent while the next part
is collected; a few parts may be in transit at the same time. Nothing is visible until ``commit`` has completed the
upload; a failure or ``abort`` cancels the upload, which removes the parts. A process that is killed leaves behind an
incomplete upload, which only a lifecycle rule of the bucket removes (``AbortIncompleteMultipartUpload``).

The first thousand parts have equal sizes, because some servers require this. Later parts are larger, so that ten
thousand parts, the maximum number, can contain about 430 GiB.

Source: API of Amazon S3.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from lance_core.errors import LanceError, NotFoundError, StorageError
from lance_core.io.object_store import WriteStream

if TYPE_CHECKING:
    from concurrent.futures import Future

    import pyarrow as pa

    from lance_core.io.io_counters import IOCounters
    from lance_core.io.s3_client import S3Client
    from lance_core.io.s3_settings import S3Settings

__all__ = ["PART_BYTES", "S3WriteStream", "placement"]

PART_BYTES: Final = 8 * 1024 * 1024
_PARTS_OF_ONE_SIZE: Final = 1000
_PARTS_UNDER_WAY: Final = 4
_OBJECT_KEYS: Final = ("Bucket", "Key", "RequestPayer")


def placement(settings: S3Settings) -> dict[str, Any]:
    """Return the encryption parameters of requests that create objects."""
    parameters: dict[str, Any] = {}
    if settings.encryption is not None:
        parameters["ServerSideEncryption"] = settings.encryption
    if settings.kms_key_id is not None:
        parameters["SSEKMSKeyId"] = settings.kms_key_id
    if settings.bucket_key is not None:
        parameters["BucketKeyEnabled"] = settings.bucket_key
    return parameters


class S3WriteStream(WriteStream):
    """An object being written.

    Args:
        client: sends the requests.
        target: request parameters that identify the new object.
        place: name of the object, for messages.
        counters: count the requests that send bytes.
    """

    def __init__(self, client: S3Client, target: dict[str, Any], place: str, counters: IOCounters) -> None:
        """Create the stream without sending anything."""
        self._client = client
        self._target = target
        self._object = {name: value for name, value in target.items() if name in _OBJECT_KEYS}
        self._place = place
        self._counters = counters
        self._buffer = bytearray()
        self._position = 0
        self._upload_id: str | None = None
        self._parts: list[dict[str, Any]] = []
        self._sent: list[Future[dict[str, Any]]] = []
        self._open = True

    @property
    def position(self) -> int:
        """Number of bytes written so far."""
        return self._position

    def write(self, data: pa.Buffer | bytes | memoryview) -> None:
        """Append bytes."""
        self._require_open("write")
        view = memoryview(data).cast("B")
        self._position += len(view)
        self._buffer += view
        while len(self._buffer) > (size := self._part_bytes()):
            self._send(bytes(self._buffer[:size]))
            del self._buffer[:size]

    def commit(self, *, durable: bool = True) -> None:
        """Make the object visible; it is then durable."""
        del durable
        self._require_open("commit")
        if self._upload_id is None:
            self._client.call("put_object", self._place, **self._target, Body=bytes(self._buffer))
        else:
            self._send(bytes(self._buffer))
            self._collect(0)
            self._complete()
        self._counters.add_write(max(1, len(self._parts)), self._position)
        self._open = False
        self._buffer.clear()

    def abort(self) -> None:
        """Remove the uploaded parts."""
        if not self._open:
            return
        self._open = False
        self._buffer.clear()
        if self._upload_id is None:
            return
        for future in self._sent:
            # A part that arrived after the upload was aborted would remain.
            with suppress(LanceError):
                future.result()
        with suppress(LanceError):
            self._client.call("abort_multipart_upload", self._place, **self._object, UploadId=self._upload_id)

    def _require_open(self, verb: str) -> None:
        if not self._open:
            raise StorageError(f"cannot {verb} {self._place}: the stream is closed", path=self._place)

    def _part_bytes(self) -> int:
        return PART_BYTES * (1 + len(self._sent) // _PARTS_OF_ONE_SIZE)

    def _send(self, data: bytes) -> None:
        if self._upload_id is None:
            self._upload_id = self._client.call("create_multipart_upload", self._place, **self._target)["UploadId"]
        self._collect(_PARTS_UNDER_WAY - 1)
        number = len(self._sent) + 1
        request = self._client.request(
            "upload_part", self._place, **self._object, UploadId=self._upload_id, PartNumber=number, Body=data
        )
        self._sent.append(self._client.start(request))

    def _collect(self, under_way: int) -> None:
        """Wait until at most ``under_way`` parts are pending. Raises the error of a part that failed."""
        while len(self._sent) - len(self._parts) > under_way:
            number = len(self._parts)
            answer = self._sent[number].result()
            self._parts.append({"PartNumber": number + 1, "ETag": answer["ETag"]})

    def _complete(self) -> None:
        try:
            self._client.call(
                "complete_multipart_upload",
                self._place,
                **self._object,
                UploadId=self._upload_id,
                MultipartUpload={"Parts": self._parts},
            )
        except NotFoundError:
            # The upload no longer exists: either an earlier attempt completed it and the response was lost, or it was
            # removed.
            answer = self._client.call("head_object", self._place, **self._object)
            if answer["ContentLength"] != self._position:
                raise
