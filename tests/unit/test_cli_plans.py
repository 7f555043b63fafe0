"""The plan and apply commands of lance-core: a plan is applied as shown, or not at all if the table has changed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lance_core
from tests.support.commands import Run


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table of four fragments of ten rows; half of the rows of the second fragment are deleted."""
    uri = str(tmp_path / "t.lance")
    lance_core.write_dataset(pa.table({"k": range(40)}), uri, max_rows_per_file=10).delete("k in (10, 11, 12, 13, 14)")
    return uri


def _plan(run: Run, tmp_path: Path, *arguments: str) -> tuple[str, Any]:
    """Save a plan, and return its path and its content, which the command also prints."""
    path = tmp_path / "plan.json"
    code, output, errors = run("plan", *arguments, "--json", "--output", str(path))
    assert (code, errors) == (0, "")
    assert json.loads(output) == json.loads(path.read_text())
    return str(path), json.loads(output)


def _rows(uri: str) -> list[int]:
    return lance_core.dataset(uri).to_table()["k"].to_pylist()


def _files(uri: str) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in Path(uri).rglob("*") if path.is_file()}


def test_a_planned_compaction_is_applied(run: Run, uri: str, tmp_path: Path) -> None:
    before, files = _rows(uri), _files(uri)
    path, plan = _plan(run, tmp_path, "compaction", uri)
    assert (plan["dataset"], plan["action"], plan["plan"]["read_version"]) == (uri, "rewrite", 2)
    assert _files(uri) == files
    assert run("apply", path) == (0, "replaced 4 fragments with 1\n", "")
    assert (_rows(uri), len(lance_core.dataset(uri).get_fragments())) == (before, 1)


def test_plan_to_materialize_deletions_rewrites_only_fragments_with_many_deleted_rows(
    run: Run, uri: str, tmp_path: Path
) -> None:
    lance_core.dataset(uri).delete("k = 0")
    before = _rows(uri)
    code, output, _ = run("plan", "deletions", uri, "--threshold", "0.2")
    assert (code, output.splitlines()[0]) == (0, "rewrite 1 fragment of version 3 in 1 task")
    path, _ = _plan(run, tmp_path, "deletions", uri, "--threshold", "0.2")
    assert run("apply", path, "--json")[0] == 0
    fragments = lance_core.dataset(uri).get_fragments()
    assert sorted((fragment.physical_rows, fragment.num_deletions) for fragment in fragments) == [
        (5, 0),
        (10, 0),
        (10, 0),
        (10, 1),
    ]
    assert sorted(_rows(uri)) == before


def test_a_rewrite_is_refused_if_a_planned_fragment_has_changed(run: Run, uri: str, tmp_path: Path) -> None:
    path, _ = _plan(run, tmp_path, "compaction", uri)
    lance_core.dataset(uri).delete("k = 33")
    files = _files(uri)
    code, output, errors = run("apply", path)
    assert (code, output) == (3, "")
    assert "based on version 2, but these fragments have changed since: [3]" in errors
    assert _files(uri) == files


def test_a_rewrite_is_applied_although_rows_were_appended(run: Run, uri: str, tmp_path: Path) -> None:
    path, _ = _plan(run, tmp_path, "compaction", uri)
    lance_core.write_dataset(pa.table({"k": [40]}), uri, mode="append")
    assert run("apply", path)[0] == 0
    assert sorted(_rows(uri)) == [*range(10), *range(15, 41)]
    # If the plan is applied again, its fragments no longer exist.
    assert run("apply", path)[0] == 3


def test_a_planned_cleanup_is_applied(run: Run, uri: str, tmp_path: Path) -> None:
    path, plan = _plan(run, tmp_path, "cleanup", uri, "--retain-versions", "1")
    planned = {file["path"] for file in plan["plan"]["files"]}
    before = set(_files(uri))
    code, output, errors = run("apply", path)
    assert (code, errors) == (0, "")
    assert output.startswith("removed 1 version, ")
    removed = {os.fspath(path) for path in before - set(_files(uri))}
    assert len(removed) == len(planned) >= 1
    assert all(any(path.endswith(name) or name.endswith(path) for name in planned) for path in removed)
    assert [each["version"] for each in lance_core.dataset(uri).versions()] == [2]


def test_a_cleanup_is_refused_if_a_planned_version_has_been_tagged(run: Run, uri: str, tmp_path: Path) -> None:
    path, _ = _plan(run, tmp_path, "cleanup", uri, "--retain-versions", "1")
    lance_core.dataset(uri).tags.create("keep", 1)
    files = _files(uri)
    code, _, errors = run("apply", path)
    assert code == 3
    assert "nothing was removed" in errors
    assert _files(uri) == files


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"dataset": "x", "action": "unknown", "plan": {}}', '{"dataset": "x", "action": "rewrite"}'],
)
def test_a_file_that_is_not_a_plan_is_refused(run: Run, tmp_path: Path, content: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(content)
    code, output, errors = run("apply", str(path))
    assert (code, output) == (2, "")
    assert errors.startswith("lance-core: ")
    assert run("apply", str(tmp_path / "none.json"))[0] == 2


def test_invalid_settings_are_refused(run: Run, uri: str, tmp_path: Path) -> None:
    assert run("plan", "cleanup", uri, "--older-than", "7")[0] == 2
    assert run("plan", "compaction", uri, "--target-rows", "0")[0] == 2
    assert run("plan", "deletions", uri, "--output", str(tmp_path))[0] == 2
    assert run("plan", "compaction", f"{uri}-none")[0] == 2
