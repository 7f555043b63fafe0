"""Messages between steps are checked before they are used."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from lance_core.errors import CorruptDataError
from lance_pipelines.ingest.declaration import WriteMode
from lance_pipelines.ingest.staged_write import StagedWrite
from lance_pipelines.maintenance.cleanup_plan import PlannedCleanup
from lance_pipelines.maintenance.delete_plan import PlannedDelete
from lance_pipelines.maintenance.health import TableHealth
from lance_pipelines.maintenance.index_plan import IndexAction, IndexOperation, IndexWork, PlannedIndices, StagedIndices
from lance_pipelines.maintenance.policy import CleanupPolicy
from lance_pipelines.maintenance.restore_plan import PlannedRestore
from lance_pipelines.maintenance.staged_rewrite import PlannedRewrite, StagedRewrite
from lance_pipelines.publish.promotion_plan import PlannedPromotion

HEALTH = TableHealth(**dict.fromkeys(TableHealth.__slots__, 1))
REWRITE = PlannedRewrite(
    rewrite_id="r",
    dataset="events",
    uri="/lake/events.lance",
    op="compact",
    options={"batch_size": None},
    tasks=("{}",),
    before=HEALTH,
    run_id="run",
    step_key="step",
)
INDICES = PlannedIndices(
    update_id="u",
    dataset="events",
    uri="/lake/events.lance",
    op=IndexOperation.OPTIMIZE,
    version=3,
    works=(
        IndexWork(
            name="id_idx",
            action=IndexAction.BUILD,
            reason="declared",
            indexed_rows=0,
            unindexed_rows=5,
            unindexed_fragments=1,
            size_bytes=None,
        ),
    ),
    run_id="run",
    step_key="step",
)
MESSAGES = (
    StagedWrite(
        write_id="w",
        file_token="0123456789abcdef",
        dataset="events",
        uri="/lake/events.lance",
        mode=WriteMode.APPEND,
        read_version=1,
        read_transaction=None,
        schema=pa.schema([("id", pa.int64())]),
        fragments=({"id": 1},),
        rows_counted=1,
        rows_written=1,
        bytes_written=1,
        run_id="run",
        step_key="step",
    ),
    REWRITE,
    StagedRewrite.of(REWRITE, "0123456789abcdef", ("{}",)),
    PlannedDelete(
        delete_id="d",
        dataset="events",
        uri="/lake/events.lance",
        op="delete_rows",
        predicate="id = 1",
        as_of=datetime(2026, 11, 28, 12, tzinfo=UTC),
        before=HEALTH,
        reviewed="0123456789abcdef",
        run_id="run",
        step_key="step",
    ),
    PlannedCleanup(
        uri="/lake/events.lance",
        policy=CleanupPolicy(older_than=timedelta(days=1, microseconds=1)),
        data_version="1-unknown",
    ),
    PlannedRestore(
        restore_id="r",
        dataset="events",
        uri="/lake/events.lance",
        version=1,
        read_version=3,
        run_id="run",
        step_key="step",
    ),
    INDICES,
    StagedIndices(plan=INDICES, branch="lance_pipelines/indices", seconds=1.5),
    PlannedPromotion(
        uri="/lake/events.lance",
        tag="prod",
        version=3,
        transaction=None,
        published=2,
        is_explicit=False,
        passed=("fragments",),
    ),
)
by_type = pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)


def changed(document: dict[str, Any], change: Callable[[dict[str, Any], str], None]) -> Iterator[str]:
    """Yield the document once for each value in it, with this value changed."""
    for name, value in document.items():
        copy = json.loads(json.dumps(document))
        change(copy, name)
        yield json.dumps(copy)
        if isinstance(value, dict):
            yield from (json.dumps(document | {name: json.loads(inner)}) for inner in changed(value, change))


@by_type
def test_step_message_survives_a_round_trip(message) -> None:
    assert type(message).from_json(message.to_json()) == message


@by_type
@pytest.mark.parametrize("text", ["", "null", "[]", "{}", "\x00", "[" * 100_000])
def test_text_that_is_not_a_step_message_raises_corrupt_data(message, text: str) -> None:
    with pytest.raises(CorruptDataError, match=f"malformed message between steps: {type(message).__name__}: "):
        type(message).from_json(text)


@by_type
@pytest.mark.parametrize("value", [None, -1, 2**70, 1.5, "x", "\x00", [], {}, [1], True], ids=repr)
def test_step_message_value_of_the_wrong_type_is_read_or_raises_corrupt_data(message, value: object) -> None:
    texts = list(changed(json.loads(message.to_json()), lambda document, name: document.update({name: value})))
    refused = 0
    for text in texts:
        try:
            type(message).from_json(text)
        except CorruptDataError:
            refused += 1
    assert refused > 0


@by_type
def test_step_message_without_its_location_raises_corrupt_data(message) -> None:
    document = json.loads(message.to_json())
    (document.get("plan") or document).pop("uri")
    with pytest.raises(CorruptDataError, match=r"uri: Field required; start a new run"):
        type(message).from_json(json.dumps(document))


@pytest.mark.parametrize("schema", ["", "AAAA", "not base64", "ÿ", 5, None])
def test_step_message_with_an_invalid_arrow_schema_raises_corrupt_data(schema: object) -> None:
    document = json.loads(MESSAGES[0].to_json()) | {"schema": schema}
    with pytest.raises(CorruptDataError, match="StagedWrite: schema: "):
        StagedWrite.from_json(json.dumps(document))
