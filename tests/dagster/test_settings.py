"""Settings that are read from environment variables."""

from __future__ import annotations

import pytest

from lance_core.errors import InvalidInputError
from lance_pipelines.settings import ExecutorKind, Settings


def test_the_default_warehouse_is_below_the_working_directory(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for environment in ({}, {"LANCE_PIPELINES_WAREHOUSE": "", "LANCE_PIPELINES_EXECUTOR": ""}):
        settings = Settings.from_environment(environment)
        assert settings == Settings(warehouse=str(tmp_path / "warehouse"), executor=ExecutorKind.IN_PROCESS)
        assert settings.dataset_uri("trips") == str(tmp_path / "warehouse" / "trips.lance")


def test_the_warehouse_may_be_a_path_or_a_uri(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for given, uri in (
        ("lake", f"{tmp_path}/lake/trips.lance"),
        ("/lake/", "/lake/trips.lance"),
        ("memory://lake/", "memory://lake/trips.lance"),
    ):
        assert Settings.from_environment({"LANCE_PIPELINES_WAREHOUSE": given}).dataset_uri("trips") == uri


def test_a_home_directory_that_cannot_be_found_is_named_in_the_error() -> None:
    with pytest.raises(InvalidInputError, match="'~no_such_user_here/lake'"):
        Settings.from_environment({"LANCE_PIPELINES_WAREHOUSE": "~no_such_user_here/lake"})


def test_an_unknown_executor_is_named_in_the_error() -> None:
    with pytest.raises(InvalidInputError, match="invalid LANCE_PIPELINES_EXECUTOR 'celery'; expected one of"):
        Settings.from_environment({"LANCE_PIPELINES_EXECUTOR": "celery"})
    chosen = Settings.from_environment({"LANCE_PIPELINES_EXECUTOR": "multiprocess"})
    assert chosen.executor is ExecutorKind.MULTIPROCESS
