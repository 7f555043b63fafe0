"""Write tables with the defects of old releases. Run this script with each release in turn, oldest first.

Each release adds its data to the tables, and adds its name to the ``case.json`` of each table that it has written to.

Usage: ``python write_tables.py DIRECTORY`` with pylance 0.7.5, 0.8.0, 0.8.14, 0.10.5, 0.10.18, 0.16.1 and 0.21.0, each
with pyarrow 14.0.2 and numpy 1.26.4; then ``cd DIRECTORY && zip -9rX tables.zip .`` creates the archive in this
directory."""

import json
import os
import platform
import shutil
import sys

import lance
import numpy as np
import pyarrow as pa


def row_counts_begun(uri):
    """Rows, and deleted rows, of a release that records the number of neither."""
    lance.write_dataset(pa.table({"x": range(100)}), uri)
    lance.dataset(uri).delete("x >= 10 AND x < 20")


def row_counts(uri):
    """The number of rows that 0.8.0 adds for the older fragment is that of the live ones."""
    lance.write_dataset(pa.table({"x": range(100, 102)}), uri, mode="append")


def shared_field_ids(uri):
    """Two of the columns added last get the ids of columns that were dropped, whose files are still there."""
    lance.write_dataset(pa.table({"x": range(4)}), uri)
    dataset = lance.write_dataset(pa.table({"x": range(4, 6)}), uri, mode="append")
    dataset.add_columns({"y": "x * 2", "z": "x * 3"})
    dataset.add_columns({"a": "-x"})
    dataset.drop_columns(["a", "z"])
    dataset.add_columns({"b": "x * 4", "c": "x * 5"})
    more = pa.table({name: [6 * factor, 7 * factor] for name, factor in (("x", 1), ("y", 2), ("b", 4), ("c", 5))})
    lance.write_dataset(more, uri, mode="append")


def renumbered_field_ids_begun(uri):
    """The same, without rows that were appended later."""
    dataset = lance.write_dataset(pa.table({"x": range(4)}), uri)
    dataset.add_columns({"y": "x * 2", "z": "x * 3"})
    dataset.add_columns({"a": "-x"})
    dataset.drop_columns(["a", "z"])
    dataset.add_columns({"b": "x * 4", "c": "x * 5"})


def partly_renumbered_field_ids_begun(uri):
    """The same, with an id that is shared and one that is not in the last file."""
    dataset = lance.write_dataset(pa.table({"x": range(4)}), uri)
    dataset.add_columns({"y": "x * 2", "z": "x * 3"})
    dataset.drop_columns(["z"])
    dataset.add_columns({"b": "x * 4", "c": "x * 5"})


def renumbered_field_ids(uri):
    """A commit of a release that knows the defect gives the shared ids anew, in the schema and in the last files."""
    lance.dataset(uri).delete("false")


def _halves():
    return pa.table({"x": range(10)}), pa.table({"x": range(10, 20)})


def understated_format(uri):
    """Files in format 2.0, committed by themselves: the manifest records 0.1."""
    first, second = _halves()
    written = [lance.fragment.write_fragments(rows, uri, data_storage_version="2.0") for rows in (first, second)]
    made = lance.LanceDataset.commit(uri, lance.LanceOperation.Overwrite(first.schema, written[0]))
    lance.LanceDataset.commit(uri, lance.LanceOperation.Append(written[1]), read_version=made.version)


def mixed_formats(uri):
    """The same, and rows that were appended in the format that the manifest records."""
    first, second = _halves()
    written = lance.fragment.write_fragments(first, uri, data_storage_version="2.0")
    lance.LanceDataset.commit(uri, lance.LanceOperation.Overwrite(first.schema, written))
    lance.write_dataset(second, uri, mode="append")


def _vectors(start, stop):
    values = np.random.default_rng(start).random((stop - start) * 4, dtype=np.float32)
    return pa.table({"x": range(start, stop), "vector": pa.FixedSizeListArray.from_arrays(pa.array(values), 4)})


def _index(dataset):
    dataset.create_index("vector", index_type="IVF_PQ", num_partitions=1, num_sub_vectors=1)


def unreliable_coverage(uri):
    """An index, and a compaction, of a release that could get the fragments wrong."""
    lance.write_dataset(_vectors(0, 256), uri)
    _index(lance.write_dataset(_vectors(256, 280), uri, mode="append"))
    lance.dataset(uri).optimize.compact_files()
    lance.write_dataset(_vectors(280, 288), uri, mode="append")


def overlapping_coverage(uri):
    """The second segment holds the appended rows, and says that it covers the first fragment too."""
    dataset = lance.write_dataset(_vectors(0, 256), uri)
    _index(dataset)
    dataset.insert(_vectors(256, 288))
    dataset.optimize.optimize_indices(num_indices_to_merge=0)


STEPS = {
    "0.7.5": {"row-counts": row_counts_begun},
    "0.8.0": {"row-counts": row_counts},
    "0.8.14": {"unreliable-coverage": unreliable_coverage},
    "0.10.5": {
        "shared-field-ids": shared_field_ids,
        "renumbered-field-ids": renumbered_field_ids_begun,
        "partly-renumbered-field-ids": partly_renumbered_field_ids_begun,
    },
    "0.10.18": {
        "renumbered-field-ids": renumbered_field_ids,
        "partly-renumbered-field-ids": renumbered_field_ids,
    },
    "0.16.1": {"understated-format": understated_format, "mixed-formats": mixed_formats},
    "0.21.0": {"overlapping-coverage": overlapping_coverage},
}


def main(directory):
    """What the release that runs this has to add."""
    for case, step in STEPS[lance.__version__].items():
        uri = os.path.join(directory, case, "table.lance")
        record = os.path.join(directory, case, "case.json")
        writers = []
        if os.path.exists(record):
            with open(record) as file:
                writers = json.load(file)["writers"]
        else:
            shutil.rmtree(uri, ignore_errors=True)
        step(uri)
        writers.append({"pylance": lance.__version__, "pyarrow": pa.__version__, "python": platform.python_version()})
        with open(record, "w") as file:
            json.dump({"case": case, "writers": writers}, file, indent=1)


if __name__ == "__main__":
    main(sys.argv[1])
