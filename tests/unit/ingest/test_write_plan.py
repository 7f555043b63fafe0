"""The plan of a write: the read version and the schema of the dataset."""

from __future__ import annotations

import pytest

import lance_core
from lance_core.errors import AlreadyExistsError
from lance_pipelines.ingest.declaration import WriteMode


def test_write_plan_of_an_absent_dataset_has_version_0_and_no_schema(warehouse) -> None:
    plan = warehouse.plan()
    assert (plan.read_version, plan.read_transaction, plan.schema) == (0, None, None)


def test_append_plan_takes_the_schema_of_the_dataset(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(1)))
    outcome = warehouse.commit(warehouse.stage(numbers(2)))
    plan = warehouse.plan()
    assert plan.read_version == 2
    assert plan.read_transaction == outcome.transaction_uuid
    assert plan.schema == lance_core.dataset(warehouse.uri).schema
    assert plan.data_storage_version == "2.2"


def test_overwrite_plan_has_no_schema_of_the_dataset(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(1)))
    plan = warehouse.plan(WriteMode.OVERWRITE)
    assert (plan.read_version, plan.schema) == (1, None)


def test_create_plan_refuses_an_existing_dataset(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(1)))
    with pytest.raises(AlreadyExistsError, match=r"events\.lance already contains a dataset \(version 1\)"):
        warehouse.plan(WriteMode.CREATE)
