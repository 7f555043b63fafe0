"""Errors of S3 and its client are translated to the errors of lance_core."""

import errno

import pytest
from botocore import exceptions
from botocore.exceptions import ClientError

from lance_core.errors import AccessDeniedError, LanceError, NotFoundError, StorageError
from lance_core.io.s3_errors import translate


def _answer(status: int, code: str, message: str = "") -> ClientError:
    return ClientError(
        {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}, "PutObject"
    )


def _translated(error: Exception, *secrets: str) -> LanceError:
    return translate(error, verb="read", place="s3://bucket/key", secrets=secrets)


def _name(value: object) -> str | None:
    if isinstance(value, ClientError):
        return value.response["Error"]["Code"]
    return type(value).__name__ if isinstance(value, Exception) else None


@pytest.mark.parametrize(
    ("error", "kind", "retryable", "in_flight"),
    [
        (_answer(404, "NoSuchKey"), NotFoundError, None, None),
        (_answer(404, "404"), NotFoundError, None, None),
        (_answer(404, "NoSuchUpload"), NotFoundError, None, None),
        (_answer(404, "NoSuchBucket"), StorageError, False, False),
        (_answer(403, "AccessDenied"), AccessDeniedError, False, False),
        (_answer(403, "403"), AccessDeniedError, False, False),
        (_answer(400, "ExpiredToken"), AccessDeniedError, False, False),
        (_answer(400, "UnrecognizedClientException"), AccessDeniedError, False, False),
        (_answer(503, "SlowDown"), StorageError, True, False),
        (_answer(429, "TooMany"), StorageError, True, False),
        (_answer(400, "ProvisionedThroughputExceededException"), StorageError, True, False),
        (_answer(500, "InternalError"), StorageError, True, True),
        (_answer(503, "ServiceUnavailable"), StorageError, True, True),
        (_answer(501, "NotImplemented"), StorageError, False, False),
        (_answer(409, "OperationAborted"), StorageError, True, False),
        (_answer(412, "PreconditionFailed"), StorageError, False, False),
        (_answer(400, "InvalidRequest"), StorageError, False, False),
        (exceptions.NoCredentialsError(), AccessDeniedError, False, False),
        (exceptions.EndpointConnectionError(endpoint_url="http://h"), StorageError, True, False),
        (exceptions.ConnectTimeoutError(endpoint_url="http://h"), StorageError, True, False),
        (exceptions.ReadTimeoutError(endpoint_url="http://h"), StorageError, True, True),
        (exceptions.ConnectionClosedError(endpoint_url="http://h"), StorageError, True, True),
        (exceptions.HTTPClientError(error=ConnectionResetError("reset")), StorageError, True, True),
        (exceptions.SSLError(endpoint_url="http://h", error="bad certificate"), StorageError, False, False),
        (TimeoutError(), StorageError, True, True),
        (RuntimeError("what is this"), StorageError, False, True),
    ],
    ids=_name,
)
def test_s3_errors_are_translated_and_marked_as_retryable_or_in_flight(
    error: Exception, kind: type[LanceError], retryable: bool | None, in_flight: bool | None
) -> None:
    found = _translated(error)
    assert type(found) is kind
    assert found.context["path"] == "s3://bucket/key"
    if isinstance(found, StorageError):
        assert (found.retryable, found.in_flight) == (retryable, in_flight)


def test_missing_s3_bucket_is_distinguished_from_a_missing_object() -> None:
    found = _translated(_answer(404, "NoSuchBucket"))
    assert str(found) == "cannot read s3://bucket/key: bucket 'bucket' does not exist"
    assert found.errno == errno.ENOENT


def test_missing_s3_object_without_an_error_body_may_be_a_missing_bucket() -> None:
    assert str(_translated(_answer(404, "404"))).endswith(": the object or its bucket does not exist")
    assert str(_translated(_answer(404, "NoSuchKey"))).endswith(": the object does not exist")


def test_secrets_are_removed_from_s3_error_messages() -> None:
    for error in (_answer(403, "AccessDenied", "key AKIASECRET is none"), RuntimeError("sent AKIASECRET")):
        found = _translated(error, "AKIASECRET", "s")
        assert "AKIASECRET" not in str(found)
        assert "***" in str(found)


def test_typed_errors_are_not_translated_again() -> None:
    ours = NotFoundError("mine")
    assert _translated(ours) is ours
