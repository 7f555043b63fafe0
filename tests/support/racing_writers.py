"""Processes that append to one dataset at once, with either implementation."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

_APPENDER = """
import json, sys, pyarrow as pa
library, uri, options, writer, count = json.loads(sys.argv[1])
module = __import__(library)
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


def append_together(uri: str, options: dict[str, str], libraries: list[str], num_appends: int) -> list[list[int]]:
    """Start one process for each library name, let them go at once, and collect the versions that each made."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _APPENDER, json.dumps([library, uri, options, writer, num_appends])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            text=True,
        )
        for writer, library in enumerate(libraries)
    ]
    try:
        for process in processes:
            assert process.stdout.readline() == "ready\n", process.stderr.read()
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [process.communicate(timeout=500) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for library, (_, errors), process in zip(libraries, answers, processes, strict=True):
        assert process.returncode == 0, f"{library}: {errors}"
    return [json.loads(output) for output, _ in answers]
