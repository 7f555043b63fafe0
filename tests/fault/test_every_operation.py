"""Every request that any operation sends to S3 or DynamoDB fails once, in every way.

A dry run shows the requests, and what the table shows before and after. Then, for each of them, the operation runs on
a fresh table behind a proxy that fails that request. A change that succeeded took effect once, one that failed did not,
and an outcome that cannot be known is reported as unknown. The next writer always succeeds, and no operation waits
longer than the timeouts allow.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

import lance_core
from lance_core.transactions.registry import EXECUTABLE
from tests.support.fault_proxy import Fault
from tests.support.store_bench import StoreBench, store_bench
from tests.support.store_operations import OPERATIONS, StoreOperation, beside

FAULTS = tuple(Fault)
EXTERNAL = [name for name, operation in OPERATIONS.items() if operation.on_external_stores]
OF_EACH_KIND = ["append", "delete", "detached", "tag create", "branch create", "shallow clone", "cleanup"]


@pytest.fixture(scope="module", autouse=True)
def overlays() -> Iterator[None]:
    """Enable overlays, which are written only on request."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LANCE_ENABLE_UNSTABLE_DATA_OVERLAY_FILES", "1")
        yield


@pytest.fixture(scope="module")
def bucket() -> Iterator[StoreBench]:
    with store_bench() as bench:
        yield bench


@pytest.fixture(scope="module")
def dynamodb() -> Iterator[StoreBench]:
    with store_bench(external=True) as bench:
        yield bench


def _committed_arm(operation: StoreOperation, uri: str) -> str | None:
    """Return the name in the format of the operation that a scenario commits, or None if it creates no version."""
    operation.prepare(uri, {})
    operation.act(uri, {})
    made = lance_core.dataset(beside(uri, "-clone") if operation.makes_clone else uri)
    transaction = made.read_transaction(made.version)
    return transaction and transaction.operation.arm


def test_every_executable_operation_has_a_fault_scenario(tmp_path: Path) -> None:
    arms = {_committed_arm(operation, str(tmp_path / name)) for name, operation in OPERATIONS.items()}
    assert set(EXECUTABLE) <= arms


@pytest.mark.slow
@pytest.mark.parametrize("operation", OF_EACH_KIND)
def test_an_operation_whose_last_response_is_lost_takes_effect_once(bucket: StoreBench, operation: str) -> None:
    """The response to the request that creates the version, or to the last request that changes anything, is lost."""
    _, _, requests = bucket.ends(operation)
    changing = [each for each in requests if each.method in ("PUT", "DELETE", "POST")]
    decisive = [each for each in changing if each.makes_version] or changing
    bucket.fail(operation, decisive[-1].index, Fault.RESET)


@pytest.mark.slow
@pytest.mark.parametrize("operation", OF_EACH_KIND)
def test_an_operation_with_any_one_failed_request_takes_effect_at_most_once(bucket: StoreBench, operation: str) -> None:
    """Each request fails with the next kind of fault."""
    offset = list(OPERATIONS).index(operation)
    for request in bucket.ends(operation)[2]:
        bucket.fail(operation, request.index, FAULTS[(request.index + offset) % len(FAULTS)])


@pytest.mark.soak
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.value)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_with_every_kind_of_failed_request_takes_effect_at_most_once(
    bucket: StoreBench, operation: str, fault: Fault
) -> None:
    for request in bucket.ends(operation)[2]:
        bucket.fail(operation, request.index, fault)


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["append", "delete", "branch create"])
def test_an_operation_with_a_failed_dynamodb_request_takes_effect_at_most_once(
    dynamodb: StoreBench, operation: str
) -> None:
    for request in dynamodb.ends(operation)[2]:
        dynamodb.fail(operation, request.index, FAULTS[request.index % len(FAULTS)])


@pytest.mark.soak
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.value)
@pytest.mark.parametrize("operation", EXTERNAL)
def test_an_operation_with_every_kind_of_dynamodb_failure_takes_effect_at_most_once(
    dynamodb: StoreBench, operation: str, fault: Fault
) -> None:
    for request in dynamodb.ends(operation)[2]:
        dynamodb.fail(operation, request.index, fault)
