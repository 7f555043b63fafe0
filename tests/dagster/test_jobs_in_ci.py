"""``dagster job execute`` of the jobs that publish, restore, and verify, with right and wrong configurations."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lance_core

MODULE = """
from lance_pipelines import CheckSettings, DatasetDeclaration, PublishSettings, build_definitions

events = DatasetDeclaration(
    key="events", uri={uri!r}, checks=CheckSettings(key=["id"]), publish=PublishSettings(tag="prod")
)
defs = build_definitions([events])
"""

CASES = {
    "promote": (
        "ops: {events__publish: {config: {version: 1}}}",
        0,
        "tag prod was created; checks passed: rows, key_nulls",
    ),
    "promote of a bad version": (
        "ops: {events__publish: {config: {}}}",
        1,
        "version 2 is not published, because it failed 1 of 4 checks (key_unique: ",
    ),
    "restore": ("ops: {plan_restore: {config: {version: 1}}}", 0, "version 3: restored the content of version 1"),
    "restore without a version": (
        "ops: {plan_restore: {config: {}}}",
        1,
        'Missing required config entry "version" at path root:ops:plan_restore:config',
    ),
    "verify": ("ops: {verify_dataset: {config: {pages: true}}}", 0, "version 2: no faults (2 fragments, all values)"),
    "verify of a missing version": (
        "ops: {verify_dataset: {config: {version: 9}}}",
        1,
        "[VersionNotFoundError]",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_job_execute_prints_one_line_and_sets_the_exit_code(command_line, tmp_path: Path, case: str) -> None:
    text, exit_code, expected = CASES[case]
    uri, dagster = str(tmp_path / "events.lance"), command_line()
    for ids in ([1, 2], [2]):
        lance_core.write_dataset(pa.table({"id": ids}), uri, mode="append")
    (dagster.directory / "lake_definitions.py").write_text(MODULE.format(uri=uri))
    config = tmp_path / "run.yaml"
    config.write_text(text)
    job = f"events__{case.split(' ', maxsplit=1)[0]}"
    process = dagster.start("job", "execute", "-m", "lake_definitions", "-j", job, "-c", str(config))
    stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == exit_code, stderr
    lines = stdout.splitlines() if exit_code == 0 else [x for x in stderr.splitlines() if x.startswith("FAILED ")]
    (line,) = lines
    assert expected in line
