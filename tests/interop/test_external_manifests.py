"""Datasets in external manifest stores: DynamoDB, shared with pylance, and SQL databases, used only by lance_core.

Each state that a killed writer may leave is created from a complete version; then readers and writers of both
implementations must continue from that state.
"""

import sqlite3
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from tests.support.fault_proxy import fault_proxy
from tests.support.processes import ROOT
from tests.support.s3_servers import S3Server

LIBRARIES = {"lance_core": lance_core, "lance": lance}
V1, V2, V3 = (f"_versions/{2**64 - 1 - version:020d}.manifest" for version in (1, 2, 3))


@dataclass
class Table:
    """A dataset, its objects, and its manifest rows."""

    server: S3Server
    key: str
    uri: str
    options: dict[str, str]
    rows: Any

    @property
    def plain_uri(self) -> str:
        return self.server.uri(self.key)

    def append(self, value: int, library: str = "lance_core") -> int:
        rows = pa.table({"a": pa.array([value], pa.int64())})
        module = LIBRARIES[library]
        return module.write_dataset(rows, self.uri, mode="append", storage_options=self.options).version

    def values(self, library: str = "lance_core", version: int | None = None) -> list[int]:
        dataset = LIBRARIES[library].dataset(self.uri, version, storage_options=self.options)
        return sorted(dataset.to_table()["a"].to_pylist())

    def get(self, path: str) -> bytes:
        return self.server.client().get_object(Bucket=self.server.bucket, Key=f"{self.key}/{path}")["Body"].read()

    def put(self, path: str, data: bytes) -> None:
        self.server.client().put_object(Bucket=self.server.bucket, Key=f"{self.key}/{path}", Body=data)

    def delete(self, path: str) -> None:
        self.server.client().delete_object(Bucket=self.server.bucket, Key=f"{self.key}/{path}")

    def manifests(self) -> list[str]:
        return [key for key in self.server.keys(self.plain_uri) if key.startswith("_versions/")]

    def die_after(self, step: int) -> str:
        """Leave version 2 as if its writer had been killed after this step, and return the staged path."""
        staged = f"{V2}-{uuid.uuid4()}"
        data = self.get(V2)
        self.put(staged, data)
        if step < 3:
            self.delete(V2)
        if step < 2:
            self.rows.delete(2)
        elif step < 4:
            self.rows.set_path(2, staged)
        return staged


class DynamoRows:
    def __init__(self, client: Any, table: str, base: str) -> None:
        self.client, self.table, self.base = client, table, base

    def all(self) -> list[dict[str, Any]]:
        answer = self.client.query(
            TableName=self.table,
            KeyConditionExpression="base_uri = :b",
            ExpressionAttributeValues={":b": {"S": self.base}},
        )
        return answer["Items"]

    def paths(self) -> dict[int, str]:
        return {int(item["version"]["N"]): item["path"]["S"].removeprefix(f"{self.base}/") for item in self.all()}

    def delete(self, version: int) -> None:
        self.client.delete_item(
            TableName=self.table, Key={"base_uri": {"S": self.base}, "version": {"N": str(version)}}
        )

    def set_path(self, version: int, path: str) -> None:
        [item] = [each for each in self.all() if each["version"]["N"] == str(version)]
        self.client.put_item(TableName=self.table, Item={**item, "path": {"S": f"{self.base}/{path}"}})


class SqlRows:
    def __init__(self, file: Path, base: str) -> None:
        self.file, self.base = file, base

    def _run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.file)
        try:
            with connection:
                return connection.execute(statement, values).fetchall()
        finally:
            connection.close()

    def paths(self) -> dict[int, str]:
        return dict(self._run("select version, path from lance_manifests where base_uri = ?", self.base))

    def delete(self, version: int) -> None:
        self._run("delete from lance_manifests where base_uri = ? and version = ?", self.base, version)

    def set_path(self, version: int, path: str) -> None:
        self._run("update lance_manifests set path = ? where base_uri = ? and version = ?", path, self.base, version)


@pytest.fixture
def dynamo(server: S3Server) -> Table:
    """A dataset of two versions, shared with pylance."""
    key = f"deep/{uuid.uuid4().hex}.lance"
    table = Table(
        server,
        key,
        server.uri(key, "s3+ddb") + f"?ddbTableName={server.bucket}",
        server.options(dynamodb_endpoint=server.endpoint),
        DynamoRows(server.client("dynamodb"), server.bucket, key),
    )
    table.append(1)
    table.append(2)
    return table


