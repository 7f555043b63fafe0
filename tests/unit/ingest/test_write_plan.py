from __future__ import annotations

import pytest

import lance_core
from lance_core.errors import AlreadyExistsError
from lance_pipelines.ingest.declaration import WriteMode


def test_an_absent_dataset_gives_no_schema_and_version_0(warehouse) -> None:
    plan = warehouse.plan()
    assert (plan.read_version, plan.read_transaction, plan.schema) == (0, None, None)


def test_an_append_takes_the_datasets_schema(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(1)))
    outcome = warehouse.commit(warehouse.stage(numbers(2)))
    plan = warehouse.plan()
    assert plan.read_version == 2
    assert plan.read_transaction == outcome.transaction_uuid
    assert plan.schema == lance_core.dataset(warehouse.uri).schema
    assert plan.data_storage_version == "2.2"


def test_an_overwrite_brings_its_own_schema(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(1)))
    plan = warehouse.plan(WriteMode.OVERWRITE)
    assert (plan.read_version, plan.schema) == (1, None)


def test_create_refuses_an_existing_dataset_before_anything_is_written(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(1)))
    with pytest.raises(AlreadyExistsError, match=r"events\.lance already contains a dataset \(version 1\)"):
        warehouse.plan(WriteMode.CREATE)
