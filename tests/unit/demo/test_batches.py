"""The rows that the demo expects and the predicates of its datasets must agree."""

import lance
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lance_core
from lance_pipelines.demo.batches import DELETES, ExpectedRows, events, profiles, query_vector, write_batch


def test_demo_event_batches_are_consecutive_and_reproducible() -> None:
    first, second = events(0, 300), events(1, 300)
    assert first["id"].to_pylist() == list(range(300))
    assert second["id"].to_pylist() == list(range(300, 600))
    assert first.equals(events(0, 300))
    assert set(first["hour"].to_pylist()) == {"hour-000"}
    assert not first["embedding"].equals(second["embedding"])
    assert first.schema.field("embedding").type == pa.list_(pa.float32(), len(query_vector()))


def test_demo_profile_batches_share_half_of_their_users_with_the_previous_batch() -> None:
    first, second = profiles(0, 300), profiles(1, 300)
    shared = set(first["user"].to_pylist()) & set(second["user"].to_pylist())
    assert shared == set(range(150, 300))


@pytest.mark.parametrize("delete", DELETES, ids=lambda delete: delete.predicate)
def test_demo_delete_predicate_matches_the_expected_rows(delete, tmp_path) -> None:
    rows = pa.concat_tables([profiles(number, 500) for number in range(5)])
    uri = str(tmp_path / "profiles.lance")
    lance_core.write_dataset(rows, uri)
    expected = rows.filter(delete.matches(rows))["user"]
    assert 0 < len(expected) < len(rows)
    for implementation in (lance_core, lance):
        found = implementation.dataset(uri).to_table(columns=["user"], filter=delete.predicate)["user"]
        assert found.to_pylist() == expected.to_pylist()


def test_demo_expected_rows_follow_ingests_and_deletes() -> None:
    expected = ExpectedRows("user")
    for number in (2, 1):
        expected.upsert(profiles(number, 500))
    assert expected.rows["user"].to_pylist() == list(range(250, 1000))
    num_deleted = expected.delete(DELETES[1])
    assert (num_deleted, expected.num_rows) == (380, 370)
    assert expected.rows["user"].to_pylist() == list(range(630, 1000))


def test_demo_expected_rows_of_a_key_are_those_of_its_latest_batch() -> None:
    expected = ExpectedRows("user")
    for number in (0, 1):
        expected.upsert(profiles(number, 300))
    assert expected.rows["user"].to_pylist() == list(range(450))
    assert expected.rows["batch"].to_pylist() == [0] * 150 + [1] * 300


def test_demo_input_files_contain_the_event_batches(tmp_path) -> None:
    write_batch(tmp_path / "new", 2, events(2, 250))
    (path,) = (tmp_path / "new").iterdir()
    assert path.name == "hour-002.parquet"
    assert pq.read_table(path).cast(events(2, 250).schema).equals(events(2, 250))
