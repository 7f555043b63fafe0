"""Four processes, two of them with pylance, concurrently upsert the same keys of a table: each key exists once."""

import json
from pathlib import Path

import lance
import pytest

import lance_core
from tests.support.processes import run_together, start_python
from tests.support.upserting_writer import SCHEMA

LIBRARIES = ["lance_core", "lance", "lance_core", "lance"]


@pytest.mark.slow
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
def test_upserts_of_the_same_keys_neither_lose_nor_duplicate_rows(tmp_path: Path, stable: bool) -> None:
    uri = str(tmp_path / "table")
    lance_core.write_dataset(SCHEMA.empty_table(), uri, enable_stable_row_ids=stable)
    processes = [
        start_python("-m", "tests.support.upserting_writer", library, uri, str(writer), "6")
        for writer, library in enumerate(LIBRARIES)
    ]
    answers = [json.loads(answer) for answer in run_together(processes, timeout=550)]
    expected = sorted({key for keys in answers for key in keys})
    for library in (lance, lance_core):
        dataset = library.dataset(uri)
        dataset.validate()
        table = dataset.to_table(columns=["key", "writer", "_rowid"])
        assert sorted(table["key"].to_pylist()) == expected
        assert all(row["key"] in answers[row["writer"]] for row in table.to_pylist())
        assert len(set(table["_rowid"].to_pylist())) == len(expected)
    assert lance_core.dataset(uri).version == 1 + 6 * len(LIBRARIES)
