"""Converts errors of S3 and of its client to errors of this library.

===========================================  ====================================================================
the key, version or upload does not exist    ``NotFoundError``
the bucket does not exist                    ``StorageError``, errno ENOENT
credentials are rejected or lack permission  ``AccessDeniedError``
no credentials found                         ``AccessDeniedError``
slow down, too many requests                 ``StorageError``, retryable
server error                                 ``StorageError``, retryable and in flight
no connection                                ``StorageError``, retryable
connection lost, or no response              ``StorageError``, retryable and in flight
any other error                              ``StorageError``
===========================================  ====================================================================

*In flight* means that the store may have executed the request or may still execute it. Messages contain the status and
error codes, the server's short message, and the location; secrets are removed.

Source: error codes of the APIs of S3 and DynamoDB; errors of botocore, aiobotocore and aiohttp.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any, Final

from lance_core.errors import AccessDeniedError, LanceError, NotFoundError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["redacted", "status_of", "translate"]

_NO_BODY: Final = "404"
_MISSING: Final = frozenset({"NoSuchKey", "NoSuchVersion", "NoSuchUpload", "NotFound", _NO_BODY})
_REFUSED: Final = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AccountProblem",
        "AllAccessDisabled",
        "AuthorizationHeaderMalformed",
        "ExpiredToken",
        "ExpiredTokenException",
        "Forbidden",
        "InvalidAccessKeyId",
        "InvalidSecurity",
        "InvalidSignatureException",
        "InvalidToken",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
        "UnrecognizedClientException",
        "403",
        "401",
    }
)
_THROTTLED: Final = frozenset(
    {
        "BandwidthLimitExceeded",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequests",
        "429",
    }
)
_REPEATABLE: Final = frozenset({"RequestTimeout", "OperationAborted", "ConditionalRequestConflict"})
_FIRST_SERVER_FAILURE: Final = 500
_NOT_CONNECTED: Final = frozenset(
    {
        "ClientConnectorError",
        "ConnectTimeoutError",
        "ConnectionRefusedError",
        "EndpointConnectionError",
        "ProxyConnectionError",
    }
)
_NO_CREDENTIALS: Final = frozenset(
    {
        "NoCredentialsError",
        "PartialCredentialsError",
        "CredentialRetrievalError",
        "UnauthorizedSSOTokenError",
        "TokenRetrievalError",
        "MetadataRetrievalError",
        "InvalidConfigError",
        "ProfileNotFound",
    }
)
_NEVER_REPEATED: Final = frozenset({"SSLError", "ParamValidationError", "InvalidURL"})
_SHOWN_CHARACTERS: Final = 300
_SHORTEST_SECRET: Final = 4


def status_of(error: BaseException) -> tuple[int, str]:
    """Return the HTTP status and the error code of a server's response; (0, "") if the error is not a response."""
    response: Any = getattr(error, "response", None)
    if not isinstance(response, dict):
        return 0, ""
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return int(status or 0), str(response.get("Error", {}).get("Code", ""))


def redacted(text: str, secrets: Iterable[str]) -> str:
    """Remove secrets from a string."""
    for secret in secrets:
        # Shorter values are not secrets, and occur in many words.
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "***")
    return text[:_SHOWN_CHARACTERS]


def translate(error: BaseException, *, verb: str, place: str, secrets: Iterable[str] = ()) -> LanceError:
    """Convert an error raised by the client.

    Args:
        error: the error.
        verb: the attempted operation, for the message.
        place: object or bucket of the operation, for the message.
        secrets: values that must not appear in the message.
    """
    if isinstance(error, LanceError):
        return error
    status, code = status_of(error)
    if status or code:
        return _of_answer(error, status, code, f"cannot {verb} {place}", place, secrets)
    return _of_client(error, f"cannot {verb} {place}", place, secrets)


def _of_answer(
    error: BaseException, status: int, code: str, what: str, place: str, secrets: Iterable[str]
) -> LanceError:
    response: Any = getattr(error, "response", {})
    text = redacted(str(response.get("Error", {}).get("Message") or ""), secrets)
    found = f"the store responded with {status} {code}" + (f": {text}" if text and text != code else "")
    facts: dict[str, object] = {"path": place, "status": status, "code": code}
    if code == "NoSuchBucket":
        bucket = place.partition("://")[2].partition("/")[0]
        return StorageError(f"{what}: bucket {bucket!r} does not exist", errno=errno.ENOENT, **facts)
    if code in _MISSING:
        # The response to a HEAD request has no body, which would tell.
        missing = "the object or its bucket" if code == _NO_BODY else "the object"
        return NotFoundError(f"{what}: {missing} does not exist", **facts)
    if code in _REFUSED or status in (401, 403):
        return AccessDeniedError(f"{what}: {found}", errno=errno.EACCES, **facts)
    if code in _THROTTLED or status == 429:
        return StorageError(f"{what}: {found}", retryable=True, **facts)
    failed = status >= _FIRST_SERVER_FAILURE and code != "NotImplemented"
    return StorageError(f"{what}: {found}", retryable=failed or code in _REPEATABLE, in_flight=failed, **facts)


def _of_client(error: BaseException, what: str, place: str, secrets: Iterable[str]) -> LanceError:
    kind = type(error).__name__
    names = {each.__name__ for each in type(error).__mro__}
    inner = getattr(error, "kwargs", {}).get("error") if isinstance(getattr(error, "kwargs", None), dict) else None
    if inner is not None:
        names |= {each.__name__ for each in type(inner).__mro__}
    text = redacted(str(error) or kind, secrets)
    if names & _NO_CREDENTIALS:
        return AccessDeniedError(f"{what}: {kind}: {text}", path=place, errno=errno.EACCES)
    if names & _NEVER_REPEATED:
        return StorageError(f"{what}: {kind}: {text}", path=place)
    if names & _NOT_CONNECTED:
        return StorageError(f"{what}: connection failed: {text}", path=place, retryable=True)
    if names & {"HTTPClientError", "BotoCoreError", "ClientError", "ClientPayloadError", "OSError", "TimeoutError"}:
        return StorageError(f"{what}: {kind}: {text}", path=place, retryable=True, in_flight=True)
    return StorageError(f"{what}: {kind}: {text}", path=place, in_flight=True)
