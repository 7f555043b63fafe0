"""DynamoDbManifests: an external manifest store in a DynamoDB table, compatible with the reference implementation.

===========  ===========  =============================================================================================
``base_uri``  hash key, S   key prefix of the dataset, without scheme and bucket
``version``   range key, N
``path``      S             key of the manifest
``committer`` S             ``lancedb``
``size``      N             size of the manifest in bytes; other writers may omit it
===========  ===========  =============================================================================================

``e_tag``, which older writers set, is not read. The bucket is not part of a row: datasets with the same key in
different buckets need different DynamoDB tables.

Source: items written by pylance 14.0.2 for ``s3+ddb://``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from lance_core.buffers.fork_lock import fork_lock
from lance_core.errors import CorruptDataError, InvalidInputError, LanceError, NotSupportedError
from lance_core.io.s3_errors import translate
from lance_core.io.s3_settings import S3Settings, lowered_options
from lance_core.io.uri import require_no_credentials
from lance_core.table.manifest_stores.api import ManifestRow
from lance_core.table.paths import FIRST_DETACHED_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DynamoDbManifests"]

_COMMITTER: Final = "lancedb"
_KEYS: Final = {("base_uri", "HASH"), ("version", "RANGE")}
_LOST: Final = "ConditionalCheckFailedException"
_ABSENT: Final = "attribute_not_exists(base_uri) AND attribute_not_exists(version)"
_PRESENT: Final = "attribute_exists(base_uri) AND attribute_exists(version)"
_lock: Final = fork_lock()
_clients: dict[tuple[int, S3Settings, str | None], Any] = {}
_checked: set[tuple[S3Settings, str | None, str]] = set()


class DynamoDbManifests:
    """An external manifest store in a DynamoDB table.

    Args:
        table: name of the DynamoDB table.
        storage_options: credentials and region, with the same option names as for the bucket; ``dynamodb_endpoint`` or
            the environment variable ``DYNAMODB_ENDPOINT`` overrides the endpoint of the region.
    """

    def __init__(self, table: str, storage_options: Mapping[str, str] | None) -> None:
        """Initialize without sending a request."""
        self._table = table
        self._settings = S3Settings.of(storage_options)
        given = lowered_options(storage_options).get("dynamodb_endpoint")
        self._endpoint = given or os.environ.get("DYNAMODB_ENDPOINT") or None
        require_no_credentials(self._endpoint or "")

    def __repr__(self) -> str:
        """Return a representation with the table name."""
        return f"DynamoDbManifests(table={self._table!r})"

    def latest(self, root: str) -> ManifestRow | None:
        """Return the row of a table's highest version.

        Rows of detached versions, which the reference implementation inserts when it reads such versions, are ignored
        because they would appear to be the newest.
        """
        base = _base_uri(root)
        answer = self._call(
            "query",
            KeyConditionExpression="base_uri = :base_uri AND #version < :detached",
            ExpressionAttributeNames={"#version": "version"},
            ExpressionAttributeValues={":base_uri": {"S": base}, ":detached": {"N": str(FIRST_DETACHED_VERSION)}},
            ScanIndexForward=False,
            Limit=1,
            ConsistentRead=True,
        )
        items = answer.get("Items", [])
        return _row(base, items[0]) if items else None

    def find(self, root: str, version: int) -> ManifestRow | None:
        """Return the row of a version."""
        base = _base_uri(root)
        key = {"base_uri": {"S": base}, "version": {"N": str(version)}}
        item = self._call("get_item", Key=key, ConsistentRead=True).get("Item")
        return _row(base, item) if item else None

    def reserve(self, root: str, row: ManifestRow) -> bool:
        """Insert a row unless the version has one."""
        try:
            self._call("put_item", Item=_item(_base_uri(root), row), ConditionExpression=_ABSENT)
        except LanceError as error:
            if error.context.get("code") != _LOST:
                raise
            return False
        return True

    def finish(self, root: str, row: ManifestRow) -> None:
        """Replace the existing row of a version."""
        self._call("put_item", Item=_item(_base_uri(root), row), ConditionExpression=_PRESENT)

    def withdraw(self, root: str, row: ManifestRow) -> None:
        """Remove the row of a version if the stored path still equals ``row.path``."""
        base = _base_uri(root)
        try:
            self._call(
                "delete_item",
                Key={"base_uri": {"S": base}, "version": {"N": str(row.version)}},
                ConditionExpression="#path = :path",
                ExpressionAttributeNames={"#path": "path"},
                ExpressionAttributeValues={":path": {"S": f"{base}/{row.path}"}},
            )
        except LanceError as error:
            if error.context.get("code") != _LOST:
                raise

    def forget(self, root: str) -> None:
        """Remove all rows that the store has for a Lance table, one page at a time."""
        base = _base_uri(root)
        while True:
            answer = self._call(
                "query",
                KeyConditionExpression="base_uri = :base_uri",
                ExpressionAttributeValues={":base_uri": {"S": base}},
                ConsistentRead=True,
            )
            items = answer.get("Items", [])
            for item in items:
                self._call("delete_item", Key={"base_uri": item["base_uri"], "version": item["version"]})
            if not items:
                return

    def _call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        self._check()
        return self._send(operation, **parameters)

    def _send(self, operation: str, **parameters: Any) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = getattr(self._client(), operation)(TableName=self._table, **parameters)
        except Exception as error:  # noqa: BLE001  # the client raises what it likes
            verb, place = operation.replace("_", " "), f"DynamoDB table {self._table}"
            # Not chained: the text of the error may contain a URL with a password.
            raise translate(error, verb=verb, place=place, secrets=self._settings.secrets) from None
        return answer

    def _check(self) -> None:
        """Check, once, that the table has the keys that the protocol needs."""
        known = (self._settings, self._endpoint, self._table)
        if known in _checked:
            return
        found = self._send("describe_table")["Table"]["KeySchema"]
        keys = {(key["AttributeName"], key["KeyType"]) for key in found}
        if keys != _KEYS:
            raise InvalidInputError(
                f"DynamoDB table {self._table} has the keys {sorted(keys)}, expected {sorted(_KEYS)}",
                table=self._table,
            )
        _checked.add(known)

    def _client(self) -> Any:
        known = (os.getpid(), self._settings, self._endpoint)
        with _lock:
            client = _clients.get(known)
            if client is None:
                client = _clients[known] = _connect(self._settings, self._endpoint)
        return client


def _connect(settings: S3Settings, endpoint: str | None) -> Any:
    try:
        from botocore.config import Config
        from botocore.session import get_session
    except ImportError as error:
        raise NotSupportedError(
            "s3+ddb:// needs the package botocore: install 'lance-pipelines[dynamodb]'", package="botocore"
        ) from error
    return get_session().create_client(
        "dynamodb",
        region_name=settings.region or ("us-east-1" if endpoint else None),
        endpoint_url=endpoint,
        verify=None if settings.verifies_certificates else False,
        aws_access_key_id=settings.access_key_id,
        aws_secret_access_key=settings.secret_access_key,
        aws_session_token=settings.session_token,
        config=Config(
            # Retrying the conditional insert is safe: the writer recognizes its own row by the path.
            retries={"total_max_attempts": settings.max_retries + 1, "mode": "standard"},
            connect_timeout=settings.connect_timeout_seconds,
            read_timeout=settings.timeout_seconds,
        ),
    )


def _base_uri(root: str) -> str:
    """Return the key prefix: the path without the bucket."""
    return root.partition("/")[2].strip("/")


def _item(base: str, row: ManifestRow) -> dict[str, dict[str, str]]:
    return {
        "base_uri": {"S": base},
        "version": {"N": str(row.version)},
        "path": {"S": f"{base}/{row.path}"},
        "committer": {"S": _COMMITTER},
        "size": {"N": str(row.num_bytes)},
    }


def _row(base: str, item: dict[str, dict[str, str]]) -> ManifestRow:
    try:
        version, path = int(item["version"]["N"]), item["path"]["S"]
        num_bytes = int(item.get("size", {}).get("N", 0))
    except (KeyError, ValueError) as error:
        raise CorruptDataError(
            f"the external manifest store has a malformed row for {base}; expected a path, a numeric "
            "version, and a numeric size"
        ) from error
    if not path.startswith(f"{base}/"):
        raise CorruptDataError(
            f"the external manifest store's row for version {version} of {base} has the invalid path {path!r:.200}"
        )
    return ManifestRow(version, path[len(base) + 1 :], num_bytes)
