"""The costs of reading from a store, and the storage options that set them."""

import numpy as np
import pytest

from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.io.fsspec_store import open_fsspec_store
from lance_core.io.local_store import LocalStore
from lance_core.io.memory_store import MemoryStore
from lance_core.io.read_costs import REMOTE_COSTS, ReadCosts
from lance_core.io.s3_store import open_s3_store
from lance_core.scan.fetch_plan import RowCosts, plan_fetches


def test_storage_options_set_the_read_costs_of_s3_stores():
    costs = open_s3_store("b", {"read_latency_ms": "5", "READ_MB_PER_SECOND": "400"}).capabilities.read_costs
    assert (costs.request_seconds, costs.bytes_per_second) == (0.005, 400 * 1024 * 1024)
    assert costs.batch_bytes == 2 * 1024 * 1024
    assert open_s3_store("b", None).capabilities.read_costs == REMOTE_COSTS


def test_storage_options_set_the_read_costs_of_other_object_stores():
    options = {"read_latency_ms": "60", "skip_signature": "true"}
    costs = open_fsspec_store("gs", "b", options).capabilities.read_costs
    assert costs.request_seconds == 0.06
    assert costs.near_bytes == 2 * REMOTE_COSTS.near_bytes


def test_only_object_stores_have_the_read_costs_of_a_remote_store():
    assert REMOTE_COSTS.is_remote
    assert not LocalStore().capabilities.read_costs.is_remote
    assert not MemoryStore().capabilities.read_costs.is_remote


def test_limit_on_bytes_read_early_depends_on_the_latency_and_the_number_of_files():
    costs = ReadCosts.of_object_store({"read_latency_ms": "10", "read_mb_per_second": "100"})
    mib = 1024 * 1024
    assert costs.batch_bytes == mib
    assert costs.early_bytes(1) == mib
    assert costs.early_bytes(10) == costs.early_bytes(30) == 10 * mib
    assert costs.early_bytes(600) == 100 * mib
    assert MemoryStore().capabilities.read_costs.early_bytes(10) < 10_000


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "fast", ""])
@pytest.mark.parametrize("name", ["read_latency_ms", "read_mb_per_second"])
def test_read_costs_must_be_positive_numbers(name, value):
    with pytest.raises(InvalidInputError, match=f"'{name}' must be a positive number, such as") as raised:
        open_s3_store("b", {name: value})
    assert not value or f"'{value}'" not in str(raised.value)


def test_read_costs_must_be_strings():
    with pytest.raises(InvalidTypeError):
        ReadCosts.of_object_store({"read_latency_ms": 5})


def test_stores_with_more_bandwidth_read_ranges_instead_of_individual_rows():
    rows = np.arange(0, 2_000_000, 500)

    def reads_ranges(**options: str) -> bool:
        costs = ReadCosts.of_object_store(options)
        [fetch] = plan_fetches(rows, RowCosts(num_leaves=1, row_bytes=200.0, of_store=costs))
        return fetch.in_range

    assert reads_ranges(read_latency_ms="1", read_mb_per_second="1000")
    assert not reads_ranges(read_latency_ms="1", read_mb_per_second="10")
