"""Every request that an operation sends to S3 fails once, in each way in which a network or a server can fail.

A proxy stands between the client and the server. A dry run counts the requests; then, for each of them, the operation
runs on a fresh table whose proxy fails that request. Each success creates exactly one version, each failure creates
none, and an outcome that the library cannot know is reported as unknown.
"""

from collections.abc import Iterator

import pytest

import lance_core
from lance_core import LanceOperation
from lance_core.errors import AccessDeniedError, CommitOutcomeUnknownError, StorageError
from lance_core.io import condition_probe
from tests.support.fault_proxy import Fault, Plan, Request, fault_proxy
from tests.support.s3_bench import NEW, OLD, OPERATIONS, Bench
from tests.support.s3_servers import moto_server

QUICK = Fault.RESET


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with moto_server() as server, fault_proxy(server.endpoint) as proxy:
        # The probe for conditional writes is not part of an operation.
        lance_core.write_dataset(OLD, server.uri(), storage_options=server.options(aws_endpoint=proxy.endpoint))
        yield Bench(server, proxy)


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_with_one_failed_s3_request_takes_effect_at_most_once(bench: Bench, operation: str) -> None:
    bench.fail_each_request(operation, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not QUICK], ids=lambda fault: fault.value)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_with_every_kind_of_s3_fault_takes_effect_at_most_once(
    bench: Bench, operation: str, fault: Fault
) -> None:
    bench.fail_each_request(operation, fault, timeout="500ms")


def _at_commit(fault: Fault) -> Plan:
    """Fail every request that creates a version."""
    return lambda request: fault if request.makes_version else None


def _commits(bench: Bench) -> list[Request]:
    return [request for request in bench.proxy.requests if request.makes_version]


def _append_once(bench: Bench, uri: str, max_retries: int, **options: str) -> object:
    given = bench.options(**options)
    dataset = lance_core.dataset(uri, storage_options=given)
    fragments = lance_core.write_fragments(NEW, dataset)
    return lance_core.LanceDataset.commit(
        dataset, LanceOperation.Append(fragments), read_version=dataset.version, max_retries=max_retries
    )


def test_a_commit_whose_response_is_lost_creates_one_version(bench: Bench) -> None:
    for fault in (Fault.AFTER, Fault.RESET):
        uri, raised = bench.run("append", _at_commit(fault))
        assert raised is None
        assert len(_commits(bench)) == 1
        assert bench.state(uri) == (2, [1, 2, 3, 4, 5])


def test_a_reported_conflict_is_retried_if_the_version_does_not_exist(bench: Bench) -> None:
    for fault in (Fault.CONFLICT, Fault.PRECONDITION):
        seen: list[Request] = []

        def first(request: Request, fault: Fault = fault, seen: list[Request] = seen) -> Fault | None:
            if not request.makes_version or seen:
                return None
            seen.append(request)
            return fault

        uri, raised = bench.run("append", first)
        assert raised is None
        assert len(_commits(bench)) == 2
        assert bench.state(uri) == (2, [1, 2, 3, 4, 5])


def test_a_commit_with_an_unknown_outcome_removes_no_file(bench: Bench) -> None:
    def lost(request: Request) -> Fault | None:
        if request.makes_version:
            return Fault.RESET
        committed = any(each.makes_version for each in bench.proxy.requests)
        return Fault.REFUSED if committed and request.method in ("GET", "HEAD") else None

    uri = bench.table()
    bench.proxy.reset(lost)
    with pytest.raises(CommitOutcomeUnknownError):
        _append_once(bench, uri, 0, client_max_retries="0")
    bench.proxy.settle()
    assert "DELETE" not in bench.proxy.methods()
    assert bench.state(uri) == (2, [1, 2, 3, 4, 5])
    assert len([key for key in bench.server.keys(uri) if key.startswith("_transactions/1-")]) == 1


def test_a_commit_request_still_in_flight_raises_outcome_unknown(bench: Bench) -> None:
    uri = bench.table()
    bench.proxy.reset(_at_commit(Fault.SLOW))
    with pytest.raises(CommitOutcomeUnknownError):
        _append_once(bench, uri, 0, timeout="300ms")
    assert bench.state(uri) == (1, [1, 2, 3])
    bench.proxy.settle()
    # The request finally arrives.
    assert bench.state(uri) == (2, [1, 2, 3, 4, 5])


