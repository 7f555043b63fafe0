"""Settings of S3: names, precedence, defaults, and invalid values; secrets are never shown."""

import pytest

from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.io.s3_settings import S3Settings, duration_seconds

KEYS = {"aws_access_key_id": "AKIA-of-options", "aws_secret_access_key": "secret-of-options"}
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "AKIA-of-env",
    "AWS_SECRET_ACCESS_KEY": "secret-of-env",
    "AWS_SESSION_TOKEN": "token-of-env",
    "AWS_DEFAULT_REGION": "eu-west-1",
}


def test_s3_settings_without_options_are_the_aws_defaults() -> None:
    found = S3Settings.of(None, {})
    assert found == S3Settings()
    assert (found.timeout_seconds, found.connect_timeout_seconds, found.max_retries) == (30.0, 5.0, 3)


@pytest.mark.parametrize(
    ("names", "attribute", "value", "expected"),
    [
        (["aws_region", "region", "AWS_REGION", "aws_default_region"], "region", "eu-north-1", "eu-north-1"),
        (["aws_endpoint", "endpoint", "aws_endpoint_url", "Endpoint_URL"], "endpoint", "https://h/", "https://h"),
        (["aws_virtual_hosted_style_request", "virtual_hosted_style_request"], "virtual_hosted", "true", True),
        (["aws_skip_signature", "skip_signature"], "anonymous", "1", True),
        (["s3_express", "aws_s3_express"], "express", "yes", True),
        (["allow_invalid_certificates"], "verifies_certificates", "true", False),
        (["request_payer", "aws_request_payer"], "requester_pays", "requester", True),
        (["timeout", "request_timeout"], "timeout_seconds", "1m 30s", 90.0),
        (["timeout"], "timeout_seconds", "500000us", 0.5),
        (["request_timeout"], "timeout_seconds", "20", 20.0),
        (["connect_timeout"], "connect_timeout_seconds", "500ms", 0.5),
        (["client_max_retries"], "max_retries", "7", 7),
        (["client_retry_timeout"], "retry_timeout_seconds", "20", 20.0),
        (["aws_server_side_encryption"], "encryption", "aws:kms", "aws:kms"),
        (["aws_sse_bucket_key_enabled"], "bucket_key", "false", False),
    ],
)
def test_every_alias_of_an_s3_option_is_read(names: list[str], attribute: str, value: str, expected: object) -> None:
    for name in names:
        assert getattr(S3Settings.of({name: value}, {}), attribute) == expected


def test_s3_options_override_the_environment() -> None:
    found = S3Settings.of({"region": "us-east-2"}, {"AWS_REGION": "eu-west-3"})
    assert found.region == "us-east-2"
    assert S3Settings.of({}, {"AWS_REGION": "eu-west-3"}).region == "eu-west-3"
    assert S3Settings.of(None, {"OBJECT_STORE_CLIENT_MAX_RETRIES": "9"}).max_retries == 9
    assert S3Settings.of(None, {"REGION": "of somebody else"}).region is None


def test_s3_credentials_are_never_mixed_from_options_and_environment() -> None:
    ours = S3Settings.of(KEYS, ENVIRONMENT)
    assert (ours.access_key_id, ours.secret_access_key, ours.session_token) == (*KEYS.values(), None)
    theirs = S3Settings.of({}, ENVIRONMENT)
    assert theirs.session_token == "token-of-env"
    assert theirs.region == "eu-west-1"
    with_token = S3Settings.of({**KEYS, "session_token": "t"}, {})
    assert with_token.session_token == "t"


@pytest.mark.parametrize("name", KEYS)
def test_incomplete_s3_credentials_are_refused(name: str) -> None:
    with pytest.raises(InvalidInputError, match="set both") as raised:
        S3Settings.of({name: KEYS[name]}, ENVIRONMENT)
    assert KEYS[name] not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"aws_endpoint": "http://localhost:9000"}, "allow_http"),
        ({"aws_endpoint": "ftp://localhost"}, "URL"),
        ({"aws_endpoint": "http://[hidden"}, "URL"),
        ({"aws_endpoint": "http://user:hidden@localhost", "allow_http": "true"}, "credentials"),
        ({"skip_signature": "perhaps"}, "true or false"),
        ({"timeout": "3 fortnights"}, "duration"),
        ({"timeout": "0s"}, "duration"),
        ({"timeout": "30"}, "duration"),
        ({"allow_http": "wJalr-hidden"}, "true or false"),
        ({"timeout": "hidden"}, "duration"),
        ({"aws_server_side_encryption": "hidden"}, "must be one of"),
        ({"aws_checksum_algorithm": "md5"}, "sha256"),
        ({"checksum_algorithm": "hidden"}, "sha256"),
        ({"aws_server_side_encryption": "rot13"}, "must be one of"),
    ],
)
def test_malformed_s3_options_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message) as raised:
        S3Settings.of(options, {})
    assert "hidden" not in str(raised.value)


@pytest.mark.parametrize("text", ["abc", "-1", "1.5", "", "9" * 30])
def test_malformed_s3_retry_options_fall_back_to_the_defaults(text: str) -> None:
    """As in the reference, which ignores malformed values."""
    found = S3Settings.of({"client_max_retries": text, "client_retry_timeout": text}, {})
    assert (found.max_retries, found.retry_timeout_seconds) == (3, 180.0)


def test_environment_may_allow_http_for_s3() -> None:
    options = {"aws_endpoint": "http://localhost:9000"}
    assert S3Settings.of(options, {"ALLOW_HTTP": "true"}).endpoint == "http://localhost:9000"
    with pytest.raises(InvalidInputError, match="allow_http"):
        S3Settings.of(options, {"TOKEN": "x"})


def test_s3_options_that_are_not_text_raise_invalid_type() -> None:
    with pytest.raises(InvalidTypeError, match="aws_secret_access_key") as raised:
        S3Settings.of({"aws_secret_access_key": 987654}, {})  # type: ignore[dict-item]
    assert "987654" not in str(raised.value)
    with pytest.raises(InvalidTypeError):
        S3Settings.of({1: "a"}, {})  # type: ignore[dict-item]


def test_s3_settings_ignore_options_of_other_stores() -> None:
    assert S3Settings.of({"google_service_account": "x", "sql_url": "y"}, {}) == S3Settings()


def test_s3_settings_do_not_show_secrets() -> None:
    given = {**KEYS, "session_token": "the-token", "proxy_url": "http://u:pw-of-proxy@p", "aws_sse_kms_key_id": "key-1"}
    found = S3Settings.of(given, {})
    shown = f"{found!r} {found}"
    assert not [value for value in given.values() if value in shown]
    proxy = {"http://u:pw-of-proxy@p", "u:pw-of-proxy", "pw-of-proxy"}
    assert set(found.secrets) == {*KEYS.values(), "the-token", *proxy}
    assert found.encryption == "aws:kms"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", None),
        ("30s", 30.0),
        ("30S", None),
        ("1h30m", 5400.0),
        ("2 minutes", 120.0),
        ("1M", 2_630_016.0),
        ("1d", 86_400.0),
        ("250us", 0.00025),
        ("", None),
        ("x", None),
        ("5 lustres", None),
    ],
)
def test_s3_duration_text_is_converted_to_seconds(text: str, seconds: float | None) -> None:
    assert duration_seconds(text) == seconds
