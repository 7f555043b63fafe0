"""``describe_file`` returns the stored text for golden files of every format.

The texts are in ``describe/``; ``lance-core describe FILE`` prints a new one."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from lance_core.file.describe import describe_file
from lance_core.file.reader import FileReader
from lance_core.io.memory_store import MemoryStore

HERE = Path(__file__).parent
TEXTS = sorted((HERE / "describe").glob("*.txt"))


def data_of(text: Path) -> bytes:
    """The first data file of the case ``<release>_<case>``."""
    release, case = text.stem.split("_")
    with zipfile.ZipFile(io.BytesIO((HERE / "data" / f"{release}.zip").read_bytes())) as archive:
        names = sorted(name for name in archive.namelist() if name.startswith(f"{case}/") and name.endswith(".lance"))
        return archive.read(names[0])


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.stem)
def test_description_of_a_golden_file_equals_the_stored_text(text: Path) -> None:
    store = MemoryStore()
    store.put("f", data_of(text))
    assert describe_file(FileReader.open(store, "f")) == text.read_text()


def test_every_file_format_has_a_stored_description() -> None:
    assert {text.stem.rsplit("-", 1)[1] for text in TEXTS} == {"0.1", "2.0", "2.1", "2.2"}