def test_a_slow_commit_request_and_its_retry_create_one_version(bench: Bench) -> None:
    seen: list[Request] = []

    def first(request: Request) -> Fault | None:
        if not request.makes_version or seen:
            return None
        seen.append(request)
        return Fault.SLOW

    uri, raised = bench.run("append", first, timeout="300ms")
    assert raised is None
    assert bench.state(uri) == (2, [1, 2, 3, 4, 5])


def test_a_refused_commit_creates_no_version_and_leaves_no_files(bench: Bench) -> None:
    uri = bench.table()
    bench.proxy.reset(_at_commit(Fault.PRECONDITION))
    with pytest.raises(lance_core.TooMuchWriteContentionError):
        _append_once(bench, uri, 1)
    assert bench.state(uri) == (1, [1, 2, 3])
    assert [key for key in bench.server.keys(uri) if key.startswith("_transactions/1-")] == []


def test_a_denied_request_raises_access_denied_and_is_not_retried(bench: Bench) -> None:
    uri = bench.table()
    bench.proxy.reset(lambda request: Fault.DENIED)
    with pytest.raises(AccessDeniedError, match="403 AccessDenied") as raised:
        lance_core.dataset(uri, storage_options=bench.options(client_max_retries="5"))
    assert isinstance(raised.value, PermissionError)
    assert len(bench.proxy.requests) == 1
    bench.proxy.reset(_at_commit(Fault.DENIED))
    with pytest.raises(AccessDeniedError):
        _append_once(bench, uri, 5)
    assert len(_commits(bench)) == 1
    assert bench.state(uri) == (1, [1, 2, 3])
    assert [key for key in bench.server.keys(uri) if key.startswith("_transactions/1-")] == []


def test_a_throttled_request_is_retried(bench: Bench) -> None:
    uri = bench.table()
    bench.proxy.reset(lambda request: Fault.THROTTLED if request.index < 2 else None)
    assert lance_core.dataset(uri, storage_options=bench.options(client_max_retries="2")).version == 1
    bench.proxy.reset(lambda request: Fault.THROTTLED)
    with pytest.raises(StorageError, match="SlowDown") as raised:
        lance_core.dataset(uri, storage_options=bench.options(client_max_retries="1"))
    assert raised.value.retryable
    assert len(bench.proxy.requests) == 2


@pytest.mark.slow
def test_the_commit_is_sent_as_one_request_and_never_as_a_multipart_upload(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lance_core.io.s3_upload.PART_BYTES", 2000)
    for fault in (Fault.BEFORE, Fault.RESET, Fault.TORN):
        uri = bench.table()
        # A manifest larger than a part, and data smaller than a part.
        lance_core.dataset(uri, storage_options=bench.direct_options()).update_config({"key": "x" * 4000})
        bench.proxy.reset(_at_commit(fault))
        try:
            _append_once(bench, uri, 0, client_max_retries="5")
        except (StorageError, CommitOutcomeUnknownError):
            assert bench.state(uri)[0] == 2
        assert len(_commits(bench)) == 1


def test_a_failed_multipart_upload_is_aborted(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lance_core.io.s3_upload.PART_BYTES", 64)
    uri = bench.server.uri()
    parts: list[Request] = []

    def third_part(request: Request) -> Fault | None:
        if request.method == "PUT" and "/data/" in request.path:
            parts.append(request)
        return Fault.BEFORE if len(parts) >= 3 and request is parts[-1] else None

    bench.proxy.reset(third_part)
    with pytest.raises(StorageError):
        lance_core.write_dataset(NEW, uri, storage_options=bench.options())
    bench.proxy.settle()
    client = bench.server.client()
    assert "Uploads" not in client.list_multipart_uploads(Bucket=bench.server.bucket)
    assert bench.server.keys(uri) == []


@pytest.mark.slow
def test_a_store_that_ignores_conditional_writes_is_refused(bench: Bench) -> None:
    with fault_proxy(bench.server.endpoint) as careless:
        careless.drops_conditions = True
        uri = bench.table()
        options = bench.server.options(aws_endpoint=careless.endpoint)
        for _ in range(2):
            with pytest.raises(lance_core.UnsafeStoreError, match="If-None-Match"):
                lance_core.write_dataset(NEW, uri, mode="append", storage_options=options)
        assert len(condition_probe._found) >= 2
        probes = [request for request in careless.requests if request.conditional]
        assert len(probes) == 1
        assert bench.state(uri) == (1, [1, 2, 3])
        assert [key for key in bench.server.keys(uri) if "#" in key] == []
