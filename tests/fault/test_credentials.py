"""Credentials appear in no message, log, representation, or file, whether an operation succeeds or fails."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError, LanceError
from lance_core.transactions.options import CommitOptions
from tests.support.s3_servers import S3Server

CANARY = "canary-Passw0rd"
ROWS = pa.table({"a": pa.array(range(10), pa.int64())})
NOWHERE = {
    "aws_access_key_id": f"AKIA{CANARY}",
    "aws_secret_access_key": CANARY,
    "aws_session_token": CANARY,
    "aws_endpoint": "http://127.0.0.1:1",
    "allow_http": "true",
    "aws_region": "us-east-1",
    "client_max_retries": "0",
}


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Collect all log messages of this project, and finally check that they contain no secret."""
    with caplog.at_level(logging.DEBUG, logger="lance_core"):
        yield caplog
    assert CANARY not in caplog.text


def shown(error: BaseException) -> str:
    """Return everything that a failure shows: its message, context, causes, and lines of code."""
    seen = repr(error) + repr(getattr(error, "context", "")) + repr(error.args)
    return seen + "".join(traceback.format_exception(error))


def failure(ask: Callable[[], object]) -> str:
    with pytest.raises(LanceError) as raised:
        ask()
    return shown(raised.value)


@pytest.mark.parametrize(
    "uri",
    [
        f"s3://user:{CANARY}@bucket/x",
        f"s3://{CANARY}@bucket/x",
        f"s3+ddb://user:{CANARY}@bucket/x?ddbTableName=t",
        f"s3+ddb://bucket/x?ddbTableName=t&token={CANARY}",
        f"s3+sql://bucket/x?sql_url=postgresql://u:{CANARY}@host/d",
        f"s3://bucket/x?X-Amz-Signature={CANARY}",
        f"gs://bucket/x?token={CANARY}",
        f"az://container/x?sig={CANARY}",
        f"abfss://container:{CANARY}@account.dfs.core.windows.net/x",
        f"http://user:{CANARY}@host/x",
        f"https://host/x?sig={CANARY}",
        f"postgresql://user:{CANARY}@host/x",
        f"file://user:{CANARY}@host/x",
        f"memory://user:{CANARY}@host/x",
    ],
)
def test_uris_with_secrets_are_refused_without_being_shown(logged: pytest.LogCaptureFixture, uri: str) -> None:
    assert CANARY not in failure(lambda: lance_core.dataset(uri, storage_options=NOWHERE))
    assert CANARY not in failure(lambda: lance_core.write_dataset(ROWS, uri, storage_options=NOWHERE))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"aws_endpoint": f"http://user:{CANARY}@127.0.0.1:1"},
        {"proxy_url": f"http://user:{CANARY}@127.0.0.1:1"},
        {"proxy_url": f"http://user:{CANARY}@127.0.0.1:99999"},
        {"proxy_url": f"user:{CANARY}@127.0.0.1:1"},
        {"allow_http": CANARY},
        {"aws_skip_signature": CANARY},
        {"timeout": CANARY},
        {"client_max_retries": CANARY},
        {"aws_server_side_encryption": CANARY},
        {"aws_checksum_algorithm": CANARY},
        {"aws_endpoint": CANARY},
        {"aws_session_token": 5},
        {"unknown": CANARY},
    ],
)
@pytest.mark.sampled(5)
def test_an_unreachable_server_is_reported_without_credentials(
    logged: pytest.LogCaptureFixture, changes: dict[str, str]
) -> None:
    options = {**NOWHERE, **changes}
    assert CANARY not in failure(lambda: lance_core.dataset("s3://bucket/x", storage_options=options))
    assert CANARY not in failure(lambda: lance_core.write_dataset(ROWS, "s3://bucket/x", storage_options=options))


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:1", f"http://user:{CANARY}@127.0.0.1:1"])
def test_an_unreachable_dynamodb_is_reported_without_credentials(
    logged: pytest.LogCaptureFixture, endpoint: str
) -> None:
    options = {**NOWHERE, "dynamodb_endpoint": endpoint}
    uri = "s3+ddb://bucket/x?ddbTableName=t"
    assert CANARY not in failure(lambda: lance_core.dataset(uri, storage_options=options))


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql+psycopg://user:{CANARY}@127.0.0.1:1/d",
        f"postgresql+psycopg://user:{CANARY}@127.0.0.1:port/d",
        f"postgresql+psycopg://user@127.0.0.1:1/d?password={CANARY}",
        f"oracle://user:{CANARY}@127.0.0.1:1/d",
        f"no url {CANARY}",
    ],
)
def test_an_unreachable_database_is_reported_without_credentials(logged: pytest.LogCaptureFixture, url: str) -> None:
    options = {**NOWHERE, "sql_url": url}
    assert CANARY not in failure(lambda: lance_core.dataset("s3+sql://bucket/x", storage_options=options))


