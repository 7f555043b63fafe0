"""The datasets of these tests are on local disk."""

from pathlib import Path

import pytest


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A dataset location that does not exist yet."""
    return str(tmp_path / "t.lance")
