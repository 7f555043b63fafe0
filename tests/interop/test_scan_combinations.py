"""Random combinations of scan arguments return the same rows as in pylance, in format 2.0 and later."""

import random
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.dataset import serialize_row_addrs

import lance_core

VERSIONS = ["2.0", "2.1", "2.2"]
NUM_ROWS = 300
FILTERS = [
    "a > 100",
    "s = 't3'",
    "a is null",
    "p.x < 50 and s is not null",
    "_rowid > 40",
    "_rowaddr < 30",
    "a % 2 = 0 or s = 't1'",
    "true",
    "false",
    "l is not null and a < 200",
    "_rowid is null",
]
COLUMNS = [["a"], ["s", "a"], ["p.x", "s"], ["p"], ["l"], ["a", "_rowid"], ["_rowaddr", "a"], ["a", "_rowoffset"], []]
REFUSED_BY_PYLANCE = "with_deleted_rows / only_indexed_fragments are not supported when taking rows"


@pytest.fixture(scope="module")
def uris(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The URIs of tables with deleted rows; those with stable row ids are compacted."""
    table = pa.table(
        {
            "a": [None if row % 13 == 5 else row for row in range(NUM_ROWS)],
            "s": [None if row % 7 == 1 else f"t{row % 11}" for row in range(NUM_ROWS)],
            "p": [{"x": row, "y": f"{row % 5}"} for row in range(NUM_ROWS)],
            "l": [[row] * (row % 4) for row in range(NUM_ROWS)],
        }
    )
    root = tmp_path_factory.mktemp("scans")
    return [_written(table, root, version, stable) for version in VERSIONS for stable in (False, True)]


def _written(table: pa.Table, root: Path, version: str, stable: bool) -> str:
    uri = str(root / f"{version} {stable}")
    dataset = lance.write_dataset(
        table, uri, data_storage_version=version, max_rows_per_file=70, enable_stable_row_ids=stable
    )
    dataset.delete("a % 9 = 2")
    dataset.delete("a > 140 and a < 160")
    if stable:
        dataset.optimize.compact_files(target_rows_per_fragment=100)
        dataset.delete("a % 17 = 3")
    return uri


def _arguments(chance: random.Random) -> dict[str, Any]:
    options: dict[str, tuple[float, list[Any]]] = {
        "filter": (0.8, FILTERS),
        "columns": (0.8, COLUMNS),
        "limit": (0.4, [0, 1, 5, 60, 1000]),
        "offset": (0.4, [0, 1, 33, 250]),
        "with_row_id": (0.4, [True]),
        "with_row_address": (0.3, [True]),
        "batch_size": (0.4, [1, 7, 64]),
    }
    given = {name: chance.choice(values) for name, (share, values) in options.items() if chance.random() < share}
    match chance.randrange(4):
        case 0:
            given["strict_batch_size"] = True
        case 1:
            given["batch_size_bytes"] = chance.choice([1, 100, 3000])
    match chance.randrange(4):
        case 0:
            given |= {"include_deleted_rows": True, "with_row_id": True}
        case 1:
            rows = [*chance.sample(range(NUM_ROWS), 120), *range(1 << 32, (1 << 32) + 70, 3)]
            given[chance.choice(["row_addr_allowlist", "row_addr_blocklist"])] = serialize_row_addrs(rows)
    return given


@pytest.mark.parametrize("seed", range(400))
@pytest.mark.sampled(60)
def test_random_arguments_select_the_same_rows_and_columns_as_pylance(uris: list[str], seed: int) -> None:
    chance = random.Random(seed)
    uri, arguments, picks = chance.choice(uris), _arguments(chance), chance.random() < 0.2
    ours, theirs = (
        dataset.scanner(**arguments, fragments=dataset.get_fragments()[::-2] if picks else None)
        for dataset in (lance_core.dataset(uri), lance.dataset(uri))
    )
    found = ours.to_table()
    sizes = [batch.num_rows for batch in ours.to_batches()]
    assert sum(sizes) == found.num_rows
    assert max(sizes, default=0) <= arguments.get("batch_size", 8192)
    try:
        expected = theirs.to_table()
    except ValueError as error:
        if REFUSED_BY_PYLANCE not in str(error):
            raise
        return
    assert found.schema.equals(expected.schema)
    assert found.num_rows == expected.num_rows
    assert found.to_pylist() == expected.to_pylist()
    if "strict_batch_size" in arguments:
        assert sizes == [batch.num_rows for batch in theirs.to_batches()]
