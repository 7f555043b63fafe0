"""Every relative link of the documentation leads to a file."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\[[^\]\n]+\]\((?!https?://|#)([^)#\s(]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_of_the_documentation_lead_to_existing_files(page: Path) -> None:
    broken = [target for target in LINK.findall(page.read_text()) if not (page.parent / target).exists()]
    assert broken == []


def test_every_guide_and_concept_is_reachable_from_the_index() -> None:
    listed = set(LINK.findall((ROOT / "docs" / "index.md").read_text()))
    pages = {f"{room}/{page.name}" for room in ("concepts", "guides") for page in (ROOT / "docs" / room).glob("*.md")}
    assert pages <= listed
