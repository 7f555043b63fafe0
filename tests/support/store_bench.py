"""StoreBench: operations on tables behind a proxy that fails their requests, and what must be true afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import lance_core
from lance_core.errors import CommitOutcomeUnknownError, CorruptDataError, LanceError
from tests.support.fault_proxy import Fault, FaultProxy, Plan, Request, fault_at, fault_proxy, no_plan
from tests.support.s3_servers import S3Server, create_manifest_table, moto_server
from tests.support.store_operations import NEW, OPERATIONS, StoreOperation, beside, state, without_numbers

State = tuple[dict[str, Any], dict[str, Any]]
"""Of a table, and of the clone beside it."""


@dataclass
class StoreBench:
    """A server, and a proxy before it.

    Attributes:
        server: the server.
        proxy: the proxy.
        dynamodb_table: keeps the versions; None for the bucket itself.
        runs: how many operations were run with a fault.
    """

    server: S3Server
    proxy: FaultProxy
    dynamodb_table: str | None = None
    runs: int = 0
    _ends: dict[str, tuple[State, State, list[Request]]] = field(default_factory=dict)

    @cached_property
    def _client(self) -> Any:
        return self.server.client()

    def options(self, **more: str) -> dict[str, str]:
        """Storage options of who goes through the proxy."""
        endpoints = {"aws_endpoint": self.proxy.endpoint, "dynamodb_endpoint": self.proxy.endpoint}
        return self.server.options(**{**endpoints, "client_max_retries": "1", "timeout": "500ms", **more})

    def direct_options(self) -> dict[str, str]:
        """Storage options of who goes past it."""
        return self.server.options(dynamodb_endpoint=self.server.endpoint)

    def uri(self) -> str:
        """A place where nothing is."""
        if self.dynamodb_table is None:
            return self.server.uri()
        return self.server.uri(scheme="s3+ddb") + f"?ddbTableName={self.dynamodb_table}"

    def keys(self, uri: str) -> list[str]:
        """Keys below a URI."""
        prefix = uri.partition("://")[2].partition("?")[0].partition("/")[2] + "/"
        listed = self._client.list_objects_v2(Bucket=self.server.bucket, Prefix=prefix)
        return [entry["Key"][len(prefix) :] for entry in listed.get("Contents", [])]

    def state(self, operation: StoreOperation, uri: str) -> State:
        """What there is, past the proxy."""
        options, listing = self.direct_options(), operation.needs_listing
        first = state(uri, options, self.keys, listing=listing)
        second = state(beside(uri, "-clone"), options, self.keys) if operation.makes_clone else {}
        return first, second

    def run(self, operation: StoreOperation, plan: Plan) -> tuple[str, State, LanceError | None]:
        """Run an operation on a fresh table; its URI, what there was before, and what was raised."""
        uri = self.uri()
        operation.prepare(uri, self.direct_options())
        self.proxy.reset(plan)
        raised: LanceError | None = None
        try:
            operation.act(uri, self.options())
        except LanceError as error:
            raised = error
        self.proxy.settle()
        return uri, raised

    def ends(self, name: str) -> tuple[State, State, list[Request]]:
        """What there is before and after, and the requests between; a dry run finds out."""
        if name not in self._ends:
            operation = OPERATIONS[name]
            uri = self.uri()
            operation.prepare(uri, self.direct_options())
            before = self.state(operation, uri)
            self.proxy.reset(no_plan)
            operation.act(uri, self.options())
            requests = list(self.proxy.requests)
            after = self.state(operation, uri)
            assert operation.is_atomic is False or before != after
            self._ends[name] = before, after, requests
        return self._ends[name]

    def fail(self, name: str, number: int, fault: Fault) -> None:
        """Run an operation whose request of that number fails, and look what came of it."""
        operation = OPERATIONS[name]
        before, after, requests = self.ends(name)
        uri, raised = self.run(operation, fault_at(number, fault))
        self.runs += 1
        where = (
            f"{name}: {fault.value} at request {number} {requests[number].method} {requests[number].path}: {raised!r}"
        )
        if raised is None:
            assert self.state(operation, uri) == after, where
        elif operation.is_atomic:
            expected = (before, after) if isinstance(raised, CommitOutcomeUnknownError) else (before,)
            assert self.state(operation, uri) in expected, where
        else:
            self._finish(operation, uri, before, after, where)
        self._go_on(uri, where)

    def _finish(self, operation: StoreOperation, uri: str, before: State, after: State, where: str) -> None:
        """What is done in parts can be done again, and ends as if nothing had happened."""
        if self._readable(operation, uri) == after:
            return
        operation.act(uri, self.direct_options())
        found = self.state(operation, uri)
        assert without_numbers(found) == without_numbers(after), where

    def _readable(self, operation: StoreOperation, uri: str) -> State | None:
        try:
            return self.state(operation, uri)
        except CorruptDataError:
            return None

    def _go_on(self, uri: str, where: str) -> None:
        """The next writer and reader work."""
        options = self.direct_options()
        try:
            version = lance_core.dataset(uri, storage_options=options).version
        except lance_core.DatasetNotFoundError:
            version = 0
        made = lance_core.write_dataset(NEW.select(_columns(uri, options)), uri, mode="append", storage_options=options)
        assert made.version == version + 1, where
        assert made.count_rows() >= NEW.num_rows, where


def _columns(uri: str, options: dict[str, str]) -> list[str]:
    try:
        names = lance_core.dataset(uri, storage_options=options).schema.names
    except lance_core.DatasetNotFoundError:
        return NEW.column_names
    return [name for name in names if name in NEW.column_names]


@contextmanager
def store_bench(*, external: bool = False) -> Iterator[StoreBench]:
    """A running bench; with the versions in DynamoDB or in the bucket itself."""
    with moto_server() as server, fault_proxy(server.endpoint) as proxy:
        table = server.bucket if external else None
        if table is not None:
            create_manifest_table(server, table)
        bench = StoreBench(server, proxy, table)
        # What is asked once for each process and place is no part of an operation.
        for options in (bench.options(), bench.direct_options()):
            uri = bench.uri()
            lance_core.write_dataset(NEW, uri, storage_options=options)
            lance_core.dataset(uri, storage_options=options).tags.create("probe")
        yield bench
