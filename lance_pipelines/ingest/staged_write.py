"""StagedWrite: the message from the step that wrote fragments to the step that commits them.

Its fragments are complete files that no version refers to yet. The message is plain JSON, so it can be passed between
processes and reused when only the commit step is retried: the same message always has the same ``write_id``, so a
repeated commit takes effect only once.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Annotated, Any

import pyarrow as pa
from pydantic import PlainSerializer, PlainValidator

from lance_pipelines.ingest.declaration import WriteMode
from lance_pipelines.step_messages import StepMessage

__all__ = ["StagedWrite"]


def _encoded(schema: pa.Schema) -> str:
    """Return a schema as base64-encoded Arrow IPC."""
    return base64.b64encode(schema.serialize()).decode("ascii")


def _schema(encoded: object) -> pa.Schema:
    """Return the schema of a message."""
    if not isinstance(encoded, str):
        raise ValueError("expected base64-encoded Arrow IPC")
    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(encoded)))
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"not an Arrow schema: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedWrite(StepMessage):
    """Fragments that have been written but not yet committed.

    Attributes:
        write_id: UUID string, unique to an execution of the write step; the idempotency key of the commit.
        file_token: 16 hex digits; the name of every data file of this write ends in them, before the extension.
        dataset: the declaration's name.
        uri: the dataset's location.
        mode: what the commit does with existing rows.
        read_version: the version that the write is based on; 0 if the dataset did not exist.
        read_transaction: UUID of the transaction that created ``read_version``. It is used to detect that the dataset
            was deleted and recreated. None if the dataset did not exist, or if the version records no transaction.
        schema: the Arrow schema of the fragments.
        fragments: the fragments, each as the document returned by ``FragmentMetadata.to_json()``.
        rows_counted: number of rows that were passed to the writers, counted independently of them.
        rows_written: number of rows that the writers wrote.
        bytes_written: total size of the data files, in bytes.
        run_id: id of the run that wrote the fragments.
        step_key: key of the writing step in that run.
        predicate: SQL condition that selects the rows to replace; None unless the mode is ``overwrite_partition``.
        keys: names of the key columns; empty unless the mode is ``upsert``.
        data_storage_version: format version of the data files if the commit creates or replaces the dataset; if None,
            the default.
        number: number of writes to the dataset that the step has made before.
        properties: further properties of the transaction.
    """

    write_id: str
    file_token: str
    dataset: str
    uri: str
    mode: WriteMode
    read_version: int
    read_transaction: str | None
    schema: Annotated[pa.Schema, PlainValidator(_schema), PlainSerializer(_encoded)]
    fragments: tuple[dict[str, Any], ...]
    rows_counted: int
    rows_written: int
    bytes_written: int
    run_id: str
    step_key: str
    predicate: str | None = None
    keys: tuple[str, ...] = ()
    data_storage_version: str | None = None
    number: int = 0
    properties: dict[str, str] = field(default_factory=dict)
