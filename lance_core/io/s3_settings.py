"""S3Settings: settings for accessing a bucket, from storage options and the environment.

Option names are the same as in pylance and case-insensitive. Some options have several names; if more than one of them
is set, the name that this module lists first takes precedence. Options take precedence over environment variables.
Unknown names are ignored, as in pylance, so one dictionary may configure several stores.

All credentials are taken from one source: the options, or ``AWS_ACCESS_KEY_ID`` and related variables. If neither is
set, botocore searches its usual sources (profiles, web identity, the instance role). Credentials never appear in the
result of ``repr`` or in messages.

Source: storage options and environment variables of pylance 14.0.2 for S3.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import urlsplit

from lance_core.errors import InvalidInputError, InvalidTypeError

__all__ = ["S3Settings", "duration_seconds", "lowered_options"]

_ACCESS_KEY: Final = ("aws_access_key_id", "access_key_id")
_SECRET_KEY: Final = ("aws_secret_access_key", "secret_access_key")
_TOKEN: Final = ("aws_session_token", "aws_token", "session_token", "token")
_REGION: Final = ("aws_region", "region", "aws_default_region", "default_region")
_ENDPOINT: Final = ("aws_endpoint_url_s3", "aws_endpoint_url", "aws_endpoint", "endpoint_url", "endpoint")
_VIRTUAL_HOSTED: Final = ("aws_virtual_hosted_style_request", "virtual_hosted_style_request")
_SKIP_SIGNATURE: Final = ("aws_skip_signature", "skip_signature")
_EXPRESS: Final = ("aws_s3_express", "s3_express")
_ALLOW_HTTP: Final = ("aws_allow_http", "allow_http")
_ANY_CERTIFICATE: Final = ("aws_allow_invalid_certificates", "allow_invalid_certificates")
_PAYER: Final = ("aws_request_payer", "request_payer")
_ENCRYPTION: Final = ("aws_server_side_encryption",)
_KMS_KEY: Final = ("aws_sse_kms_key_id",)
_BUCKET_KEY: Final = ("aws_sse_bucket_key_enabled",)
_PROXY: Final = ("proxy_url",)
_TIMEOUT: Final = ("timeout",)
_REQUEST_TIMEOUT: Final = ("request_timeout",)
_CONNECT_TIMEOUT: Final = ("connect_timeout",)
_MAX_RETRIES: Final = ("client_max_retries", "object_store_client_max_retries")
_RETRY_TIMEOUT: Final = ("client_retry_timeout", "object_store_client_retry_timeout")
_CHECKSUM_ALGORITHM: Final = ("aws_checksum_algorithm", "checksum_algorithm")
_ENVIRONMENT_PREFIXES: Final = ("AWS_", "OBJECT_STORE_")
_ENVIRONMENT_NAMES: Final = ("ALLOW_HTTP",)
"""Environment variables that are read without a prefix; others, such as ``TOKEN``, could have an unrelated meaning."""

_DURATION: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Zµ]+)")
_UNIT_SECONDS: Final = {
    **dict.fromkeys(("ns", "nsec"), 1e-9),
    **dict.fromkeys(("us", "usec", "µs"), 1e-6),
    **dict.fromkeys(("ms", "msec", "millis", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
    **dict.fromkeys(("w", "wk", "wks", "week", "weeks"), 604_800.0),
    **dict.fromkeys(("M", "month", "months"), 2_630_016.0),
    **dict.fromkeys(("y", "yr", "yrs", "year", "years"), 31_557_600.0),
}
"""Maps each unit of a duration to its length in seconds.

