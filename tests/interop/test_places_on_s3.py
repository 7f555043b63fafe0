"""Branches, clones, and base paths on S3, in memory, and across stores."""

import pickle
import re
import shutil
from pathlib import Path
from types import ModuleType

import lance
import pytest

import lance_core
from lance_core.errors import (
    AlreadyExistsError,
    CorruptDataError,
    DatasetNotFoundError,
    InvalidTypeError,
    NotSupportedError,
    RefNotFoundError,
    StorageError,
    VersionNotFoundError,
)
from tests.support.numbered_rows import numbered_rows
from tests.support.s3_servers import S3Server

EACH = (lance, lance_core)
CHAINS = pytest.mark.parametrize(("maker", "other"), [(lance, lance_core), (lance_core, lance)], ids=["theirs", "ours"])


@CHAINS
@pytest.mark.sampled(1)
def test_branches_and_clones_on_s3_are_shared_with_pylance(
    server: S3Server, maker: ModuleType, other: ModuleType
) -> None:
    uri, options = server.uri(), server.options()
    maker.write_dataset(numbered_rows(0, 5), uri, storage_options=options)
    dataset = maker.dataset(uri, storage_options=options)
    dataset.create_branch("team/a")
    branch = f"{uri}/tree/team/a"
    other.write_dataset(numbered_rows(5, 8), branch, mode="append", storage_options=options)
    other.dataset(branch, storage_options=options).delete("x = 1")
    clone = server.uri()
    dataset.shallow_clone(clone, ("team/a", None))
    deep = server.uri()
    # The reference cannot do this on S3: "contained empty path segment".
    lance_core.dataset(uri, storage_options=options).deep_clone(deep, ("team/a", None))
    other.dataset(uri, storage_options=options).tags.create("t", ("team/a", 2))
    assert [base.path for base in lance_core.dataset(branch, storage_options=options).manifest.base_paths] == [uri]
    for reader in EACH:
        for place in (branch, clone, deep):
            assert sorted(reader.dataset(place, storage_options=options).to_table()["x"].to_pylist()) == [
                0,
                *range(2, 8),
            ]
        assert list(reader.dataset(uri, storage_options=options).branches.list()) == ["team/a"]
        assert reader.dataset(uri, "t", storage_options=options).count_rows() == 8
    lance_core.dataset(uri, storage_options=options).tags.delete("t")
    lance_core.dataset(uri, storage_options=options).branches.delete("team/a")
    assert not [key for key in server.keys(uri) if key.startswith(("tree/", "_refs/"))]


@CHAINS
@pytest.mark.sampled(1)
def test_base_paths_on_s3_are_shared_with_pylance(
    server: S3Server, tmp_path: Path, maker: ModuleType, other: ModuleType
) -> None:
    uri, hot, cold, options = server.uri(), server.uri(), str(tmp_path / "cold"), server.options()
    bases = [maker.DatasetBasePath(hot, "hot"), maker.DatasetBasePath(cold, "cold", is_dataset_root=True)]
    maker.write_dataset(numbered_rows(0, 2), uri, storage_options=options, initial_bases=bases, target_bases=["hot"])
    other.write_dataset(
        numbered_rows(2, 8),
        uri,
        mode="append",
        storage_options=options,
        target_bases=["cold", "hot"],
        max_rows_per_file=2,
    )
    assert len(server.keys(hot)) == 2
    assert len(list((tmp_path / "cold/data").iterdir())) == 2
    for reader in EACH:
        dataset = reader.dataset(uri, storage_options=options)
        dataset.validate()
        assert sorted(dataset.to_table()["x"].to_pylist()) == list(range(8))


def test_a_clone_from_s3_to_local_disk_has_every_row(server: S3Server, tmp_path: Path) -> None:
    uri, options = server.uri(), server.options()
    lance_core.write_dataset(numbered_rows(0, 5), uri, storage_options=options)
    deep, shallow = str(tmp_path / "deep"), str(tmp_path / "shallow")
    lance_core.dataset(uri, storage_options=options).deep_clone(deep, 1)
    lance_core.dataset(uri, storage_options=options).shallow_clone(shallow, 1)
    for reader in EACH:
        assert reader.dataset(deep).count_rows() == 5
        assert reader.dataset(shallow, storage_options=options).to_table().num_rows == 5


def test_branches_and_clones_in_memory_keep_their_rows() -> None:
    uri = "memory://places/t"
    lance_core.write_dataset(numbered_rows(0, 5), uri)
    branch = lance_core.dataset(uri).create_branch("a/b")
    assert branch.uri == f"{uri}/tree/a/b"
    lance_core.write_dataset(numbered_rows(5, 6), branch, mode="append")
    lance_core.dataset(uri).shallow_clone("memory://elsewhere/c", ("a/b", None))
    assert lance_core.dataset("memory://elsewhere/c").to_table().num_rows == 6
    assert {base.path for base in lance_core.dataset("memory://elsewhere/c").manifest.base_paths} == {uri, branch.uri}
    lance_core.dataset(uri).deep_clone("memory://elsewhere/d", ("a/b", None))
    lance_core.dataset(uri).branches.delete("a/b")
    assert lance_core.dataset("memory://elsewhere/d").to_table().num_rows == 6


