"""Bench: operations on tables behind a proxy that fails their requests, and what must be true afterwards."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

import lance_core
from lance_core.errors import CommitOutcomeUnknownError, DatasetNotFoundError, LanceError
from tests.support.fault_proxy import Fault, FaultProxy, Plan, fault_at, no_plan
from tests.support.s3_servers import S3Server

OLD = pa.table({"a": pa.array([1, 2, 3], pa.int64())})
NEW = pa.table({"a": pa.array([4, 5], pa.int64())})


def _delete(uri: str, options: dict[str, str]) -> object:
    return lance_core.dataset(uri, storage_options=options).delete("a = 2")


OPERATIONS: dict[str, tuple[Callable[[str, dict[str, str]], object], bool, list[int]]] = {
    # name: (what to do, whether the table exists before, rows afterwards)
    "create": (lambda uri, options: lance_core.write_dataset(NEW, uri, storage_options=options), False, [4, 5]),
    "append": (
        lambda uri, options: lance_core.write_dataset(NEW, uri, mode="append", storage_options=options),
        True,
        [1, 2, 3, 4, 5],
    ),
    "delete": (_delete, True, [1, 3]),
}


@dataclass(frozen=True)
class Bench:
    """A server, and a proxy before it.

    Attributes:
        server: the server.
        proxy: the proxy.
        dynamodb_table: keeps the versions; None for the bucket itself.
    """

    server: S3Server
    proxy: FaultProxy
    dynamodb_table: str | None = None

    def options(self, **more: str) -> dict[str, str]:
        """Storage options of who goes through the proxy."""
        faulty = {"aws_endpoint": self.proxy.endpoint, "dynamodb_endpoint": self.proxy.endpoint}
        return self.server.options(**{**faulty, "client_max_retries": "1", **more})

    def direct_options(self) -> dict[str, str]:
        """Storage options of who goes past it."""
        return self.server.options(dynamodb_endpoint=self.server.endpoint)

    def uri(self) -> str:
        """A place where nothing is."""
        if self.dynamodb_table is None:
            return self.server.uri()
        return self.server.uri(scheme="s3+ddb") + f"?ddbTableName={self.dynamodb_table}"

    def table(self) -> str:
        """A fresh table of one version."""
        uri = self.uri()
        lance_core.write_dataset(OLD, uri, storage_options=self.direct_options())
        return uri

    def state(self, uri: str) -> tuple[int, list[int]]:
        """Version and rows, past the proxy."""
        try:
            dataset = lance_core.dataset(uri, storage_options=self.direct_options())
        except DatasetNotFoundError:
            return 0, []
        dataset.validate()
        assert [each["version"] for each in dataset.versions()] == list(range(1, dataset.version + 1))
        return dataset.version, sorted(dataset.to_table()["a"].to_pylist())

    def run(self, operation: str, plan: Plan, **options: str) -> tuple[str, LanceError | None]:
        """Run an operation on a fresh table; its URI, and what was raised."""
        action, exists, _ = OPERATIONS[operation]
        uri = self.table() if exists else self.uri()
        self.proxy.reset(plan)
        raised: LanceError | None = None
        try:
            action(uri, self.options(**options))
        except LanceError as error:
            raised = error
        self.proxy.settle()
        return uri, raised

    def check(self, operation: str, uri: str, raised: LanceError | None) -> None:
        """A success made one version, a failure none, and an unknown outcome one of both."""
        _, exists, rows_after = OPERATIONS[operation]
        before = (1, [1, 2, 3]) if exists else (0, [])
        after = (before[0] + 1, rows_after)
        found = self.state(uri)
        if raised is None:
            assert found == after
        elif isinstance(raised, CommitOutcomeUnknownError):
            assert found in (before, after)
        else:
            assert found == before, raised

    def fail_each_request(self, operation: str, fault: Fault, **options: str) -> None:
        """Count the requests of an operation, then fail each of them in turn."""
        uri, raised = self.run(operation, no_plan)
        assert raised is None
        self.check(operation, uri, raised)
        requests = list(self.proxy.requests)
        for request in requests:
            uri, raised = self.run(operation, fault_at(request.index, fault), **options)
            self.check(operation, uri, raised)
