"""``LanceFragment.create`` writes one fragment, as in pylance, and either library can commit it."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core

EACH = pytest.mark.parametrize("library", [lance, lance_core])
CHAINS = pytest.mark.parametrize(("writer", "committer"), [(lance_core, lance), (lance, lance_core)])
ROWS = pa.table({"a": list(range(10)), "b": ["x"] * 10})


def comparable(fragment: Any) -> dict[str, Any]:
    """Return the metadata of a fragment without random values."""
    document = fragment.to_json()
    for file in document["files"]:
        del file["path"], file["file_size_bytes"]
    return document


@pytest.mark.parametrize(
    ("rows", "arguments"),
    [
        (ROWS, {}),
        (ROWS, {"fragment_id": 7}),
        (ROWS, {"mode": "create"}),
        (pa.table({"z": [1.5]}), {"mode": "overwrite"}),
        (ROWS, {"mode": "overwrite", "data_storage_version": "2.0"}),
    ],
)
def test_created_fragment_has_the_same_metadata_as_in_pylance(
    rows: pa.Table, arguments: dict[str, Any], tmp_path: Path
) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(ROWS, uri)
    ours, theirs = (library.LanceFragment.create(uri, rows, **arguments) for library in (lance_core, lance))
    assert comparable(ours) == comparable(theirs)


@CHAINS
def test_created_fragment_can_be_committed_by_the_other_library(
    writer: ModuleType, committer: ModuleType, tmp_path: Path
) -> None:
    uri = str(tmp_path / "t")
    committer.write_dataset(ROWS, uri)
    created = writer.LanceFragment.create(uri, ROWS)
    fragment = committer.FragmentMetadata.from_json(json.dumps(created.to_json()))
    committer.LanceDataset.commit(uri, committer.LanceOperation.Append([fragment]), read_version=1)
    assert writer.dataset(uri).to_table() == pa.concat_tables([ROWS, ROWS])


@EACH
def test_creating_a_fragment_without_rows_is_refused(library: ModuleType, tmp_path: Path) -> None:
    with pytest.raises((OSError, ValueError)):
        library.LanceFragment.create(str(tmp_path / "t"), ROWS.slice(0, 0))
    # pylance leaves the file.
    assert library is lance or not list(tmp_path.rglob("*.lance"))


@EACH
def test_creating_a_fragment_with_unknown_columns_for_an_existing_table_is_refused(
    library: ModuleType, tmp_path: Path
) -> None:
    uri = str(tmp_path / "t")
    library.write_dataset(ROWS, uri)
    with pytest.raises(OSError, match=r"schema|column"):
        library.LanceFragment.create(uri, pa.table({"z": [1]}))
