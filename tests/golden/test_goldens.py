"""Files and tables written by releases of pylance from 0.4.21 to 14.0.2 are read with the correct values.

``README.md`` in this directory explains what is stored, who wrote it, and how the expected rows were obtained."""

from __future__ import annotations

import functools
import json
import random
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

import lance_core
from lance_core.file.lance_file import LanceFileReader

HERE = Path(__file__).parent
CASES = json.loads((HERE / "cases.json").read_text())
MAX_RANDOM_ROWS = 12


def identifier(case):
    return f"{case['release']}-{Path(case['path']).parent.name}"


def rows_of(column):
    """Values as text, in which NaN equals itself and -0.0 differs from 0.0."""
    return [repr(value) for value in column.to_pylist()]


@functools.cache
def expected_table(name):
    with zipfile.ZipFile(HERE / "expected.zip") as archive:
        return pa.ipc.open_file(archive.read(name)).read_all()


@functools.cache
def expected_rows(name):
    table = expected_table(name)
    return {column: rows_of(table.column(column)) for column in table.column_names}


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    """Return a function from a release to the directory with its tables and files, unpacked on first use."""
    root = tmp_path_factory.mktemp("goldens")

    @functools.cache
    def unpacked(release):
        with zipfile.ZipFile(HERE / "data" / f"{release}.zip") as archive:
            archive.extractall(root / release)
        return root / release

    return unpacked


def assert_equal(found, case):
    expected, rows = expected_table(case["expected"]), expected_rows(case["expected"])
    assert set(found.column_names) == set(expected.column_names)
    found.validate(full=True)
    for name in expected.column_names:
        assert found.schema.field(name).type == expected.schema.field(name).type, name
        assert rows_of(found.column(name)) == rows[name], name


@pytest.mark.parametrize("case", [case for case in CASES if case["path"].endswith("table.lance")], ids=identifier)
@pytest.mark.sampled(60)
def test_a_golden_table_is_read_with_the_expected_values(case, releases):
    found = lance_core.dataset(str(releases(case["release"]) / case["path"])).to_table()
    assert_equal(found, case)


@pytest.mark.parametrize("case", [case for case in CASES if case["path"].endswith("file.lance")], ids=identifier)
@pytest.mark.sampled(12)
def test_a_golden_file_is_read_with_the_expected_values(case, releases):
    path = releases(case["release"]) / case["path"]
    assert_equal(LanceFileReader(str(path)).read_all().to_table(), case)
    check_parts(path)


@pytest.mark.parametrize("case", [case for case in CASES if case["path"].endswith("table.lance")], ids=identifier)
@pytest.mark.sampled(30)
def test_data_files_of_a_golden_table_contain_consecutive_rows_of_the_table(case, releases):
    """Each file is read separately, and partial reads equal the full read."""
    rows = expected_rows(case["expected"])
    files = sorted((releases(case["release"]) / case["path"]).glob("data/*.lance"))
    assert files
    for path in files:
        whole = check_parts(path)
        if not case["case"].startswith("deleted"):
            for name in whole.column_names:
                assert is_stretch(rows_of(whole.column(name)), rows[name]), name


def is_stretch(part, whole):
    return any(part == whole[start : start + len(part)] for start in {0, len(whole) - len(part)})


def check_parts(path):
    """Check that ranges, single rows, and single columns of a file equal parts of a full read, which is returned."""
    whole = LanceFileReader(str(path)).read_all().to_table()
    rows = {name: rows_of(whole.column(name)) for name in whole.column_names}
    chooser = random.Random(whole.num_rows)
    start = chooser.randrange(whole.num_rows)
    stop = min(whole.num_rows, start + MAX_RANDOM_ROWS)
    taken = sorted(chooser.sample(range(whole.num_rows), min(whole.num_rows, MAX_RANDOM_ROWS)))
    reader = LanceFileReader(str(path))
    part, single = reader.read_range(start, stop - start).to_table(), reader.take_rows(taken).to_table()
    for name, expected in rows.items():
        assert rows_of(part.column(name)) == expected[start:stop], name
        assert rows_of(single.column(name)) == [expected[row] for row in taken], name
    chosen = chooser.choice(whole.column_names)
    assert rows_of(LanceFileReader(str(path), columns=[chosen]).read_all().to_table().column(0)) == rows[chosen]
    return whole