@pytest.mark.parametrize("path", [f"s3://user:{CANARY}@bucket/x", f"s3://bucket/x?sig={CANARY}"])
def test_base_path_with_a_secret_is_refused_without_being_shown(
    logged: pytest.LogCaptureFixture, tmp_path: Path, path: str
) -> None:
    uri = str(tmp_path / "table")
    base = lance_core.DatasetBasePath(path, name="base")
    with pytest.raises(InvalidInputError) as raised:
        lance_core.write_dataset(ROWS, uri, initial_bases=[base])
    assert CANARY not in shown(raised.value)
    dataset = lance_core.write_dataset(ROWS, uri)
    with pytest.raises(InvalidInputError) as raised:
        dataset.add_bases([base])
    assert CANARY not in shown(raised.value)
    assert [file for file in tmp_path.rglob("*") if file.is_file() and CANARY.encode() in file.read_bytes()] == []


@pytest.mark.parametrize("scheme", ["s3", "s3+ddb"])
def test_no_file_log_or_representation_contains_a_secret(
    logged: pytest.LogCaptureFixture, server: S3Server, tmp_path: Path, scheme: str
) -> None:
    # The mock accepts any key.
    options = server.options(
        aws_access_key_id=f"AKIA{CANARY}", aws_secret_access_key=CANARY, dynamodb_endpoint=server.endpoint
    )
    query = f"?ddbTableName={server.bucket}" if scheme == "s3+ddb" else ""
    place, copy = f"secret-{scheme[-3:]}", f"secret-copy-{scheme[-3:]}"
    uri = server.uri(place, scheme) + query
    dataset = lance_core.write_dataset(ROWS, uri, storage_options=options, commit_message="first")
    dataset = lance_core.write_dataset(ROWS, uri, mode="append", storage_options=options)
    dataset.delete("a = 3")
    dataset.update_config({"a": "b"})
    dataset.optimize.compact_files()
    dataset.tags.create("t", 1)
    dataset.create_branch("b")
    dataset.shallow_clone(server.uri(copy), "t", storage_options=options)
    dataset.cleanup_old_versions()
    dataset = lance_core.dataset(uri, storage_options=options)
    objects = (dataset, dataset.log, dataset.log.store, dataset.log.protocol, dataset.locator, dataset.manifest)
    parts = (dataset.get_fragments(), dataset.scanner(), dataset.tags, dataset.branches, dataset.optimize)
    settings = CommitOptions(storage_options=options)
    assert CANARY not in repr(objects) + repr(parts) + repr(settings) + str(dataset) + str(dataset.get_transactions())
    assert CANARY not in failure(lambda: dataset.checkout_version(99))
    assert CANARY not in failure(lambda: dataset.checkout_version("nothing"))
    assert CANARY not in failure(lambda: lance_core.dataset(uri.replace(place, "none"), storage_options=options))
    client = server.client()
    for listed in client.get_paginator("list_objects_v2").paginate(Bucket=server.bucket):
        for item in listed.get("Contents", ()):
            body = client.get_object(Bucket=server.bucket, Key=item["Key"])["Body"].read()
            assert CANARY.encode() not in body, item["Key"]
    rows = server.client("dynamodb").scan(TableName=server.bucket)["Items"]
    assert CANARY not in repr(rows)
    assert bool(rows) == (scheme == "s3+ddb")
