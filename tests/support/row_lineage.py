"""Tables with a history, and comparisons of row ids and row versions between both implementations."""

import lance
import lance.fragment
import pyarrow as pa

import lance_core
from tests.support.matrix_operations import to_ours

LINEAGE = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
ROW_COLUMNS = ["_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"]
SPILL = {"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "0"}


def rows(start: int, stop: int, text: str = "new") -> pa.Table:
    """Return rows numbered in column a."""
    numbers = range(start, stop)
    return pa.table(
        {
            "a": pa.array(numbers, pa.int64()),
            "s": pa.array([text for _ in numbers], pa.string()),
            "x": pa.array(
                [{"y": number, "z": "z"} for number in numbers], pa.struct({"y": pa.int64(), "z": pa.string()})
            ),
        }
    )


def make(uri: str, *, stable: bool, spill: bool = False) -> None:
    """Create versions with moved, deleted, compacted, inserted, and unchanged rows, all with the reference."""
    lance.write_dataset(rows(0, 60), uri, max_rows_per_file=20, enable_stable_row_ids=stable)
    if spill:
        lance.dataset(uri).update_config(SPILL)
    lance.write_dataset(rows(60, 75), uri, mode="append")
    lance.dataset(uri).update({"s": "'moved'"}, where="a in (3, 5, 15, 21, 41, 62)")
    lance.dataset(uri).delete("a in (0, 4, 22, 41, 74)")
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=40)
    source = pa.concat_tables([rows(14, 18, "merged"), rows(75, 80, "merged")])
    lance.dataset(uri).merge_insert("a").when_matched_update_all().when_not_matched_insert_all().execute(source)
    lance.dataset(uri).delete("a = 16 or a = 30")
    lance.write_dataset(rows(80, 90), uri, mode="append")


def assert_same_lineage(uri: str, *, every_version: bool = False) -> dict[int, tuple[int, ...]]:
    """Both implementations give every row the same id, address and versions.

    Returns:
        Of the latest version: value of a -> id, created at, last updated at.
    """
    lance.dataset(uri).validate()
    lance_core.dataset(uri).validate()
    latest = lance.dataset(uri).version
    for version in range(1, latest + 1) if every_version else [latest]:
        theirs, ours = lance.dataset(uri, version=version), lance_core.dataset(uri, version=version)
        expected = theirs.to_table(columns=["a", "s", *ROW_COLUMNS])
        assert ours.to_table(columns=["a", "s", *ROW_COLUMNS]).equals(expected)
    found = expected.select(["a", *LINEAGE]).to_pydict()
    return dict(zip(found["a"], zip(*(found[name] for name in LINEAGE), strict=True), strict=True))


def update_by_ours(uri: str, *numbers: int, fresh: int = 0) -> None:
    """Move rows into a new fragment, the way the reference does, in a commit of ours; fresh rows follow them."""
    dataset = lance.dataset(uri)
    columns = ["a", "_rowid", "_rowaddr"]
    found = dataset.to_table(columns=columns, filter=f"a in ({', '.join(map(str, numbers))})").to_pydict()
    moved = [row for number in numbers for row in rows(number, number + 1, "ours").to_pylist()]
    added = [row for number in range(1000, 1000 + fresh) for row in rows(number, number + 1, "ours").to_pylist()]
    schema = rows(0, 1).schema
    new = lance.fragment.LanceFragment.create(uri, pa.Table.from_pylist(moved + added, schema))
    if dataset.has_stable_row_ids:
        ids = dict(zip(found["a"], found["_rowid"], strict=True))
        new.row_id_meta = lance.fragment.RowIdSequence([ids[number] for number in numbers]).to_inline_metadata()
    touched = {address >> 32 for address in found["_rowaddr"]}
    changed = {each: dataset.get_fragment(each).delete(f"a in ({', '.join(map(str, numbers))})") for each in touched}
    operation = lance.LanceOperation.Update(
        removed_fragment_ids=[each for each, left in changed.items() if left is None],
        updated_fragments=[left for left in changed.values() if left is not None],
        new_fragments=[new],
        fields_for_preserving_frag_bitmap=[1],
    )
    lance_core.LanceDataset.commit(uri, to_ours(operation), read_version=dataset.version)
