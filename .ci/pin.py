"""Pin every dependency, direct and indirect, to the newest versions that resolve together.

Writes ``constraints.txt`` (for ``pip install -c constraints.txt``) and the same list into ``[tool.uv]
constraint-dependencies`` of ``pyproject.toml``, which is where ``uv run`` looks. Neither holds a download address;
``uv.lock``, which does, stays out of the repository.

Run: ``uv run python .ci/pin.py``
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECTION = re.compile(r"# ── Pins .*?\n\[tool\.uv\]\nconstraint-dependencies = \[\n.*?\n\]\n", re.DOTALL)
HEADING = "# ── Pins (written by .ci/pin.py) "


def main() -> None:
    """Resolve without the old pins, then write both places."""
    pyproject = ROOT / "pyproject.toml"
    text = SECTION.sub("", pyproject.read_text()).rstrip() + "\n"
    pyproject.write_text(text)
    (ROOT / "uv.lock").unlink(missing_ok=True)
    subprocess.run(["uv", "lock"], cwd=ROOT, check=True)
    export = subprocess.run(
        [
            "uv",
            "export",
            "--quiet",
            "--all-extras",
            "--all-groups",
            "--no-hashes",
            "--no-emit-project",
            "--no-annotate",
            "--no-header",
        ],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    pins = sorted(line.strip() for line in export.stdout.splitlines() if "==" in line)
    (ROOT / "constraints.txt").write_text("\n".join(pins) + "\n")
    listed = "".join(f'    "{pin}",\n' for pin in pins)
    heading = HEADING + "─" * (119 - len(HEADING))
    pyproject.write_text(f"{text}\n{heading}\n[tool.uv]\nconstraint-dependencies = [\n{listed}]\n")
    print(f"pinned {len(pins)} packages")


if __name__ == "__main__":
    main()
