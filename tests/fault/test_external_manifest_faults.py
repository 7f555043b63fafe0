"""Every request that an operation sends to S3 and DynamoDB fails once, with DynamoDB as the external manifest store."""

from collections.abc import Iterator

import pytest

from tests.support.fault_proxy import Fault, Request, fault_proxy
from tests.support.s3_bench import OPERATIONS, Bench
from tests.support.s3_servers import create_manifest_table, moto_server

QUICK = Fault.RESET


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with moto_server() as server, fault_proxy(server.endpoint) as proxy:
        create_manifest_table(server, server.bucket)
        yield Bench(server, proxy, server.bucket)


@pytest.mark.slow
def test_an_append_with_one_failed_dynamodb_or_s3_request_is_committed_once(bench: Bench) -> None:
    bench.fail_each_request("append", QUICK)
    assert not any(request.conditional for request in bench.proxy.requests)


@pytest.mark.slow
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.value)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_with_every_kind_of_fault_is_committed_at_most_once(
    bench: Bench, operation: str, fault: Fault
) -> None:
    bench.fail_each_request(operation, fault, timeout="500ms")


@pytest.mark.slow
def test_a_reserved_manifest_row_whose_response_is_lost_is_recognized_by_its_writer(bench: Bench) -> None:
    """All responses of the database after the staging are lost until the version is read back."""
    lost: list[Request] = []

    def plan(request: Request) -> Fault | None:
        staged = any("manifest-" in each.path for each in bench.proxy.requests)
        if request.method == "POST" and staged and len(lost) < 2:
            lost.append(request)
            return Fault.RESET
        return None

    uri, raised = bench.run("append", plan, client_max_retries="1")
    assert raised is None
    assert len(lost) == 2
    assert bench.state(uri) == (2, [1, 2, 3, 4, 5])
