"""Checks a dataset with the reference implementation, if it is installed.

The reference implementation is not a dependency of this project. It runs in a separate process.
"""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from lance_core.errors import CorruptDataError

__all__ = ["REFERENCE_MODULE", "is_reference_installed", "rows_by_version"]

REFERENCE_MODULE: Final = "lance"

_PROGRAM: Final = """
import importlib, json, sys
module, uri, *versions = sys.argv[1:]
reference = importlib.import_module(module)
rows = {}
for version in versions:
    dataset = reference.dataset(uri, version=int(version))
    dataset.validate()
    rows[version] = dataset.to_table().num_rows
print(json.dumps(rows))
"""


def is_reference_installed() -> bool:
    """Return whether the reference implementation is installed."""
    return importlib.util.find_spec(REFERENCE_MODULE) is not None


def rows_by_version(uri: Path, versions: tuple[int, ...]) -> dict[int, int]:
    """Validate versions with the reference implementation and read all of their rows.

    Returns:
        The number of rows that the reference implementation finds in each version.

    Raises:
        CorruptDataError: the reference implementation rejects a version.
    """
    command = [sys.executable, "-c", _PROGRAM, REFERENCE_MODULE, str(uri), *map(str, versions)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or [f"the process exited with code {done.returncode}"])[-1]
        raise CorruptDataError(f"the reference implementation rejects {uri}: {reason}", path=str(uri))
    return {int(version): rows for version, rows in json.loads(done.stdout).items()}
