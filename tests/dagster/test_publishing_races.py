"""Writers, promotions, and readers in processes of their own: readers of the tag see only versions that passed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import lance
import pytest

import lance_core

ROUNDS = 8

PROGRAM = """
import json, sys
from contextlib import suppress
from pathlib import Path

import dagster as dg
import pyarrow as pa

import lance_core
from lance_core.errors import CommitConflictError, RefNotFoundError
from lance_pipelines import CheckSettings, DatasetDeclaration, PublishSettings, build_definitions

role, uri, stop, rounds = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])

EVENTS = DatasetDeclaration(
    key="events", uri=uri, checks=CheckSettings(key=["id"]), publish=PublishSettings(tag="prod", checks=["key_unique"])
)


def write(*ids):
    while True:
        with suppress(CommitConflictError):
            lance_core.write_dataset(pa.table({"id": list(ids)}), uri, mode="overwrite")
            return


def publish():
    job = build_definitions([EVENTS]).resolve_job_def("events__promote")
    with dg.DagsterInstance.ephemeral() as instance:
        quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
        return job.execute_in_process(instance=instance, run_config=quiet, raise_on_error=False).success


def promoter():
    outcomes = []
    for number in range(rounds):
        write(number, number)
        outcomes.append(publish())
        write(number, number + 1)
        outcomes.append(publish())
    return outcomes


def reader():
    import lance

    seen = set()
    while not stop.exists():
        for open_dataset in (lance_core.dataset, lance.dataset):
            try:
                dataset = open_dataset(uri, version="prod")
            except (RefNotFoundError, ValueError):
                continue
            ids = dataset.to_table()["id"].to_pylist()
            assert len(set(ids)) == 2, (dataset.version, ids)
            seen.add(dataset.version)
    return sorted(seen)


print(json.dumps({"promoter": promoter, "reader": reader}[role]()))
"""


@pytest.mark.slow
def test_readers_of_the_tag_never_see_a_version_that_fails_its_check(tmp_path: Path) -> None:
    uri, stop = str(tmp_path / "events.lance"), tmp_path / "stop"

    def start(role: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PROGRAM, role, uri, str(stop), str(ROUNDS)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    readers = [start("reader") for _ in range(2)]
    promoters = [start("promoter") for _ in range(2)]
    try:
        outcomes = [json.loads(_output(process)[0].splitlines()[-1]) for process in promoters]
    finally:
        stop.touch()
    seen = [json.loads(_output(process)[0]) for process in readers]
    # Both happened: versions were refused, and versions were published.
    assert {passed for each in outcomes for passed in each} == {True, False}
    assert all(len(versions) > 1 for versions in seen)
    published = lance_core.dataset(uri, version="prod")
    assert len(set(published.to_table()["id"].to_pylist())) == 2
    assert lance.dataset(uri, version="prod").version == published.version


def _output(process: subprocess.Popen[str]) -> tuple[str, str]:
    stdout, stderr = process.communicate(timeout=500)
    assert process.returncode == 0, stderr
    return stdout, stderr
