"""Compaction plans, tasks and results as JSON."""

import json
import pickle
from dataclasses import asdict

import pytest

from lance_core.errors import InvalidInputError, InvalidTypeError, NotSupportedError
from lance_core.optimize import CompactionMetrics, CompactionPlan, CompactionTask, RewriteResult

FRAGMENT = {
    "id": 0,
    "files": [{"path": "a.lance", "fields": [0], "column_indices": [0], "file_size_bytes": 50}],
    "physical_rows": 10,
}
OPTIONS = {"target_rows_per_fragment": 5, "materialize_deletions": True}
TASK = {"task": {"fragments": [FRAGMENT]}, "read_version": 3, "options": OPTIONS}
PLAN = {"tasks": [{"fragments": [FRAGMENT]}], "read_version": 3, "options": OPTIONS}
RESULT = {
    "metrics": {"fragments_removed": 1, "fragments_added": 1, "files_removed": 1, "files_added": 1},
    "new_fragments": [FRAGMENT],
    "original_fragments": [FRAGMENT],
    "read_version": 3,
    "row_addrs": [1, 2, 255],
}
KINDS = [(CompactionTask, TASK), (CompactionPlan, PLAN), (RewriteResult, RESULT)]


@pytest.mark.parametrize(("kind", "document"), KINDS)
def test_compaction_records_of_pylance_survive_a_round_trip(kind: type, document: dict) -> None:
    record = kind.from_json(json.dumps(document))
    assert record.read_version == 3
    assert kind.from_json(record.json()) == record
    assert pickle.loads(pickle.dumps(record)) == record


def test_statistics_of_a_pylance_compaction_plan_come_from_its_tasks() -> None:
    figures = CompactionPlan.from_json(json.dumps(PLAN)).figures
    assert (figures.tasks, figures.rows, figures.fragments_before, figures.fragments_after) == (1, 10, 1, 2)


@pytest.mark.parametrize(("kind", "document"), KINDS)
def test_malformed_compaction_json_raises_invalid_input(kind: type, document: dict) -> None:
    for name in document:
        if name == "row_addrs":
            continue
        with pytest.raises(InvalidInputError):
            kind.from_json(json.dumps({each: value for each, value in document.items() if each != name}))
        with pytest.raises(InvalidInputError):
            kind.from_json(json.dumps({**document, name: "x"}))
    for text in ("", "x", "[]", "1", "null", "{}", "[" * 100_000):
        with pytest.raises(InvalidInputError):
            kind.from_json(text)
    with pytest.raises(InvalidTypeError):
        kind.from_json(document)


NUMBERS = [float("inf"), 1e400, -1, 2**70, 3.7, "3", True, None, [], {}]
ANYTHING = [3, -1, "x", None, [1], {"a": 1}, True]
FRAGMENTS = [("new_fragments", 0), ("original_fragments", 0)]
FILES = [(*fragment, "files", 0) for fragment in FRAGMENTS]
WRONG = [
    *((("read_version",), value) for value in [*NUMBERS, 0]),
    *((("metrics", "files_added"), value) for value in NUMBERS),
    *((("metrics",), value) for value in ["x", None, [1], {}]),
    *((("row_addrs",), value) for value in [3_000_000_000, 10**18, 10**30, "x", [256], [-1], [1.5], {"a": 1}]),
    *(((*fragment, "id"), value) for fragment in FRAGMENTS for value in NUMBERS),
    *(((*fragment, "physical_rows"), value) for fragment in FRAGMENTS for value in NUMBERS),
    *(((*fragment, "files"), value) for fragment in FRAGMENTS for value in ANYTHING),
    *(((*fragment, "deletion_file"), value) for fragment in FRAGMENTS for value in ANYTHING if value is not None),
    *(((*fragment, "row_id_meta"), value) for fragment in FRAGMENTS for value in [3, [1], {"Inline": 3_000_000_000}]),
    *(((*fragment, "overlays"), value) for fragment in FRAGMENTS for value in ["x", 1, {"a": 1}]),
    *(((*file, "fields"), value) for file in FILES for value in [[2**40], ["x"], [None], [1.5], None, 3, "x"]),
    *(((*file, "column_indices"), value) for file in FILES for value in [[-2], [2**40], ["x"], [True], None, 3]),
    *(((*file, "file_major_version"), value) for file in FILES for value in NUMBERS),
    *(((*file, "file_size_bytes"), value) for file in FILES for value in NUMBERS if value is not None),
    *(((*file, "base_id"), value) for file in FILES for value in NUMBERS if value is not None),
    *(
        ((*file, "path"), value)
        for file in FILES
        for value in [
            "../../victim.txt",
            "/etc/passwd",
            "a/../../b",
            "",
            ".",
            "a//b",
            "a\\b",
            "a\0b",
            "\ud800",
            None,
            5,
        ]
    ),
]


