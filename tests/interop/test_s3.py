"""Datasets on S3, written and read by both implementations, and the number of requests of each operation."""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.places.location import open_log
from lance_core.proto import pb_table
from lance_core.table.manifest_file import serialize_manifest_file
from lance_core.table.paths import ManifestName, ManifestNaming
from tests.support.fault_proxy import FaultProxy, fault_proxy
from tests.support.processes import ROOT
from tests.support.s3_servers import S3Server, ceph_server, moto_server

ROWS = pa.table({"a": pa.array(range(100), pa.int64()), "s": [f"text {number}" for number in range(100)]})
CHAINS = [("lance_core", "lance"), ("lance", "lance_core")]
LIBRARIES = {"lance": lance, "lance_core": lance_core}


@pytest.fixture(scope="module", params=["moto", pytest.param("ceph", marks=pytest.mark.slow)])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with moto_server() if request.param == "moto" else ceph_server(tmp_path_factory.mktemp("ceph")) as running:
        yield running


@pytest.fixture(scope="module")
def proxy(server: S3Server) -> Iterator[FaultProxy]:
    with fault_proxy(server.endpoint) as running:
        yield running


@pytest.mark.parametrize(("first", "second"), CHAINS)
@pytest.mark.sampled(1)
def test_lance_core_and_pylance_change_each_others_tables_on_s3(server: S3Server, first: str, second: str) -> None:
    uri, options = server.uri(), server.options()
    one, two = LIBRARIES[first], LIBRARIES[second]
    one.write_dataset(ROWS, uri, storage_options=options)
    two.write_dataset(ROWS.slice(0, 10), uri, mode="append", storage_options=options)
    one.dataset(uri, storage_options=options).delete("a < 5")
    two.dataset(uri, storage_options=options).tags.create("here", 3)
    two.write_dataset(ROWS.slice(50), uri, mode="append", storage_options=options)
    for library in (one, two):
        dataset = library.dataset(uri, storage_options=options)
        assert (dataset.version, dataset.count_rows()) == (4, 150)
        assert [each["version"] for each in dataset.versions()] == [1, 2, 3, 4]
        assert library.dataset(uri, "here", storage_options=options).to_table().num_rows == 100
        dataset.validate()
    ours, theirs = (each.dataset(uri, storage_options=options).to_table() for each in (lance_core, lance))
    assert ours == theirs


def test_maintenance_on_s3_keeps_every_row_for_lance_core_and_pylance(server: S3Server) -> None:
    uri, options = server.uri(), server.options()
    for start in range(0, 100, 20):
        lance_core.write_dataset(ROWS.slice(start, 20), uri, mode="append", storage_options=options)
    dataset = lance_core.dataset(uri, storage_options=options)
    dataset.optimize.compact_files()
    lance.dataset(uri, storage_options=options).delete("a = 7")
    from datetime import timedelta

    stats = lance_core.dataset(uri, storage_options=options).cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert stats.old_versions >= 5
    for library in (lance_core, lance):
        assert library.dataset(uri, storage_options=options).to_table().sort_by("a")["a"].to_pylist() == [
            number for number in range(100) if number != 7
        ]


def test_dataset_names_on_s3_refer_to_the_same_objects_in_both_libraries(server: S3Server) -> None:
    for name in ("a b.lance", "ü.lance", "deep/er.lance"):
        lance.write_dataset(ROWS, server.uri(name), storage_options=server.options())
        assert lance_core.dataset(server.uri(name), storage_options=server.options()).count_rows() == 100
    assert lance_core.dataset(server.uri("a%20b.lance"), storage_options=server.options()).count_rows() == 100
    # The reference takes both for another table, "a b.lance".
    for name in ("x?y.lance", "x#y.lance", "x//y.lance"):
        with pytest.raises(lance_core.InvalidInputError):
            lance_core.dataset(server.uri(name), storage_options=server.options())


def test_many_scattered_rows_of_a_large_table_on_s3_are_read(server: S3Server) -> None:
    uri, options = server.uri(), server.options()
    rows = pa.table({"a": pa.array(range(400_000), pa.int64()), "b": pa.array([b"x" * 30] * 400_000)})
    lance_core.write_dataset(rows, uri, storage_options=options, max_rows_per_file=150_000)
    wanted = list(range(0, 400_000, 3_989))
    for library in (lance_core, lance):
        dataset = library.dataset(uri, storage_options=options)
        assert dataset.take(wanted, columns=["a"])["a"].to_pylist() == wanted
    assert lance_core.dataset(uri, storage_options=options).to_table() == rows


