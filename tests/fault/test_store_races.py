"""Four processes append to a dataset on each kind of store: no row is lost or duplicated, and versions are contiguous.

Half of them use pylance, except with relational databases as manifest stores, which pylance does not support.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain

import lance
import pyarrow as pa
import pytest

import lance_core
from tests.support.postgres_server import postgres_server
from tests.support.racing_writers import append_together
from tests.support.s3_servers import ceph_server, create_manifest_table, moto_server

EMPTY = pa.schema([("writer", pa.int64()), ("number", pa.int64())]).empty_table()
MIXED = ["lance_core", "lance", "lance_core", "lance"]
OURS = ["lance_core"] * 4


@dataclass(frozen=True)
class Place:
    uri: str
    options: dict[str, str]
    libraries: list[str]
    plain_uri: str


@pytest.fixture(params=["moto", "ceph", "dynamodb", "postgresql", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("servers")
    kind = request.param
    with ExitStack() as servers:
        if kind == "ceph":
            server = servers.enter_context(ceph_server(directory / "ceph"))
        else:
            server = servers.enter_context(moto_server())
        plain = server.uri("table")
        options, libraries, uri = server.options(), MIXED, plain
        if kind == "dynamodb":
            create_manifest_table(server, server.bucket)
            options["dynamodb_endpoint"] = server.endpoint
            uri = server.uri("table", "s3+ddb") + f"?ddbTableName={server.bucket}"
        elif kind == "postgresql":
            options["sql_url"] = servers.enter_context(postgres_server())
        elif kind == "sqlite":
            options["sql_url"] = f"sqlite:///{directory}/manifests.db"
        if kind in ("postgresql", "sqlite"):
            libraries, uri = OURS, server.uri("table", "s3+sql")
        yield Place(uri, options, libraries, plain)


def _race(place: Place, num_appends: int) -> None:
    lance_core.write_dataset(EMPTY, place.uri, storage_options=place.options)
    made = append_together(place.uri, place.options, place.libraries, num_appends)
    num_versions = len(place.libraries) * num_appends
    assert sorted(chain.from_iterable(made)) == list(range(2, num_versions + 2))
    dataset = lance_core.dataset(place.uri, storage_options=place.options)
    dataset.validate()
    assert [each["version"] for each in dataset.version_refs()] == list(range(1, num_versions + 2))
    expected = [(writer, number) for writer in range(len(place.libraries)) for number in range(num_appends)]
    for table in (
        dataset.to_table(),
        lance_core.dataset(place.plain_uri, storage_options=place.options).to_table(),
        lance.dataset(place.plain_uri, storage_options=place.options).to_table(),
    ):
        assert sorted(zip(table["writer"].to_pylist(), table["number"].to_pylist(), strict=True)) == expected


@pytest.mark.slow
def test_appends_of_four_processes_keep_every_row_on_each_store(place: Place) -> None:
    _race(place, 6)


@pytest.mark.soak
def test_many_appends_of_four_processes_keep_every_row_on_each_store(place: Place) -> None:
    _race(place, 50)
