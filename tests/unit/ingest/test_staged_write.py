"""The JSON form of a staged write."""

from __future__ import annotations

import json

import pyarrow as pa

from lance_pipelines.ingest.declaration import WriteMode
from lance_pipelines.ingest.staged_write import StagedWrite


def test_staged_write_round_trips_through_json() -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("v", pa.list_(pa.float32(), 3)),
            pa.field("t", pa.timestamp("us", tz="UTC"), metadata={"comment": "when"}),
        ]
    )
    staged = StagedWrite(
        write_id="w",
        file_token="0123456789abcdef",
        dataset="events",
        uri="/lake/events.lance",
        mode=WriteMode.OVERWRITE,
        read_version=4,
        read_transaction="6c1d",
        schema=schema,
        fragments=({"id": 0, "files": [], "physical_rows": 7},),
        rows_counted=7,
        rows_written=7,
        bytes_written=99,
        run_id="r",
        step_key="s",
        data_storage_version="2.1",
    )
    text = staged.to_json()
    assert json.loads(text)["mode"] == "overwrite"
    back = StagedWrite.from_json(text)
    assert back == staged
    assert back.schema.equals(schema, check_metadata=True)
    assert isinstance(back.mode, WriteMode)
    older = json.loads(text)
    del older["data_storage_version"]
    assert StagedWrite.from_json(json.dumps(older)).data_storage_version is None
