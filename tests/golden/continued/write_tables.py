"""Write the golden tables of one old release of pylance. Run this script with a Python that has that release installed.

For every data file version of the release, the script creates a small table, appends to it, and, where the release
supports it, deletes rows and merges a column.

Usage: ``python write_tables.py DIRECTORY``, once per release; then ``cd DIRECTORY && zip -9rX tables.zip .`` creates
the archive in this directory. The values depend only on the row number (see ``rows``); the test computes them again."""

import inspect
import os
import sys

import lance
import pyarrow as pa


def rows(start, stop):
    """The rows of these numbers."""
    ids = range(start, stop)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "text": pa.array([f"row {i}" if i % 7 else None for i in ids]),
            "flag": pa.array([i % 3 == 0 for i in ids]),
            "pair": pa.array([{"x": i, "y": [f"t{i}"] * (i % 3)} for i in ids]),
            "vector": pa.array([[float(i), 0.5] for i in ids], pa.list_(pa.float32(), 2)),
            "word": pa.array([["p", "q", "r"][i % 3] for i in ids]).dictionary_encode(),
        }
    )


def write(uri, has_dictionaries, **options):
    """One table."""

    def some(start, stop):
        found = rows(start, stop)
        return found if has_dictionaries else found.drop(["word"])

    lance.write_dataset(some(0, 12), uri, max_rows_per_group=5, **options)
    # The dictionary of a 0.1 table does not change.
    lance.write_dataset(some(12, 18), uri, mode="append", **options)
    if hasattr(lance.LanceDataset, "delete"):
        lance.dataset(uri).delete("id = 5 OR id = 13")
    if hasattr(lance.LanceDataset, "merge"):
        merged = pa.table({"id": pa.array(range(18), pa.int64()), "extra": pa.array([f"e{i}" for i in range(18)])})
        lance.dataset(uri).merge(merged, "id")


def main(directory):
    """All tables of the release that runs this."""
    release = lance.__version__
    parameters = inspect.signature(lance.write_dataset).parameters
    if "data_storage_version" in parameters:
        choices = {name: {"data_storage_version": name} for name in ("legacy", "2.0", "2.1", "2.2")}
    elif "use_legacy_format" in parameters:
        choices = {"legacy": {"use_legacy_format": True}, "2.0": {"use_legacy_format": False}}
    else:
        choices = {"legacy": {}}
    for name, options in choices.items():
        # 2.0 learned dictionaries in 0.16.
        early = tuple(int(part) for part in release.split(".")[:2]) < (0, 16)
        version = "0.1" if name == "legacy" else name
        uri = os.path.join(directory, f"{release}-{version}")
        try:
            # 0.4 appends no dictionary that has come from another array.
            write(uri, not (early and name == "2.0") and release != "0.4.21", **options)
        except BaseException as error:  # noqa: BLE001  # a panic of the reference is no Exception
            print("not written:", uri, type(error).__name__, str(error)[:100])


if __name__ == "__main__":
    main(sys.argv[1])