@pytest.fixture(params=["dynamodb", "sql"])
def table(request: pytest.FixtureRequest, server: S3Server, tmp_path: Path) -> Table:
    """A dataset of two versions, in each of the stores."""
    if request.param == "dynamodb":
        return request.getfixturevalue("dynamo")
    key = f"deep/{uuid.uuid4().hex}.lance"
    file = tmp_path / "manifests.db"
    made = Table(
        server,
        key,
        server.uri(key, "s3+sql"),
        server.options(sql_url=f"sqlite:///{file}"),
        SqlRows(file, f"s3://{server.bucket}/{key}"),
    )
    made.append(1)
    made.append(2)
    return made


def test_appends_of_lance_core_and_pylance_in_turn_share_one_dynamodb_table(dynamo: Table) -> None:
    for version in range(3, 9):
        assert dynamo.append(version, "lance" if version % 2 else "lance_core") == version
    for library in LIBRARIES:
        assert dynamo.values(library) == list(range(1, 9))
        assert dynamo.values(library, 4) == [1, 2, 3, 4]
    assert len(dynamo.manifests()) == 8
    assert lance.dataset(dynamo.plain_uri, storage_options=dynamo.options).version == 8


def test_dynamodb_items_equal_those_of_pylance(dynamo: Table) -> None:
    dynamo.append(3, "lance")
    ours, theirs = dynamo.rows.all()[1:]
    assert {name: list(value) for name, value in ours.items()} == {name: list(value) for name, value in theirs.items()}
    assert (ours["base_uri"], ours["committer"]) == (theirs["base_uri"], theirs["committer"])
    assert dynamo.rows.paths() == {1: V1, 2: V2, 3: V3}
    assert int(ours["size"]["N"]) == len(dynamo.get(V2))


def test_opening_a_dataset_takes_two_requests_and_one_table_check(dynamo: Table) -> None:
    with fault_proxy(dynamo.server.endpoint) as proxy:
        options = {**dynamo.options, "aws_endpoint": proxy.endpoint, "dynamodb_endpoint": proxy.endpoint}
        # The row and the manifest; once per process, a check of the table. Opening a version by number
        # uses its row, or inserts one.
        for version, methods in ((None, ["POST", "POST", "GET"]), (None, ["POST", "GET"]), (2, ["GET", "POST"])):
            proxy.reset()
            assert lance_core.dataset(dynamo.uri, version, storage_options=options).version == 2
            assert len(proxy.methods()) <= 3
            assert proxy.methods() in (methods, methods[-2:])


def test_a_uri_with_a_trailing_slash_uses_the_same_manifest_rows(dynamo: Table) -> None:
    uri = dynamo.uri.replace("?", "/?")
    assert lance_core.dataset(uri, storage_options=dynamo.options).version == 2