def test_opening_a_dataset_on_s3_takes_two_requests(server: S3Server, proxy: FaultProxy) -> None:
    uri = server.uri()
    for _ in range(5):
        lance_core.write_dataset(ROWS, uri, mode="append", storage_options=server.options())
    options = server.options(aws_endpoint=proxy.endpoint)
    proxy.reset()
    dataset = lance_core.dataset(uri, storage_options=options)
    assert dataset.version == 5
    assert proxy.methods() == ["GET", "GET"]
    proxy.reset()
    assert dataset.latest_version == 5
    assert len(dataset.version_refs()) == 5
    assert proxy.methods() == ["GET", "GET"]
    proxy.reset()
    lance_core.dataset(uri, 3, storage_options=options)
    assert proxy.methods() == ["GET"]


@pytest.fixture
def varied(server: S3Server) -> str:
    """A table with versions, tags, branches, and an index."""
    uri, options = server.uri(), server.options()
    for _ in range(3):
        lance_core.write_dataset(ROWS, uri, mode="append", storage_options=options)
    lance.dataset(uri, storage_options=options).create_scalar_index("a", "BTREE")
    dataset = lance_core.dataset(uri, storage_options=options)
    dataset.tags.create("here", 2)
    dataset.create_branch("b/c")
    dataset.tags.create("there", ("b/c", 4))
    return uri


@pytest.mark.parametrize(
    ("below", "version", "requests"),
    [
        ("", None, 2),
        ("", 2, 1),
        ("", "here", 2),
        ("", "there", 2),
        ("/tree/b/c", None, 2),
        ("/tree/b/c", 4, 1),
        # That this is a branch is known only after the tag was not found below it.
        ("/tree/b/c", "there", 5),
    ],
)
@pytest.mark.sampled(2)
def test_opening_a_version_by_each_kind_of_reference_takes_the_expected_number_of_requests(
    server: S3Server, proxy: FaultProxy, varied: str, below: str, version: int | str | None, requests: int
) -> None:
    proxy.reset()
    options = server.options(aws_endpoint=proxy.endpoint)
    dataset = lance_core.dataset(varied + below, version, storage_options=options)
    assert dataset.count_rows() in (200, 300)
    assert proxy.methods() == ["GET"] * requests
    if requests > 3:
        return
    proxy.reset()
    assert dataset.schema == ROWS.schema
    assert len(dataset.get_fragments()) == dataset.count_rows() // 100
    assert dataset.has_index == (version not in (2, "here"))
    assert proxy.methods() == []


def test_opening_a_branch_from_a_handle_of_the_main_branch_takes_two_requests(
    server: S3Server, proxy: FaultProxy, varied: str
) -> None:
    dataset = lance_core.dataset(varied, storage_options=server.options(aws_endpoint=proxy.endpoint))
    for version, requests in ((("b/c", None), 2), (("b/c", 4), 1), ("there", 2), (("main", 2), 1)):
        proxy.reset()
        dataset.checkout_version(version)
        assert proxy.methods() == ["GET"] * requests, version


def test_a_manifest_of_many_fragments_on_s3_is_read_with_one_request(server: S3Server, proxy: FaultProxy) -> None:
    uri, options = server.uri(), server.options()
    first = lance_core.write_dataset(ROWS, uri, storage_options=options)
    message = pb_table.Manifest()
    message.CopyFrom(first.manifest.message)
    message.version = 2
    for number in range(1, 10_000):
        added = message.fragments.add()
        added.CopyFrom(message.fragments[0])
        added.id = number
    message.max_fragment_id = 9_999
    data = serialize_manifest_file(message, index_section=None, transaction=first.manifest.transaction)
    assert len(data) > 800_000
    first.log.create(ManifestName(2, ManifestNaming.V2), data)
    proxy.reset()
    dataset = lance_core.dataset(uri, storage_options=server.options(aws_endpoint=proxy.endpoint))
    assert dataset.count_rows() == 1_000_000
    assert proxy.methods() == ["GET", "GET"]
    assert lance.dataset(uri, storage_options=options).count_rows() == 1_000_000


def test_an_append_on_s3_takes_seven_requests(server: S3Server, proxy: FaultProxy) -> None:
    uri = server.uri()
    options = server.options(aws_endpoint=proxy.endpoint)
    lance_core.write_dataset(ROWS, uri, storage_options=options)
    proxy.reset()
    lance_core.write_dataset(ROWS, uri, mode="append", storage_options=options)
    # LIST, manifest | data | LIST | transaction, version | LIST
    assert proxy.methods() == ["GET", "GET", "PUT", "GET", "PUT", "PUT", "GET"]
    assert [request.conditional for request in proxy.requests] == [False] * 5 + [True, False]


