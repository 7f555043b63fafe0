"""The Python examples in the guides about tables run in the order in which they appear on the page."""

from __future__ import annotations

import contextlib
import re
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lance_core
from lance_core import cli
from lance_core.errors import DatasetNotFoundError
from tests.support import documentation


def examples(guide: str) -> list[str]:
    return documentation.examples(f"docs/guides/{guide}")


def run(text: str, root: Path, namespace: dict[str, Any]) -> None:
    """Run an example, with its absolute paths replaced by paths below ``root``."""
    below = re.sub(r'(?<=")(file://)?/(?=\w)', lambda scheme: f"{scheme[1] or ''}{root}/", text)
    exec(compile(below, "guide", "exec"), namespace)


def test_blob_examples_read_the_blobs_they_wrote(tmp_path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "1.jpg").write_bytes(b"a photo")
    (tmp_path / "all.bin").write_bytes(bytes(range(200)))
    namespace: dict[str, Any] = {"uri": str(tmp_path / "images.lance")}
    for text in examples("blobs.md"):
        run(text, tmp_path, namespace)
    ((request, address, value),) = namespace["dataset"].read_blob_ranges("image", [(2, 0, 5)], selector="ids")
    assert (request, address, value) == (0, 2, bytes(range(100, 105)))


def test_reading_examples_read_the_rows_they_wrote(tmp_path) -> None:
    namespace: dict[str, Any] = {"uri": str(tmp_path / "table.lance")}
    for text in examples("read-tables.md"):
        run(text, tmp_path, namespace)
    assert namespace["table"].num_rows == 10
    assert namespace["frame"]["id"].tolist() == [0, 1, 2, 3, 4]
    assert namespace["num_cheap"] == 4


def test_examples_that_change_rows_produce_the_rows_they_describe(tmp_path, capsys) -> None:
    namespace: dict[str, Any] = {"uri": str(tmp_path / "table.lance")}
    for text in examples("change-rows.md"):
        run(text, tmp_path, namespace)
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if line.startswith("{")] == [
        "{'num_rows_updated': 2}",
        "{'num_inserted_rows': 2, 'num_updated_rows': 1, 'num_deleted_rows': 0}",
    ]
    assert "MergeInsert: on=[id], when_matched=UpdateAll" in "\n".join(printed)
    assert sorted(namespace["dataset"].to_table().to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "name": "ADA", "price": 2.0},
        {"id": 2, "name": "Bo", "price": 1.0},
        {"id": 4, "name": "Dee", "price": 4.5},
        {"id": 5, "name": "Eve", "price": 5.5},
        {"id": 7, "name": "Gil", "price": 7.5},
        {"id": 8, "name": "Hal", "price": 8.5},
    ]


def test_examples_that_change_columns_produce_the_table_they_describe(tmp_path) -> None:
    namespace: dict[str, Any] = {"uri": str(tmp_path / "table.lance"), "checkpoint": tmp_path / "lengths.sqlite"}
    for text in examples("change-columns.md"):
        run(text, tmp_path, namespace)
    dataset = namespace["dataset"]
    names = ["customer", "price", "gross", "rating", "embedding", "length", "rank", "country", "net", "id"]
    assert dataset.schema.names == names
    assert dataset.schema.field("price").type == pa.float32()
    assert namespace["countries"]["country"].to_pylist() == ["GB", None, None, "CH"]
    assert dataset.to_table(columns=["id", "rating", "length"]).to_pylist() == [
        {"id": "1", "rating": 5, "length": 3},
        {"id": "2", "rating": None, "length": 3},
        {"id": "3", "rating": 4, "length": 3},
        {"id": "4", "rating": None, "length": 3},
    ]
    assert len(dataset.versions()) == 1
    assert not (tmp_path / "lengths.sqlite").exists()


def test_commands_in_the_command_line_guide_succeed(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    for start in range(3):
        lance_core.write_dataset(pa.table({"x": [start, 9]}), "points.lance", mode="append", max_rows_per_file=1)
    blocks = documentation.examples("docs/guides/command-line.md", "bash")
    commands = [line.removeprefix("lance-core ") for block in blocks for line in block.splitlines()]
    assert len(commands) == 13
    outputs = {}
    for command in commands:
        assert cli.main(shlex.split(command)) == 0
        outputs[command] = capsys.readouterr().out
    assert outputs["verify points.lance --json"] == '{\n  "dataset": "points.lance",\n  "problems": []\n}\n'
    assert outputs["apply compaction.json"] == "replaced 2 fragments with 1\n"
    for example in examples("command-line.md"):
        run(example, tmp_path, {"uri": "points.lance"})
    assert lance_core.dataset("points.lance").version >= 5


@pytest.mark.parametrize("text", examples("branches.md"))
def test_branch_example_runs(text, tmp_path) -> None:
    rows = pa.table({"x": [-1, 0, 1]})
    namespace: dict[str, Any] = {"lance_core": lance_core, "rows": rows, "old_rows": rows, "more": rows}
    if "initial_bases" not in text:
        for _ in range(3):
            namespace["main"] = lance_core.write_dataset(rows, str(tmp_path / "data" / "points"), mode="append")
        namespace["main"].tags.create("release", 2)
        if "create_branch" not in text:
            namespace["main"].create_branch("team/trial")
    run(text, tmp_path, namespace)


def test_doctor_example_runs(tmp_path) -> None:
    uri = str(tmp_path / "points")
    lance_core.write_dataset(pa.table({"x": [1]}), uri)
    (text,) = examples("doctor.md")
    run(text, tmp_path, {"uri": uri, "storage_options": None})


def test_object_store_examples_run(tmp_path, monkeypatch) -> None:
    """The examples use a directory instead of a bucket, except for the last, which uses a registered store."""
    locks: list[str] = []

    class Redis:
        def lock(self, name: str, timeout: int) -> contextlib.AbstractContextManager[None]:
            locks.append(name)
            return contextlib.nullcontext()

    namespace: dict[str, Any] = {
        "lance_core": lance_core,
        "contextmanager": contextlib.contextmanager,
        "redis": Redis(),
        "table": pa.table({"x": [-1, 2]}),
        "uri": str(tmp_path / "bucket" / "points"),
    }
    monkeypatch.setattr("logging.Logger.setLevel", lambda *_: None)
    for text in examples("object-stores.md"):
        run(text.replace('"s3://', '"/'), tmp_path, namespace)
    assert locks == ["points-2", "points-3"]
    assert lance_core.dataset(namespace["uri"]).to_table()["x"].to_pylist() == [2, 2]
    assert namespace["counting"].num_gets > 0
    with pytest.raises(DatasetNotFoundError):
        lance_core.dataset("memory://counted/points")
