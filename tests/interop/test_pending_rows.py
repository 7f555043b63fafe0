"""Versions whose commit by an external manifest store is pending, or was made without that store."""

import uuid
from dataclasses import dataclass
from datetime import timedelta
from types import ModuleType
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from tests.support.s3_servers import S3Server, create_manifest_table

ROWS = pa.table({"a": pa.array([1, 2, 3], pa.int64())})
LIBRARIES = pytest.mark.parametrize("library", [lance_core, lance])


@dataclass(frozen=True)
class Table:
    """A dataset and the manifest rows of its versions."""

    server: S3Server
    database: Any
    items: str
    name: str

    @property
    def uri(self) -> str:
        return f"s3+ddb://{self.server.bucket}/{self.name}?ddbTableName={self.items}"

    @property
    def plain(self) -> str:
        return f"s3://{self.server.bucket}/{self.name}"

    @property
    def options(self) -> dict[str, str]:
        return self.server.options(dynamodb_endpoint=self.server.endpoint)

    def key(self, version: int) -> str:
        return f"{self.name}/_versions/{2**64 - 1 - version:020d}.manifest"

    def write(self, library: ModuleType, num_versions: int, uri: str, mode: str = "append") -> None:
        for number in range(num_versions):
            library.write_dataset(ROWS, uri, mode=mode if number else "create", storage_options=self.options)

    def make_pending(self, version: int, *, keeps_final: bool) -> str:
        """Restore the state after the row was reserved, or after the manifest was put under its final name."""
        client = self.server.client()
        staged = f"{self.key(version)}-{uuid.uuid4()}"
        data = client.get_object(Bucket=self.server.bucket, Key=self.key(version))["Body"].read()
        client.put_object(Bucket=self.server.bucket, Key=staged, Body=data)
        if not keeps_final:
            client.delete_object(Bucket=self.server.bucket, Key=self.key(version))
        item = {"base_uri": self.name, "path": staged, "committer": "lancedb"}
        numbers = {"version": version, "size": len(data)}
        self.database.put_item(
            TableName=self.items,
            Item={name: {"S": text} for name, text in item.items()}
            | {name: {"N": str(number)} for name, number in numbers.items()},
        )
        return staged

    def rows(self) -> dict[int, str]:
        found = self.database.query(
            TableName=self.items,
            KeyConditionExpression="base_uri = :base",
            ExpressionAttributeValues={":base": {"S": self.name}},
        )["Items"]
        return {int(item["version"]["N"]): item["path"]["S"] for item in found}


@pytest.fixture
def table(server: S3Server) -> Table:
    items = f"rows-{uuid.uuid4().hex[:8]}"
    return Table(server, create_manifest_table(server, items), items, f"t-{uuid.uuid4().hex[:8]}")


@LIBRARIES
@pytest.mark.sampled(1)
def test_creating_a_tag_on_a_reserved_version_finishes_the_commit_of_the_version(
    table: Table, library: ModuleType
) -> None:
    table.write(lance, 3, table.uri)
    table.make_pending(3, keeps_final=False)
    dataset = library.dataset(table.uri, version=2, storage_options=table.options)
    dataset.tags.create("t", 3)
    assert table.rows()[3] == table.key(3)
    assert lance_core.dataset(table.uri, version="t", storage_options=table.options).count_rows() == 9


def test_a_pending_version_that_was_cleaned_up_does_not_reappear(table: Table) -> None:
    """In the reference, the version reappears: its manifest returns, but its files do not."""
    table.write(lance_core, 4, table.uri, mode="overwrite")
    staged = table.make_pending(2, keeps_final=True)
    dataset = lance_core.dataset(table.uri, storage_options=table.options)
    stats = dataset.cleanup_old_versions(timedelta(0), 1, delete_unverified=True)
    assert stats.old_versions == 3
    for _ in range(2):
        with pytest.raises(lance_core.VersionNotFoundError):
            lance_core.dataset(table.uri, version=2, storage_options=table.options)
    assert table.server.keys(table.plain).count(staged.partition("/")[2]) == 0
    assert [version["version"] for version in dataset.versions()] == [4]
    assert lance.dataset(table.uri, storage_options=table.options).to_table().num_rows == 3


@pytest.mark.slow
def test_a_reappeared_version_whose_files_were_removed_cannot_be_restored(table: Table) -> None:
    table.write(lance, 4, table.uri, mode="overwrite")
    table.make_pending(2, keeps_final=True)
    dataset = lance.dataset(table.uri, storage_options=table.options)
    dataset.cleanup_old_versions(older_than=timedelta(0), retain_versions=1, delete_unverified=True)
    returned = lance_core.dataset(table.uri, version=2, storage_options=table.options)
    with pytest.raises(lance_core.NotFoundError, match="cannot be restored"):
        returned.restore()
    assert lance_core.dataset(table.uri, storage_options=table.options).to_table().num_rows == 3


def test_a_manifest_row_whose_staged_object_is_missing_is_finalized_from_the_manifest(table: Table) -> None:
    table.write(lance_core, 3, table.uri)
    staged = table.make_pending(3, keeps_final=True)
    table.server.client().delete_object(Bucket=table.server.bucket, Key=staged)
    assert lance_core.dataset(table.uri, storage_options=table.options).count_rows() == 9
    assert table.rows()[3] == table.key(3)


@LIBRARIES
def test_opening_a_version_made_without_the_manifest_store_inserts_its_manifest_row(
    table: Table, library: ModuleType
) -> None:
    table.write(lance, 3, table.plain)
    assert library.dataset(table.uri, version=3, storage_options=table.options).version == 3
    assert table.rows() == {3: table.key(3)}


def test_opening_an_older_version_also_inserts_the_manifest_row_of_the_latest_version(table: Table) -> None:
    """The reference inserts only that row, so that the table appears to be at an older version."""
    table.write(lance, 3, table.plain)
    assert lance_core.dataset(table.uri, version=1, storage_options=table.options).version == 1
    assert table.rows() == {version: table.key(version) for version in (1, 3)}
    for each in (lance_core, lance):
        assert each.dataset(table.uri, storage_options=table.options).version == 3
    assert lance.write_dataset(ROWS, table.uri, mode="append", storage_options=table.options).version == 4


def test_opening_a_missing_version_inserts_no_manifest_row(table: Table) -> None:
    table.write(lance, 2, table.plain)
    with pytest.raises(lance_core.VersionNotFoundError):
        lance_core.dataset(table.uri, version=9, storage_options=table.options)
    assert lance_core.dataset(table.uri, storage_options=table.options).version == 2
    assert table.rows() == {}
