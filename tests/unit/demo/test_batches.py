"""The rows that the demo expects and the predicates of its datasets must agree."""

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_pipelines.demo.events_data import DELETES, ExpectedRows, events, write_batch


def test_demo_event_batches_are_consecutive_and_reproducible() -> None:
    first, second = events(0, 300), events(1, 300)
    assert first["id"].to_pylist() == list(range(300))
    assert second["id"].to_pylist() == list(range(300, 600))
    assert first.equals(events(0, 300))
    assert not first["score"].equals(second["score"])
    assert first.schema.field("embedding").type == pa.list_(pa.float32(), 8)


@pytest.mark.parametrize("delete", DELETES, ids=lambda delete: delete.predicate)
def test_demo_delete_predicate_matches_the_expected_rows(delete, tmp_path) -> None:
    rows = pa.concat_tables([events(number, 500) for number in range(10)])
    uri = str(tmp_path / "events.lance")
    lance_core.write_dataset(rows, uri)
    expected = rows.filter(delete.matches(rows))["id"]
    assert 0 < len(expected) < len(rows)
    for implementation in (lance_core, lance):
        found = implementation.dataset(uri).to_table(columns=["id"], filter=delete.predicate)["id"]
        assert found.to_pylist() == expected.to_pylist()


def test_demo_expected_rows_follow_ingests_and_deletes() -> None:
    expected = ExpectedRows()
    for number in (5, 4):
        expected.append(events(number, 500))
    assert expected.rows["id"].to_pylist() == list(range(2000, 3000))
    num_deleted = expected.delete(DELETES[1])
    assert (num_deleted, expected.num_rows) == (900, 100)
    assert expected.rows["id"].to_pylist() == list(range(2000, 2100))


def test_demo_input_files_contain_the_event_batches(tmp_path) -> None:
    import pyarrow.parquet as pq

    path = write_batch(tmp_path, 2, 250)
    assert path.name == "batch-002.parquet"
    assert pq.read_table(path).cast(events(2, 250).schema).equals(events(2, 250))