Durations in table config have different units: see :mod:`lance_core.cleanup.durations`.
"""

_DEFAULT_TIMEOUT: Final = 30.0
_DEFAULT_CONNECT_TIMEOUT: Final = 5.0
_DEFAULT_RETRIES: Final = 3
_DEFAULT_RETRY_TIMEOUT: Final = 180.0
_TRUE: Final = frozenset({"1", "true", "on", "yes", "y"})
_FALSE: Final = frozenset({"0", "false", "off", "no", "n", ""})
_CHECKSUM: Final = "sha256"
_COUNT_DIGITS: Final = 18
_SSE: Final = {
    "aes256": "AES256",
    "sse-s3": "AES256",
    "aws:kms": "aws:kms",
    "sse-kms": "aws:kms",
    "aws:kms:dsse": "aws:kms:dsse",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Settings:
    """Settings for accessing a bucket.

    Attributes:
        access_key_id: access key id; if None, botocore searches for credentials.
        secret_access_key: secret access key.
        session_token: session token; None for long-term credentials.
        region: region of the bucket; if None, botocore determines it.
        endpoint: URL of the endpoint; None for AWS.
        virtual_hosted: whether the bucket is part of the host name.
        anonymous: whether requests are unsigned.
        express: whether the bucket is a directory bucket, whose listings are unordered.
        verifies_certificates: whether the server's TLS certificate must be valid.
        requester_pays: whether the requester agrees to pay for requests.
        encryption: server-side encryption for new objects.
        kms_key_id: id of the KMS key used for the encryption.
        bucket_key: whether the encryption uses a bucket key.
        proxy_url: URL of the proxy for all requests.
        timeout_seconds: maximum time to wait for a response.
        connect_timeout_seconds: maximum time to establish a connection.
        max_retries: maximum number of retries of a request that may be repeated.
        retry_timeout_seconds: maximum time between the start of the first attempt and the last retry.
    """

    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    region: str | None = None
    endpoint: str | None = None
    virtual_hosted: bool = False
    anonymous: bool = False
    express: bool = False
    verifies_certificates: bool = True
    requester_pays: bool = False
    encryption: str | None = None
    kms_key_id: str | None = field(default=None, repr=False)
    bucket_key: bool | None = None
    proxy_url: str | None = field(default=None, repr=False)
    timeout_seconds: float = _DEFAULT_TIMEOUT
    connect_timeout_seconds: float = _DEFAULT_CONNECT_TIMEOUT
    max_retries: int = _DEFAULT_RETRIES
    retry_timeout_seconds: float = _DEFAULT_RETRY_TIMEOUT

    @classmethod
    def of(cls, options: Mapping[str, str] | None, environment: Mapping[str, str] | None = None) -> Self:
        """Read settings from storage options and the environment.

        Args:
            options: the user's options.
            environment: environment variables; if None, those of the process.

        Raises:
            InvalidTypeError: an option is not a string.
            InvalidInputError: a value is invalid, only one of the access key id and the secret access key is set, or
                the endpoint uses http although ``allow_http`` is not set.
        """
        found = _Options(lowered_options(options), _of_environment(os.environ if environment is None else environment))
        _check_checksum(found.text(_CHECKSUM_ALGORITHM))
        key, secret, token = found.credentials()
        kms_key = found.text(_KMS_KEY)
        payer = found.text(_PAYER)
        return cls(
            access_key_id=key,
            secret_access_key=secret,
            session_token=token,
            region=found.text(_REGION),
            endpoint=_endpoint(found.text(_ENDPOINT), allows_http=found.flag(_ALLOW_HTTP)),
            virtual_hosted=found.flag(_VIRTUAL_HOSTED),
            anonymous=found.flag(_SKIP_SIGNATURE),
            express=found.flag(_EXPRESS),
            verifies_certificates=not found.flag(_ANY_CERTIFICATE),
            requester_pays=payer is not None and payer.strip().lower() in {*_TRUE, "requester"},
            encryption=_encryption(found.text(_ENCRYPTION)) or ("aws:kms" if kms_key else None),
            kms_key_id=kms_key,
            bucket_key=None if found.text(_BUCKET_KEY) is None else found.flag(_BUCKET_KEY),
            proxy_url=found.text(_PROXY),
            # The reference ignores the second name if its value is invalid.
            timeout_seconds=found.seconds(_TIMEOUT, found.whole_seconds(_REQUEST_TIMEOUT, _DEFAULT_TIMEOUT)),
            connect_timeout_seconds=found.seconds(_CONNECT_TIMEOUT, _DEFAULT_CONNECT_TIMEOUT),
            max_retries=found.count(_MAX_RETRIES, _DEFAULT_RETRIES),
            retry_timeout_seconds=found.whole_seconds(_RETRY_TIMEOUT, _DEFAULT_RETRY_TIMEOUT),
        )

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must not appear in messages."""
        user = (self.proxy_url or "").partition("://")[2].rpartition("@")[0]
        values = (
            self.access_key_id,
            self.secret_access_key,
            self.session_token,
            self.proxy_url,
            user,
            user.partition(":")[2],
        )
        return tuple(value for value in values if value)


