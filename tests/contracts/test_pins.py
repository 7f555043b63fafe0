"""The pinned versions are listed in two files, because two tools read them; the lists must be identical."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_constraints_file_and_uv_constraints_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pinned_for_pip = (ROOT / "constraints.txt").read_text().splitlines()
    assert pinned_for_pip == project["tool"]["uv"]["constraint-dependencies"]


def test_every_pin_is_exact_and_contains_no_url():
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+( ; .+)?", line), line
        assert "://" not in line


def test_every_direct_dependency_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pinned = {line.split("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines()}
    direct = [
        *project["project"]["dependencies"],
        *(name for extra in project["project"]["optional-dependencies"].values() for name in extra),
        *project["dependency-groups"]["dev"],
    ]
    names = {re.split(r"[\[<>=!~ ]", requirement)[0].lower() for requirement in direct} - {"lance-pipelines"}
    assert names <= pinned
