"""The code blocks of the README and the guides.

Every block with a language is run by a test, unless the line before it says why not::

    <!-- not run: needs a database -->
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "guides").glob("*.md"))]

_BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^>\n]+) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Block:
    """A code block of a page.

    Attributes:
        page: the page, relative to the repository.
        language: "python", "yaml" or "bash".
        text: the code.
        reason: why it is not run; None if it is.
    """

    page: str
    language: str
    text: str
    reason: str | None


def all_blocks() -> Iterator[Block]:
    """Return all blocks with a language; blocks without a language show output."""
    for page in PAGES:
        for found in _BLOCK.finditer((ROOT / page).read_text()):
            yield Block(page, found["language"], found["text"], found["reason"])


def examples(page: str, language: str = "python") -> list[str]:
    """Return the blocks of a page that are run."""
    return [
        block.text for block in all_blocks() if (block.page, block.language, block.reason) == (page, language, None)
    ]