def lowered_options(options: Mapping[str, str] | None) -> dict[str, str]:
    """Return the options with lowercase names.

    Raises:
        InvalidTypeError: the options are not a mapping, or a name or value is not a string; the message does not
            contain the value.
    """
    if options is not None and not isinstance(options, Mapping):
        raise InvalidTypeError(
            f"storage_options must map str to str, found {type(options).__name__}", argument="storage_options"
        )
    found: dict[str, str] = {}
    for name, value in (options or {}).items():
        if not isinstance(name, str):
            raise InvalidTypeError(f"storage_options must map str to str, found key {name!r}")
        if not isinstance(value, str):
            raise InvalidTypeError(
                f"storage option {name!r} must be a str, found {type(value).__name__}", argument="storage_options"
            )
        found[name.lower()] = value
    return found


def _of_environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name.lower(): value
        for name, value in environment.items()
        if (name.startswith(_ENVIRONMENT_PREFIXES) or name in _ENVIRONMENT_NAMES) and value != ""
    }


@dataclass(frozen=True, slots=True)
class _Options:
    """Values from the storage options and from the environment."""

    given: Mapping[str, str]
    environment: Mapping[str, str]

    def text(self, names: tuple[str, ...]) -> str | None:
        for source in (self.given, self.environment):
            for name in names:
                if name in source:
                    return source[name]
        return None

    def credentials(self) -> tuple[str | None, str | None, str | None]:
        own = any(name in self.given for name in (*_ACCESS_KEY, *_SECRET_KEY))
        source = _Options(self.given if own else self.environment, {})
        key, secret = source.text(_ACCESS_KEY), source.text(_SECRET_KEY)
        if bool(key) is not bool(secret):
            missing, present = (_SECRET_KEY, _ACCESS_KEY) if key else (_ACCESS_KEY, _SECRET_KEY)
            raise InvalidInputError(f"{present[0]} is set, but {missing[0]} is not; set both")
        return (key, secret, source.text(_TOKEN)) if key else (None, None, None)

    def flag(self, names: tuple[str, ...]) -> bool:
        text = self.text(names)
        value = "" if text is None else text.strip().lower()
        if value in _TRUE or value in _FALSE:
            return value in _TRUE
        # The message does not contain the value: a secret may have been passed under the wrong name.
        raise InvalidInputError(f"storage option {names[-1]!r} must be true or false")

    def seconds(self, names: tuple[str, ...], default: float) -> float:
        text = self.text(names)
        seconds = default if text is None else duration_seconds(text)
        if seconds is None or seconds <= 0:
            raise InvalidInputError(f"storage option {names[0]!r} must be a positive duration such as '30s'")
        return seconds

    def whole_seconds(self, names: tuple[str, ...], default: float) -> float:
        """Parse seconds without a unit, or a duration; return the default for other text."""
        text = self.text(names) or ""
        return float(text) if _is_count(text) else duration_seconds(text) or default

    def count(self, names: tuple[str, ...], default: int) -> int:
        """Parse a whole number; return the default for other text."""
        text = self.text(names) or ""
        return int(text) if _is_count(text) else default


def duration_seconds(text: str) -> float | None:
    """Convert a duration such as ``30s``, ``500ms``, or ``1m 30s`` to seconds; return None for other strings.

    A number without a unit is not a duration.
    """
    rest, total = text.strip(), 0.0
    if not rest:
        return None
    while rest:
        match = _DURATION.match(rest)
        if match is None or match[2] not in _UNIT_SECONDS:
            return None
        total += float(match[1]) * _UNIT_SECONDS[match[2]]
        rest = rest[match.end() :].strip()
    return total


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _COUNT_DIGITS


def _check_checksum(text: str | None) -> None:
    if text is not None and text.lower() != _CHECKSUM:
        raise InvalidInputError(f"storage option {_CHECKSUM_ALGORITHM[0]!r} must be {_CHECKSUM!r}")


def _encryption(text: str | None) -> str | None:
    if text is None:
        return None
    if text.lower() not in _SSE:
        raise InvalidInputError(f"storage option {_ENCRYPTION[0]!r} must be one of {sorted(_SSE)}")
    return _SSE[text.lower()]


def _endpoint(text: str | None, *, allows_http: bool) -> str | None:
    if text is None or not text.strip():
        return None
    endpoint = text.strip().rstrip("/")
    try:
        parts = urlsplit(endpoint)
    except ValueError:
        # The URL contains an unclosed bracket.
        raise InvalidInputError("storage option 'aws_endpoint' must be an http or https URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInputError("storage option 'aws_endpoint' must be an http or https URL")
    if parts.username or parts.password:
        raise InvalidInputError("storage option 'aws_endpoint' contains credentials; pass them as separate options")
    if parts.scheme == "http" and not allows_http:
        raise InvalidInputError(f"endpoint {endpoint} is not encrypted; set the storage option 'allow_http' to 'true'")
    return endpoint
