"""SQL expressions evaluated for batches: the columns that pylance computes."""

import os
import threading
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError
from lance_core.predicate.engine import SqlExpressions
from lance_core.schema.convert import schema_from_arrow

ROWS = pa.table(
    {
        "i": pa.array([1, 2, None, -3], pa.int64()),
        "f": pa.array([1.5, -0.0, None, float("nan")], pa.float32()),
        "Text": pa.array(["a", "B%", None, ""]),
        "l": pa.array([[1, 2], [], None, [3]]),
        "st": pa.array([{"x": 1}, {"x": None}, None, {"x": 4}]),
    }
)
[BATCH] = ROWS.combine_chunks().to_batches()


def _columns(expressions: SqlExpressions, batch: pa.RecordBatch = BATCH) -> list[pa.Array]:
    return [batch["st"].field(0) if path == ("st", "x") else batch[path[0]] for path in expressions.paths]


@pytest.mark.parametrize(
    "text",
    [
        *("i + 1", "f * 2", "2 * f", "text || 'x'", "concat(`Text`, 'x')", "l[1]", "array_length(l)", "round(f)"),
        *("i % 2 = 1", "cast(i as string)", "coalesce(i, 0)", "lower(`Text`)", "i::double", "f = 0", "nullif(i, 2)"),
        *("i + f", "f / 3.0", "(i + 1) / 2.0", "date_part('year', to_timestamp(i))"),
    ],
)
def test_an_expression_has_the_values_that_pylance_computes(tmp_path: Path, text: str) -> None:
    lance.write_dataset(ROWS, tmp_path)
    expressions = SqlExpressions.plan(schema_from_arrow(ROWS.schema), {"found": text})
    found = expressions.evaluate(_columns(expressions), BATCH.num_rows)
    expected = lance.dataset(tmp_path).to_table(columns={"found": text})
    assert found.schema.types == expressions.schema.types == expected.schema.types
    assert pa.Table.from_batches([found])["found"].to_pylist() == pytest.approx(
        expected["found"].to_pylist(), nan_ok=True
    )


NAMED_LIKE_KEYWORDS = pa.table({word: [1, 2, 3] for word in ("case", "else", "end", "escape", "from", "then", "when")})


@pytest.mark.parametrize(
    "text",
    [
        *("end - from", "from + 1", "-end", "(case)", "CASE * 2", "when + then", "escape - 1", "end::double"),
        *("power(from, 2) + end", "coalesce(case, end)", "coalesce(case when from > 1 then end else case end, 1)"),
        *("coalesce(case when when > 1 then then else else end, 1)", "from is distinct from end"),
    ],
)
def test_columns_named_like_keywords_can_be_used_without_quotes(tmp_path: Path, text: str) -> None:
    lance.write_dataset(NAMED_LIKE_KEYWORDS, tmp_path)
    expected, found = (library.dataset(tmp_path).to_table(columns={"found": text}) for library in (lance, lance_core))
    assert found == expected


@pytest.mark.parametrize(
    ("text", "num_rows"), [("case > 1", 2), ("Case in (1, 2)", 2), ("end = 3 and case::int > 1", 1)]
)
def test_filters_can_use_columns_named_case(tmp_path: Path, text: str, num_rows: int) -> None:
    lance.write_dataset(NAMED_LIKE_KEYWORDS, tmp_path)
    counts = [library.dataset(tmp_path).count_rows(text) for library in (lance, lance_core)]
    assert counts == [num_rows, num_rows]


def test_a_literal_that_does_not_have_the_type_of_the_column_is_refused_as_in_pylance(tmp_path: Path) -> None:
    dataset = lance.write_dataset(ROWS, tmp_path)
    with pytest.raises(ValueError, match="could not convert to literal"):
        dataset.to_table(columns={"found": "i / 2.5"})
    with pytest.raises(InvalidInputError, match="not a valid value of type int64"):
        SqlExpressions.plan(schema_from_arrow(ROWS.schema), {"found": "i / 2.5"})


def test_expressions_read_each_column_once_and_return_one_column_each() -> None:
    expressions = SqlExpressions.plan(schema_from_arrow(ROWS.schema), {"a": "I + 1", "b": "i + st.x", "c": "st['x']"})
    assert expressions.paths == (("i",), ("st", "x"))
    found = expressions.evaluate([pa.array([1, 2]), pa.array([3, None])], 2)
    assert found.to_pydict() == {"a": [2, 3], "b": [4, None], "c": [3, None]}


def test_expressions_evaluated_on_a_batch_without_columns_or_rows_return_as_many_rows_as_the_batch() -> None:
    schema = schema_from_arrow(ROWS.schema)
    assert SqlExpressions.plan(schema, {"one": "1"}).evaluate([], 3).to_pydict() == {"one": [1, 1, 1]}
    empty = SqlExpressions.plan(schema, {"a": "i + 1"}).evaluate([pa.array([], pa.int64())], 0)
    assert (empty.num_rows, empty.schema.names) == (0, ["a"])


def test_an_expression_can_be_used_again_after_an_evaluation_error() -> None:
    expressions = SqlExpressions.plan(schema_from_arrow(ROWS.schema), {"a": "10 / i"})
    with pytest.raises(InvalidInputError, match="Divide by zero"):
        expressions.evaluate([pa.array([0])], 1)
    assert expressions.evaluate([pa.array([5])], 1)["a"].to_pylist() == [2]


def test_threads_that_share_an_expression_get_the_results_of_their_own_batches() -> None:
    expressions = SqlExpressions.plan(schema_from_arrow(ROWS.schema), {"a": "round(i) + 1"})
    failures = []

    def work(start: int) -> None:
        for number in range(start, start + 20):
            values = np.arange(number, number + 50)
            found = expressions.evaluate([pa.array(values)], 50)["a"]
            failures.extend([number] if found.to_pylist() != (values + 1).tolist() else [])

    threads = [threading.Thread(target=work, args=(1000 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_forked_process_can_evaluate_an_expression_of_its_parent() -> None:
    expressions = SqlExpressions.plan(schema_from_arrow(ROWS.schema), {"a": "i + 1"})
    expressions.evaluate([pa.array([1])], 1)
    child = os.fork()
    if child == 0:
        os._exit(0 if expressions.evaluate([pa.array([5])], 1)["a"].to_pylist() == [6] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_forked_process_can_filter_a_dataset_that_its_parent_has_filtered(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(ROWS, tmp_path)
    assert dataset.count_rows("round(f) = 2") == 1
    child = os.fork()
    if child == 0:
        os._exit(0 if dataset.to_table(filter="abs(i) + 1 = 4", columns=["i"])["i"].to_pylist() == [-3] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