def test_no_version_hint_is_written_where_listings_are_ordered(server: S3Server) -> None:
    uri = server.uri()
    lance_core.write_dataset(ROWS, uri, storage_options=server.options())
    assert [key for key in server.keys(uri) if key.endswith(".json")] == []


def test_an_incorrect_version_hint_in_a_directory_bucket_does_not_mislead_readers(server: S3Server) -> None:
    uri, options = server.uri(), server.options(s3_express="true")
    hint = uri.rpartition("/")[2] + "/_versions/latest_version_hint.json"
    lance_core.write_dataset(ROWS, uri, storage_options=options)
    client = server.client()
    assert client.get_object(Bucket=server.bucket, Key=hint)["Body"].read() == b'{"version":1}'
    for version, content in enumerate([b"", b"garbage", b'{"version":999}', b'{"version":1,"more":2}'], start=2):
        client.put_object(Bucket=server.bucket, Key=hint, Body=content)
        assert lance_core.dataset(uri, storage_options=options).version == version - 1
        assert lance_core.write_dataset(ROWS, uri, mode="append", storage_options=options).version == version
        assert client.get_object(Bucket=server.bucket, Key=hint)["Body"].read() == b'{"version":%d}' % version


@pytest.mark.slow
def test_a_writer_that_dies_during_an_upload_changes_nothing(server: S3Server) -> None:
    """Row 1s of the crash table: only a lifecycle rule of the bucket removes such an upload."""
    uri, options = server.uri(), server.options()
    lance_core.write_dataset(ROWS, uri, storage_options=options)
    program = f"""
import os, pyarrow as pa, lance_core
from lance_core.io import s3_upload
s3_upload.PART_BYTES = 1024
s3_upload.S3WriteStream._complete = lambda stream: os._exit(9)
rows = pa.table({{"a": pa.array(range(5000), pa.int64())}})
lance_core.write_fragments(rows, {uri!r}, storage_options={options!r})
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 9, done.stderr
    client = server.client()
    [upload] = client.list_multipart_uploads(Bucket=server.bucket)["Uploads"]
    assert len([key for key in server.keys(uri) if key.startswith("data/")]) == 1
    for version, library in enumerate(LIBRARIES.values(), start=2):
        assert library.write_dataset(ROWS, uri, mode="append", storage_options=options).version == version
    client.abort_multipart_upload(Bucket=server.bucket, Key=upload["Key"], UploadId=upload["UploadId"])


def _count_rows(uri: str, options: dict[str, str]) -> int:
    return lance_core.dataset(uri, storage_options=options).count_rows()


@pytest.mark.filterwarnings("ignore:lance is not fork-safe")
def test_forked_processes_have_their_own_connections(server: S3Server) -> None:
    uri, options = server.uri(), server.options()
    dataset = lance_core.write_dataset(ROWS, uri, storage_options=options)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.starmap(_count_rows, [(uri, options)] * 4) == [100] * 4
    child = os.fork()
    if child == 0:
        # The handle itself was created before the fork.
        os._exit(0 if dataset.to_table().num_rows == 100 and dataset.latest_version == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert dataset.to_table() == ROWS


def test_spawned_processes_can_use_a_pickled_handle(server: S3Server) -> None:
    import pickle

    dataset = lance_core.write_dataset(ROWS, server.uri(), storage_options=server.options())
    assert pickle.loads(pickle.dumps(dataset)).to_table() == ROWS


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_credentials_from_the_environment_are_used(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testtest")
    monkeypatch.setenv("AWS_ENDPOINT", server.endpoint)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    uri = server.uri(scheme=scheme)
    lance_core.write_dataset(ROWS, uri)
    assert lance_core.dataset(uri).to_table() == ROWS
    assert lance.dataset(uri.replace("s3a:", "s3:")).to_table() == ROWS


def test_a_clone_on_s3_reads_the_data_of_its_source(server: S3Server) -> None:
    """The data of a clone remains in its source."""
    uri, clone, options = server.uri(), server.uri(), server.options()
    source = lance.write_dataset(ROWS, uri, storage_options=options)
    source.shallow_clone(clone, 1, storage_options=options)
    assert lance_core.dataset(clone, storage_options=options).to_table() == ROWS
    assert open_log(clone, options).latest() is not None