def changed(document: dict, path: tuple, value: object) -> str:
    result = json.loads(json.dumps(document))
    inner = result
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return json.dumps(result)


@pytest.mark.parametrize(("path", "value"), WRONG, ids=lambda each: str(each)[:60])
@pytest.mark.sampled(80)
def test_every_malformed_value_of_a_rewrite_result_is_named_in_the_error(path: tuple, value: object) -> None:
    with pytest.raises(InvalidInputError) as caught:
        RewriteResult.from_json(changed(RESULT, path, value))
    name = next(each for each in reversed(path) if isinstance(each, str))
    assert f"rewrite result at $.{path[0]}" in str(caught.value)
    assert name in str(caught.value)


def test_rewrite_result_with_more_deleted_rows_than_rows_is_refused() -> None:
    deletion = {"read_version": 1, "id": 1, "file_type": "array", "num_deleted_rows": 11}
    with pytest.raises(InvalidInputError, match=r"at most 10 \(the number of rows in the fragment\), found 11"):
        RewriteResult.from_json(changed(RESULT, ("original_fragments", 0, "deletion_file"), deletion))
    result = RewriteResult.from_json(
        changed(RESULT, ("original_fragments", 0, "deletion_file"), {**deletion, "num_deleted_rows": None})
    )
    assert result.original_fragments[0].num_rows == 10


@pytest.mark.parametrize("kind", [CompactionTask, CompactionPlan])
@pytest.mark.parametrize("value", [*NUMBERS, 0])
def test_compaction_plan_with_an_invalid_read_version_is_refused(kind: type, value: object) -> None:
    with pytest.raises(InvalidInputError, match=r"\$.read_version: expected a whole number"):
        kind.from_json(changed(dict(KINDS)[kind], ("read_version",), value))


@pytest.mark.parametrize("value", [each for each in NUMBERS if each is not None])
def test_compaction_plan_with_invalid_statistics_is_refused(value: object) -> None:
    plan = CompactionPlan.from_json(json.dumps(PLAN))
    document = json.loads(plan.json())
    assert document["figures"] == asdict(plan.figures)
    with pytest.raises(InvalidInputError, match=r"\$.figures.rows: expected a whole number"):
        CompactionPlan.from_json(changed(document, ("figures", "rows"), value))
    with pytest.raises(InvalidInputError, match=r"\$.figures"):
        CompactionPlan.from_json(changed(document, ("figures",), value))


@pytest.mark.parametrize(("kind", "document"), KINDS)
def test_from_json_of_compaction_records_accepts_the_argument_name_of_pylance(kind: type, document: dict) -> None:
    assert kind.from_json(json=json.dumps(document)) == kind.from_json(json.dumps(document))


def test_compaction_task_json_with_an_unsupported_option_is_refused() -> None:
    with pytest.raises(NotSupportedError, match="force_binary_copy"):
        CompactionTask.from_json(json.dumps({**TASK, "options": {**OPTIONS, "compaction_mode": "ForceBinaryCopy"}}))


def test_compaction_metrics_are_added() -> None:
    one = CompactionMetrics(fragments_removed=1, files_added=2)
    assert CompactionMetrics.sum([one, one]) == CompactionMetrics(fragments_removed=2, files_added=4)
    assert CompactionMetrics.sum([]) == CompactionMetrics()
