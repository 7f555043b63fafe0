"""What the guides say of a running ``dagster dev``, tried with one."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "sensors.md").read_text()


def test_the_guides_command_switches_on_the_sensor_of_the_running_server(web_server, command_line, tmp_path) -> None:
    """A sensor's state belongs to the name of its code location: another name is another sensor."""
    (command,) = re.findall(r"`dagster (sensor start .*?)`", GUIDE)
    *_, sensor = shlex.split(command)
    before = web_server.sensors()
    assert before[sensor] == "STOPPED"
    process = command_line(tmp_path / "home").start(*shlex.split(command))
    _, stderr = process.communicate(timeout=300)
    assert process.returncode == 0, stderr
    assert web_server.sensors() == before | {sensor: "RUNNING"}
