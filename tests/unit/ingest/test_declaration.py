"""What a declaration means when it says nothing."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import lance
import pytest

from lance_core.errors import InvalidInputError
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.ingest.sources import FileSource, SourceFormat

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "spark.md"


def _declared(**values: object) -> DatasetDeclaration:
    source = FileSource(format=SourceFormat.PARQUET, paths=("/x",))
    return DatasetDeclaration(key="t", uri="/t.lance", source=source, **values)


def test_default_file_limits_match_the_guide() -> None:
    declaration = _declared()
    documented = r"`max_rows_per_file` \(([0-9,]+)\) or `max_bytes_per_file` \((\d+) GiB\)"
    [(rows, gibibytes)] = re.findall(documented, " ".join(GUIDE.read_text().split()))
    assert declaration.max_rows_per_file == int(rows.replace(",", ""))
    assert declaration.max_bytes_per_file == int(gibibytes) * 1024**3
    reference = inspect.signature(lance.write_dataset).parameters
    assert declaration.max_rows_per_file == reference["max_rows_per_file"].default


@pytest.mark.parametrize("name", ["max_rows_per_file", "max_bytes_per_file"])
def test_file_limit_of_zero_is_refused(name: str) -> None:
    assert getattr(_declared(**{name: 1}), name) == 1
    with pytest.raises(InvalidInputError, match=f"{name} must be at least 1, found 0"):
        _declared(**{name: 0})