def test_a_branch_with_an_external_manifest_store_is_appended_to_and_deleted(tmp_path: Path) -> None:
    options = {"sql_url": f"sqlite:///{tmp_path / 'versions.db'}"}
    uri = f"file+sql://{tmp_path / 'table'}?sqlTableName=t"
    lance_core.write_dataset(numbered_rows(0, 5), uri, storage_options=options)
    branch = lance_core.dataset(uri, storage_options=options).create_branch("b")
    assert branch.uri == f"file+sql://{tmp_path / 'table'}/tree/b?sqlTableName=t"
    lance_core.write_dataset(numbered_rows(5, 6), branch, mode="append")
    assert lance_core.dataset(uri, storage_options=options).checkout_version(("b", None)).count_rows() == 6
    assert lance.dataset(str(tmp_path / "table")).checkout_version(("b", None)).count_rows() == 6
    with pytest.raises(NotSupportedError, match="external manifest store"):
        branch.migrate_manifest_paths_v2()
    branch.branches.delete("b")
    assert branch.branches.list() == {}


@CHAINS
@pytest.mark.sampled(1)
def test_a_base_path_has_its_own_storage_options(
    server: S3Server, tmp_path: Path, maker: ModuleType, other: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is on disk, and a base path in a bucket can be reached only with the base path's options."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    uri, cold, options = str(tmp_path / "t"), server.uri(), server.options()
    bases = [maker.DatasetBasePath(cold, "cold")]
    own = {cold: options}
    maker.write_dataset(numbered_rows(0, 4), uri, initial_bases=bases, target_bases=["cold"], base_store_params=own)
    by_id = {f"base_1.{name}": value for name, value in options.items()}
    appended = other.write_dataset(
        numbered_rows(4, 6), uri, mode="append", target_bases=["cold"], base_store_params=own
    )
    # The handle keeps the options.
    other.write_dataset(numbered_rows(6, 8), appended, mode="append", target_bases=["cold"])
    maker.write_dataset(numbered_rows(8, 9), uri, mode="append", storage_options=by_id)
    assert len(server.keys(cold)) == 3
    for reader in EACH:
        for arguments in ({"base_store_params": own}, {"storage_options": by_id}):
            assert sorted(reader.dataset(uri, **arguments).to_table()["x"].to_pylist()) == list(range(9))
    other.dataset(uri, base_store_params=own).delete("x = 2")
    ours = pickle.loads(pickle.dumps(lance_core.dataset(uri, base_store_params=own)))
    assert ours.to_table().num_rows == 8
    assert options["aws_secret_access_key"] not in repr(ours.storage_options) + repr(ours)
    wrong = {cold: {**options, "aws_endpoint": "http://127.0.0.1:9", "client_max_retries": "0", "allow_http": "true"}}
    with pytest.raises(StorageError):
        lance_core.dataset(uri, base_store_params=wrong, storage_options=by_id).to_table()
    with pytest.raises(InvalidTypeError, match="base_store_params"):
        lance_core.dataset(uri, base_store_params=["x"])


@CHAINS
@pytest.mark.sampled(1)
def test_dataset_copied_to_another_location_can_be_read_and_appended_to(
    server: S3Server, tmp_path: Path, maker: ModuleType, other: ModuleType
) -> None:
    """Versions, tags, indices, and branches are copied from a bucket to disk, and from disk to disk."""
    uri, options = server.uri(), server.options()
    maker.write_dataset(numbered_rows(0, 20), uri, storage_options=options, max_rows_per_file=8)
    lance.dataset(uri, storage_options=options).create_scalar_index("x", "BTREE")
    other.dataset(uri, storage_options=options).delete("x = 3")
    maker.write_dataset(numbered_rows(20, 25), uri, storage_options=options, mode="append")
    maker.dataset(uri, storage_options=options).tags.create("before", 2)
    key = uri.removeprefix(f"s3://{server.bucket}/")
    for path in server.keys(uri):
        target = tmp_path / "first" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        body = server.client().get_object(Bucket=server.bucket, Key=f"{key}/{path}")["Body"]
        target.write_bytes(body.read())
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    maker.dataset(first).create_branch("b")
    other.write_dataset(numbered_rows(25, 27), f"{first}/tree/b", mode="append")
    shutil.copytree(first, second)
    for root in (first, second):
        for reader in EACH:
            dataset = reader.dataset(root)
            dataset.validate()
            assert sorted(dataset.to_table()["x"].to_pylist()) == [0, 1, 2, *range(4, 25)]
            assert dataset.to_table(filter="x = 7").num_rows == 1
            assert reader.dataset(root, "before").count_rows() == 20
            assert [each["version"] for each in dataset.versions()] == [1, 2, 3, 4]
            assert list(dataset.branches.list()) == ["b"]
            assert reader.dataset(f"{root}/tree/b").count_rows() == 26
        other.write_dataset(numbered_rows(30, 31), root, mode="append")
        assert lance.dataset(root).count_rows() == lance_core.dataset(root).count_rows() == 25
    assert lance_core.dataset(uri, storage_options=options).count_rows() == 24


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_errors_name_the_uri_of_a_dataset_on_s3_with_its_scheme(server: S3Server, scheme: str) -> None:
    uri, none, options = server.uri(scheme=scheme), server.uri("none.lance", scheme), server.options()
    dataset = lance_core.write_dataset(numbered_rows(0, 2), uri, storage_options=options)
    with pytest.raises(DatasetNotFoundError, match=rf"^no dataset exists at {none}$"):
        lance_core.dataset(none, storage_options=options)
    with pytest.raises(DatasetNotFoundError, match=rf"^dataset '{none}' does not exist"):
        lance_core.LanceDataset.drop(none, storage_options=options)
    with pytest.raises(VersionNotFoundError, match=rf"^{uri} has no version 9$"):
        dataset.checkout_version(9)
    with pytest.raises(RefNotFoundError, match=rf"^no branch exists at {uri}/tree/b$"):
        dataset.checkout_version(("b", None))
    with pytest.raises(AlreadyExistsError, match=rf"^a dataset already exists at {uri} \("):
        lance_core.write_dataset(numbered_rows(0, 2), uri, storage_options=options)
    (manifest,) = (key for key in server.keys(uri) if key.endswith(".manifest"))
    path = f"{uri.partition('://')[2].partition('/')[2]}/{manifest}"
    server.client().put_object(Bucket=server.bucket, Key=path, Body=b"short")
    with pytest.raises(CorruptDataError, match=rf"^manifest {uri}/{manifest}: "):
        lance_core.dataset(uri, storage_options=options)


def test_errors_name_the_uri_of_a_damaged_file_on_s3_with_its_scheme(server: S3Server) -> None:
    uri, options = server.uri(), server.options()
    dataset = lance_core.write_dataset(numbered_rows(0, 2), uri, storage_options=options)
    deleted = lance_core.dataset(uri, storage_options=options)
    deleted.delete("x = 0")
    for key in server.keys(uri):
        if key.startswith(("data/", "_deletions/")):
            path = f"{uri.partition('://')[2].partition('/')[2]}/{key}"
            size = server.client().head_object(Bucket=server.bucket, Key=path)["ContentLength"]
            server.client().put_object(Bucket=server.bucket, Key=path, Body=bytes(size))
    with pytest.raises(CorruptDataError, match=rf"^{uri}/data/"):
        lance_core.dataset(uri, dataset.version, storage_options=options).to_table()
    with pytest.raises(CorruptDataError, match=rf"{uri}/_deletions/"):
        lance_core.dataset(uri, storage_options=options).to_table()


def test_errors_report_that_the_bucket_of_a_dataset_does_not_exist(server: S3Server) -> None:
    uri, options = "s3://lance-no-such-bucket/t.lance", server.options()
    message = (
        r"^cannot (list|read) s3://lance-no-such-bucket/t\.lance/_versions.*: bucket 'lance-no-such-bucket' does not"
    )
    with pytest.raises(StorageError, match=message):
        lance_core.dataset(uri, storage_options=options)
    with pytest.raises(StorageError, match=message):
        lance_core.dataset(uri, 3, storage_options=options)
    with pytest.raises(StorageError, match=message):
        lance_core.write_dataset(numbered_rows(0, 2), uri, storage_options=options)
    with pytest.raises(StorageError, match=f"^cannot read {uri}: bucket 'lance-no-such-bucket' does not"):
        lance_core.LanceFileReader(uri, storage_options=options)


def test_missing_dataset_error_contains_the_uri_as_given(tmp_path: Path) -> None:
    for uri in ("memory://messages/none.lance", f"file://{tmp_path}/none.lance", f"{tmp_path}/none.lance"):
        with pytest.raises(DatasetNotFoundError, match=rf"^no dataset exists at {uri}$"):
            lance_core.dataset(uri)


def test_errors_of_an_external_manifest_store_leave_out_its_settings(tmp_path: Path) -> None:
    uri = f"file+sql://{tmp_path}/none.lance"
    options = {"sql_url": f"sqlite:///{tmp_path / 'versions.db'}"}
    with pytest.raises(DatasetNotFoundError, match=rf"^no dataset exists at {re.escape(uri)}$"):
        lance_core.dataset(f"{uri}?sqlTableName=t", storage_options=options)
