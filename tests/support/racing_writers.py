"""Processes that append to one dataset concurrently, with either implementation."""

import json
from pathlib import Path

from tests.support.processes import run_together, start_python

_APPENDER = """
import json, sys, pyarrow as pa
library, uri, options, writer, count = json.loads(sys.argv[1])
module = __import__(library)
if options:
    # Connections are made, so that the appends meet.
    module.dataset(uri, storage_options=options)
print("ready", flush=True)
sys.stdin.readline()
versions = []
for number in range(count):
    rows = pa.table({"writer": pa.array([writer], pa.int64()), "number": pa.array([number], pa.int64())})
    versions.append(module.write_dataset(rows, uri, mode="append", storage_options=options).version)
print(json.dumps(versions), flush=True)
"""


def append_together(
    uri: str | Path, options: dict[str, str], libraries: list[str], num_appends: int
) -> list[list[int]]:
    """Start one process for each library name simultaneously, and collect the versions that each process created."""
    processes = [
        start_python("-c", _APPENDER, json.dumps([library, str(uri), options, writer, num_appends]))
        for writer, library in enumerate(libraries)
    ]
    return [json.loads(output) for output in run_together(processes, timeout=500)]