@pytest.mark.slow
def test_a_referenced_staged_manifest_is_finalized_and_kept(dynamo: Table) -> None:
    """The writer is killed between steps S2 and S3; then pylance opens the dataset."""
    program = f"""
import os, pyarrow as pa, lance_core
from lance_core.table.commit_protocols.external import ExternalCommit
ExternalCommit._publish = lambda *arguments: os._exit(9)
rows = pa.table({{"a": pa.array([3], pa.int64())}})
lance_core.write_dataset(rows, {dynamo.uri!r}, mode="append", storage_options={dynamo.options!r})
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 9, done.stderr
    assert dynamo.rows.paths()[3] in dynamo.manifests()
    assert V3 not in dynamo.manifests()
    assert dynamo.values("lance") == [1, 2, 3]
    assert dynamo.rows.paths()[3] == V3
    assert dynamo.values() == [1, 2, 3]


def test_the_etag_of_a_manifest_row_is_neither_read_nor_written(dynamo: Table) -> None:
    item = dynamo.rows.all()[-1]
    assert "e_tag" not in item
    older = {name: value for name, value in item.items() if name != "size"}
    dynamo.rows.client.put_item(TableName=dynamo.rows.table, Item={**older, "e_tag": {"S": "abc"}})
    assert dynamo.values() == [1, 2]
    dynamo.die_after(2)
    assert dynamo.values() == [1, 2]
    assert dynamo.append(3) == 3


@pytest.mark.parametrize("step", [1, 2, 3, 4], ids=["staged", "reserved", "materialized", "final"])
@pytest.mark.parametrize("first", ["read", "append", pytest.param("read version", marks=pytest.mark.slow)])
@pytest.mark.sampled(2)
def test_an_interrupted_commit_is_finished_by_the_next_writer(table: Table, step: int, first: str) -> None:
    """Rows 10 to 13 of the crash table."""
    staged = table.die_after(step)
    visible = step >= 2
    if first == "read":
        assert table.values() == ([1, 2] if visible else [1])
    elif first == "read version" and visible:
        assert table.values(version=2) == [1, 2]
    expected = [1, 2, 3] if visible else [1, 3]
    assert table.append(3) == len(expected)
    assert table.values() == expected
    assert [path for path in table.rows.paths().values() if not path.endswith(".manifest")] == []
    # Unreferenced objects are left to a cleanup; a staged object referenced by a row was moved to its final name.
    assert (staged in table.manifests()) is (step in (1, 4))


@pytest.mark.parametrize("step", [1, 2, 3, 4], ids=["staged", "reserved", "materialized", "final"])
@pytest.mark.sampled(1)
def test_pylance_finishes_an_interrupted_commit_of_lance_core(dynamo: Table, step: int) -> None:
    dynamo.die_after(step)
    expected = [1, 2] if step >= 2 else [1]
    assert dynamo.values("lance") == expected
    assert dynamo.append(3, "lance") == len(expected) + 1
    assert dynamo.append(4) == len(expected) + 2
    assert dynamo.values() == dynamo.values("lance") == [*expected, 3, 4]


@pytest.mark.slow
def test_the_loser_of_a_commit_race_finishes_the_reserved_version(table: Table) -> None:
    """A handle opened earlier plans on version 1, whose successor is reserved but not listed."""
    table.delete(V2)
    table.rows.delete(2)
    old = lance_core.dataset(table.uri, storage_options=table.options)
    assert old.version == 1
    assert table.append(2) == 2
    staged = table.die_after(2)
    made = lance_core.write_dataset(
        pa.table({"a": pa.array([3], pa.int64())}), old, mode="append", storage_options=table.options
    )
    assert made.version == 3
    assert table.values() == [1, 2, 3]
    assert staged not in table.manifests()
    assert len(table.manifests()) == 3


@pytest.mark.sampled(1)
def test_a_row_whose_staged_object_is_missing_is_reported(table: Table) -> None:
    """Row 21 of the crash table."""
    table.delete(table.die_after(2))
    for call in (table.values, lambda: table.append(3)):
        with pytest.raises(lance_core.CorruptDataError, match="delete the row"):
            call()
    table.rows.delete(2)
    assert table.append(3) == 2
    assert table.values() == [1, 3]


@pytest.mark.sampled(1)
def test_a_row_that_refers_to_another_location_is_refused(table: Table) -> None:
    for path in ("data/x.manifest", "_versions/../../other/1.manifest", V3, "_versions/nothing"):
        table.rows.set_path(2, path)
        with pytest.raises(lance_core.CorruptDataError, match="invalid path"):
            table.values()


@pytest.mark.sampled(1)
def test_a_dataset_without_manifest_rows_is_registered_by_the_first_commit(table: Table) -> None:
    for version in (1, 2):
        table.rows.delete(version)
    assert table.values() == [1, 2]
    assert table.append(3) == 3
    assert table.rows.paths() == {3: V3}
    assert table.values() == [1, 2, 3]


def test_a_dataset_without_manifest_rows_and_files_raises_dataset_not_found(table: Table) -> None:
    with pytest.raises(lance_core.DatasetNotFoundError):
        lance_core.dataset(table.uri.replace("deep/", "deep/no"), storage_options=table.options)


@pytest.mark.slow
def test_maintenance_of_a_shared_dataset_keeps_every_row(dynamo: Table) -> None:
    from datetime import timedelta

    for value in range(3, 7):
        dynamo.append(value)
    dataset = lance_core.dataset(dynamo.uri, storage_options=dynamo.options)
    dataset.optimize.compact_files()
    dataset = lance_core.dataset(dynamo.uri, storage_options=dynamo.options)
    dataset.cleanup_old_versions(timedelta(0), delete_unverified=True)
    for library in LIBRARIES:
        assert dynamo.values(library) == [1, 2, 3, 4, 5, 6]
        assert LIBRARIES[library].dataset(dynamo.uri, storage_options=dynamo.options).delete("a = 6") is not None
        dynamo.append(6)


def test_branches_have_their_own_manifest_rows(dynamo: Table) -> None:
    def open_with(library: str) -> Any:
        return LIBRARIES[library].dataset(dynamo.uri, storage_options=dynamo.options)

    rows = pa.table({"a": pa.array([3], pa.int64())})
    for library, other, name in (("lance_core", "lance", "ours"), ("lance", "lance_core", "theirs")):
        branch = open_with(library).create_branch(name)
        LIBRARIES[library].write_dataset(rows, branch, mode="append", storage_options=dynamo.options)
        assert sorted(open_with(other).checkout_version((name, None)).to_table()["a"].to_pylist()) == [1, 2, 3]
        kept = DynamoRows(dynamo.rows.client, dynamo.rows.table, f"{dynamo.key}/tree/{name}")
        assert kept.paths() == {2: V2, 3: V3}
    assert dynamo.rows.paths() == {1: V1, 2: V2}


def _branch_rows(table: Table, name: str) -> Any:
    if isinstance(table.rows, SqlRows):
        return SqlRows(table.rows.file, f"{table.rows.base}/tree/{name}")
    return DynamoRows(table.rows.client, table.rows.table, f"{table.rows.base}/tree/{name}")


@pytest.mark.sampled(1)
def test_a_branch_is_deleted_with_its_manifest_rows(table: Table) -> None:
    def opened() -> lance_core.LanceDataset:
        return lance_core.dataset(table.uri, storage_options=table.options)

    rows = pa.table({"a": pa.array([3], pa.int64())})
    for name in ("a", "a/b"):
        branch = opened().create_branch(name)
        lance_core.write_dataset(rows, branch, mode="append")
    opened().branches.delete("a")
    assert _branch_rows(table, "a").paths() == {}
    assert _branch_rows(table, "a/b").paths() == {2: V2, 3: V3}
    assert table.rows.paths() == {1: V1, 2: V2}
    assert list(opened().branches.list()) == ["a/b"]
    # The name is free again, and rows left by a killed removal are removed by the next one.
    assert opened().create_branch("a").count_rows() == 2
    table.delete("_refs/branches/a.json")
    for key in table.manifests() + [key for key in table.server.keys(table.plain_uri) if key.startswith("tree/a/_")]:
        if key.startswith("tree/"):
            table.delete(key)
    with pytest.raises(lance_core.RefAlreadyExistsError):
        opened().create_branch("a")
    opened().branches.delete("a")
    assert opened().create_branch("a").count_rows() == 2
    with pytest.raises(lance_core.RefNotFoundError):
        opened().branches.delete("c")


def test_the_name_of_a_branch_deleted_by_pylance_is_free_after_a_second_delete_by_lance_core(dynamo: Table) -> None:
    lance.dataset(dynamo.uri, storage_options=dynamo.options).create_branch("b")
    lance.dataset(dynamo.uri, storage_options=dynamo.options).branches.delete("b")
    assert _branch_rows(dynamo, "b").paths() == {2: V2}
    ours = lance_core.dataset(dynamo.uri, storage_options=dynamo.options)
    ours.branches.delete("b")
    assert ours.create_branch("b").count_rows() == 2
    assert lance.dataset(dynamo.uri, storage_options=dynamo.options).checkout_version(("b", None)).count_rows() == 2


@pytest.mark.sampled(1)
def test_detached_versions_have_no_row_in_the_manifest_store(table: Table) -> None:
    dataset = lance_core.dataset(table.uri, storage_options=table.options)
    fragments = lance_core.write_fragments(pa.table({"a": pa.array([9], pa.int64())}), dataset)
    append = lance_core.LanceOperation.Append(fragments)
    made = lance_core.LanceDataset.commit(dataset, append, read_version=2, detached=True)
    assert sorted(made.to_table()["a"].to_pylist()) == [1, 2, 9]
    assert table.rows.paths() == {1: V1, 2: V2}
    for library in LIBRARIES if not isinstance(table.rows, SqlRows) else ["lance_core"]:
        assert table.values(library) == [1, 2]
        assert table.values(library, made.version) == [1, 2, 9]
    assert table.append(3) == 3


@pytest.mark.parametrize(
    "query", ["", "?", "?ddbTableName=", "?ddbTableName=t&more=1", "?tableName=t"], ids=lambda query: query or "none"
)
def test_the_uri_query_must_name_exactly_one_dynamodb_table(server: S3Server, query: str) -> None:
    options = server.options(dynamodb_endpoint=server.endpoint)
    for library in (lance_core, lance):
        with pytest.raises((OSError, ValueError) if library is lance else lance_core.InvalidInputError):
            library.dataset(server.uri("t.lance", "s3+ddb") + query, storage_options=options)


def test_an_unsuitable_manifest_store_table_is_refused(server: S3Server) -> None:
    client, name = server.client("dynamodb"), "other-" + uuid.uuid4().hex
    client.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    options = server.options(dynamodb_endpoint=server.endpoint)
    with pytest.raises(lance_core.InvalidInputError, match="keys"):
        lance_core.dataset(server.uri("t.lance", "s3+ddb") + f"?ddbTableName={name}", storage_options=options)
    with pytest.raises(lance_core.StorageError, match="DynamoDB table nowhere"):
        lance_core.dataset(server.uri("t.lance", "s3+ddb") + "?ddbTableName=nowhere", storage_options=options)
