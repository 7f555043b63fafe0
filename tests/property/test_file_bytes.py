"""Files in formats 2.0 and 0.1 with one batch equal those of pylance 14.0.2 byte for byte.

Metadata of fields is left out: its entries have no order. In 0.1 only tables are compared that the format keeps: what
lies under nulls is stored by the reference and left out here.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import lance_core
from lance_core.file.lance_file import LanceFileWriter
from tests.support.random_tables import RandomTable

lance = pytest.importorskip("lance", reason="pylance is the other implementation")
reference = pytest.importorskip("lance.file", reason="pylance is the other implementation")

NUM_SEEDS = 40
SEEDS = [pytest.param(seed, marks=[] if seed < NUM_SEEDS else pytest.mark.soak) for seed in range(500)]


def one_batch(seed, version):
    """Return a random batch without offsets."""
    batch = RandomTable(seed, version).batches[0]
    schema = pa.schema([field.remove_metadata() for field in batch.schema])
    return pa.record_batch([pa.concat_arrays([array[:0], array]) for array in batch.columns], schema=schema)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.sampled(12)
def test_a_file_in_format_2_0_has_the_same_bytes_as_in_pylance(seed, tmp_path):
    batch = one_batch(seed, "2.0")
    for name, writer_class in [("ours", LanceFileWriter), ("theirs", reference.LanceFileWriter)]:
        with writer_class(str(tmp_path / name), batch.schema, version="2.0") as writer:
            writer.write_batch(batch)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.sampled(12)
def test_a_file_in_format_0_1_has_the_same_bytes_as_in_pylance(seed, tmp_path):
    table = pa.Table.from_batches([one_batch(seed, "0.1")])
    written = []
    for name, library in [("ours", lance_core), ("theirs", lance)]:
        library.write_dataset(table, str(tmp_path / name), data_storage_version="0.1")
        [path] = (tmp_path / name / "data").iterdir()
        written.append(path.read_bytes())
    assert written[0] == written[1]
