"""Reads and searches a dataset with the reference implementation, if it is installed.

The reference implementation is not a dependency of this project; the optional extra ``pylance`` installs it. It runs in
a separate process.
"""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from lance_core.errors import CorruptDataError

__all__ = ["REFERENCE_MODULE", "is_reference_installed", "nearest_by_index", "rows_by_version"]

REFERENCE_MODULE: Final = "lance"

_ROWS: Final = """
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

_NEAREST: Final = """
import importlib, json, sys
module, uri, query = sys.argv[1:]
dataset = importlib.import_module(module).dataset(uri)
scanner = dataset.scanner(columns=["id"], nearest=json.loads(query))
if "ANNIvf" not in scanner.explain_plan():
    raise RuntimeError("the search does not use the index: " + scanner.explain_plan())
print(json.dumps(scanner.to_table()["id"].to_pylist()))
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
    found = _run(_ROWS, uri, *map(str, versions))
    return {int(version): rows for version, rows in found.items()}


def nearest_by_index(uri: Path, query: dict[str, Any]) -> list[int]:
    """Return the ids of the rows with the nearest vectors, found with the index.

    Args:
        uri: location of the dataset.
        query: the argument ``nearest`` of a scanner.

    Raises:
        CorruptDataError: the reference implementation does not find them, or does not use the index.
    """
    ids: list[int] = _run(_NEAREST, uri, json.dumps(query))
    return ids


def _run(program: str, uri: Path, *arguments: str) -> Any:
    command = [sys.executable, "-c", program, REFERENCE_MODULE, str(uri), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or [f"the process exited with code {done.returncode}"])[-1]
        raise CorruptDataError(f"the reference implementation rejects {uri}: {reason}", path=str(uri))
    return json.loads(done.stdout)
