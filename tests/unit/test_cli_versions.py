"""The log, diff, verify and restore commands of lance-core, with their JSON output and exit codes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import RetryableCommitConflictError
from tests.support.commands import Run


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t.lance")
    rows = pa.table({"k": range(10), "s": ["a"] * 10})
    dataset = lance_core.write_dataset(rows, uri, max_rows_per_file=5, enable_stable_row_ids=True)
    dataset.delete("k in (1, 7)")
    lance_core.write_dataset(rows.slice(0, 2), uri, mode="append", commit_message="two more")
    return uri


def _json(run: Run, *arguments: str) -> Any:
    code, output, errors = run(*arguments, "--json")
    assert errors == ""
    return code, json.loads(output)


def test_log_lists_versions_newest_first_with_operation_and_message(run: Run, uri: str) -> None:
    code, output, errors = run("log", uri)
    assert (code, errors) == (0, "")
    assert [(line[0], line[22:]) for line in output.splitlines()] == [
        ("3", "append, rows: 10: two more"),
        ("2", "delete, rows: 8"),
        ("1", "overwrite, rows: 10"),
    ]
    code, document = _json(run, "log", uri, "--limit", "2")
    assert [each["version"] for each in document["versions"]] == [3, 2]
    assert document["versions"][0]["message"] == "two more"
    assert document["versions"][1]["num_fragments"] == 2


def test_diff_counts_rows_and_lists_changed_columns_and_settings(run: Run, uri: str) -> None:
    dataset = lance_core.dataset(uri)
    dataset.update_config({"a": "1"})
    dataset.add_columns({"n": "k + 1"})
    code, document = _json(run, "diff", uri, "1", "5")
    assert code == 0
    assert {name: document[name] for name in document if name.startswith("rows")} == {
        "rows_before": 10,
        "rows_after": 10,
        "rows_added": 2,
        "rows_removed": 2,
        # Rows that gain a column count as updated.
        "rows_updated": 8,
    }
    assert document["schema"] == {"added": ["n"], "removed": [], "changed": []}
    assert document["fragments"] == {"added": [2], "removed": [], "changed": [0, 1]}
    assert document["config"] == {"added": ["a"], "removed": [], "changed": []}
    assert document["indices"] == document["metadata"] == {"added": [], "removed": [], "changed": []}
    _, output, _ = run("diff", uri, "5", "3")
    assert output.splitlines() == [
        "versions 5 and 3",
        "rows: 10 and 10 (0 added, 0 removed, 10 updated)",
        "schema: 1 removed (n)",
        "fragments: 3 changed (0, 1, 2)",
        "config: 1 removed (a)",
        "metadata: no changes",
        "indices: no changes",
    ]


def test_diff_accepts_tags_and_refuses_unknown_versions(run: Run, uri: str) -> None:
    lance_core.dataset(uri).tags.create("first", 1)
    assert _json(run, "diff", uri, "first", "2")[1]["rows_removed"] == 2
    assert run("diff", uri, "1", "9")[0] == 2
    assert run("diff", uri, "1", "none")[0] == 2


def test_diff_without_stable_row_ids_does_not_count_updated_rows(run: Run, tmp_path: Path) -> None:
    uri = str(tmp_path / "plain.lance")
    lance_core.write_dataset(pa.table({"k": [1, 2]}), uri).delete("k = 1")
    assert _json(run, "diff", uri, "1", "2")[1]["rows_updated"] is None


def test_verify_exits_with_code_1_only_if_it_finds_a_problem(run: Run, uri: str) -> None:
    assert run("verify", uri) == (0, "no problems found\n", "")
    assert run("verify", uri, "--pages", "--version", "1") == (0, "no problems found\n", "")
    file = lance_core.dataset(uri).get_fragments()[0].data_files()[0]
    Path(uri, "data", file.path).unlink()
    code, output, errors = run("verify", uri)
    assert (code, errors) == (1, "")
    assert output.startswith("version 3: ")
    assert file.path in output
    code, document = _json(run, "verify", uri)
    assert (code, [each["place"] for each in document["problems"]]) == (1, ["version 3"])
    assert run("verify", uri, "--version", "9")[0] == 2
    assert run("verify", f"{uri}-none")[0] == 2


def test_restore_creates_a_version_with_the_content_of_an_earlier_one(run: Run, uri: str) -> None:
    assert run("restore", uri, "1") == (0, "version 4 has the content of version 1\n", "")
    assert lance_core.dataset(uri).count_rows() == 10
    lance_core.dataset(uri).tags.create("deleted", 2)
    code, document = _json(run, "restore", uri, "deleted")
    assert (code, document) == (0, {"dataset": uri, "restored_version": 2, "version": 5})
    assert run("restore", uri, "77")[0] == 2


def test_conflict_has_a_distinct_exit_code(run: Run, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def conflict(self: object) -> None:
        raise RetryableCommitConflictError("another writer was faster")

    monkeypatch.setattr(lance_core.LanceDataset, "restore", conflict)
    assert run("restore", uri, "1") == (3, "", "lance-core: another writer was faster\n")


def test_interrupt_has_a_distinct_exit_code(run: Run, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lance_core.cli.checking.find_faults", interrupt)
    assert run("verify", uri) == (130, "", "lance-core: interrupted\n")


def test_negative_limit_is_refused(run: Run, uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        run("log", uri, "--limit", "-1")
    assert raised.value.code == 2
    assert "expected a whole number that is not negative, found '-1'" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["describe", "inspect", "log", "diff", "verify", "doctor"])
def test_every_command_prints_json(run: Run, uri: str, command: str) -> None:
    file = lance_core.dataset(uri).get_fragments()[0].data_files()[0].path
    target = f"{uri}/data/{file}" if command == "describe" else uri
    code, document = _json(run, command, target, *(["1", "2"] if command == "diff" else []))
    assert code == 0
    assert document["file" if command == "describe" else "dataset"] == target


def test_json_output_of_inspect_has_the_schema_and_the_files(run: Run, uri: str) -> None:
    _, document = _json(run, "inspect", uri)
    assert [field["name"] for field in document["schema"]] == ["k", "s"]
    assert [fragment["num_deleted_rows"] for fragment in document["fragments"]] == [1, 1, 0]
    assert document["fragments"][0]["files"][0]["fields"] == [0, 1]
    assert (document["version"], document["latest_version"], document["num_rows"]) == (3, 3, 10)


def test_progress_is_shown_on_a_terminal_only(run: Run, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    code, output, errors = run("verify", uri)
    assert (code, output) == (0, "no problems found\n")
    assert errors != ""
