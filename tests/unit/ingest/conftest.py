"""Staged writes like those of the Spark layer, but created by lance_core alone."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lance_core
from lance_pipelines.ingest.declaration import DatasetDeclaration, WriteMode
from lance_pipelines.ingest.sources import FileSource, SourceFormat
from lance_pipelines.ingest.staged_write import StagedWrite
from lance_pipelines.ingest.write_commit import WriteOutcome, commit_staged
from lance_pipelines.ingest.write_plan import WritePlan, plan_write
from tests.support.staged_writes import staged_write


@dataclass
class Warehouse:
    """The location of a dataset, and the operations that tests perform on the dataset."""

    uri: str
    discarded: list[str] = field(default_factory=list)

    def declaration(self, mode: WriteMode = WriteMode.APPEND, **more: Any) -> DatasetDeclaration:
        return DatasetDeclaration(
            key="events",
            uri=self.uri,
            source=FileSource(format=SourceFormat.ENVIRONMENT),
            mode=mode,
            partition_by="id",
            **more,
        )

    def plan(self, mode: WriteMode = WriteMode.APPEND) -> WritePlan:
        return plan_write(self.declaration(mode))

    def stage(
        self,
        rows: pa.Table,
        mode: WriteMode = WriteMode.APPEND,
        *,
        plan: WritePlan | None = None,
        data_storage_version: str | None = None,
        **changes: Any,
    ) -> StagedWrite:
        plan = plan or self.plan(mode)
        token = secrets.token_hex(8)
        appends = not plan.replaces_content
        fragments = lance_core.write_fragments(
            rows,
            self.uri,
            mode="append" if appends else "overwrite",
            max_rows_per_file=2,
            data_storage_version=data_storage_version,
            file_token=token,
        )
        staged = staged_write(
            fragments,
            rows,
            token,
            uri=self.uri,
            mode=mode,
            read_version=plan.read_version,
            read_transaction=plan.read_transaction,
            schema=plan.schema or rows.schema,
            data_storage_version=data_storage_version,
            predicate="`id` >= 0" if mode is WriteMode.OVERWRITE_PARTITION else None,
        )
        return replace(staged, **changes)

    def commit(self, staged: StagedWrite) -> WriteOutcome:
        return commit_staged(staged, discard=self.discard)

    def discard(self, uri: str, file_token: str) -> None:
        assert uri == self.uri
        self.discarded.append(file_token)
        for path in self.files(file_token):
            path.unlink()

    def files(self, file_token: str = "") -> list[Path]:
        return sorted(Path(self.uri, "data").glob(f"*{file_token}.lance"))

    def rows(self, version: int | None = None) -> list[dict[str, Any]]:
        return lance_core.dataset(self.uri, version=version).to_table().to_pylist()

    def latest_version(self) -> int:
        return lance_core.dataset(self.uri).version


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path / "events.lance"))


@pytest.fixture
def numbers() -> Callable[..., pa.Table]:
    def make(*values: int) -> pa.Table:
        return pa.table(
            {"id": pa.array(values, pa.int64()), "name": pa.array([f"row {value}" for value in values], pa.string())}
        )

    return make
