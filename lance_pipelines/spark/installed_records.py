"""Finds the RECORD files, which list the files of the distributions in a Python environment.

An installed distribution is a directory ``{name}-{version}.dist-info`` in a directory of ``sys.path``; its ``RECORD``
lists every file it brought, relative to the directory that holds the ``.dist-info``.

Source: "Recording installed projects" of the Python packaging specifications.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from importlib.metadata import Distribution
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["InstalledRecord", "find_records"]

_NAME: Final = re.compile(r"^Name:[ \t]*(\S+)", re.MULTILINE)
_VERSION: Final = re.compile(r"^Version:[ \t]*(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledRecord:
    """The RECORD of one distribution.

    Attributes:
        path: the RECORD file.
        package: the distribution's name, as its METADATA spells it.
        version: its version.
    """

    path: str
    package: str
    version: str

    @property
    def root(self) -> str:
        """The directory that the RECORD's relative paths start from."""
        return str(Path(self.path).parent.parent)

    @classmethod
    def of(cls, path: str) -> Self:
        """Read name and version from the METADATA beside a RECORD, or from the directory's name without one."""
        directory = Path(path).parent
        name, _, version = directory.name.removesuffix(".dist-info").rpartition("-")
        try:
            # The first blank line ends the headers; the description may say "Name:" too.
            headers = (Distribution.at(directory).read_text("METADATA") or "").partition("\n\n")[0]
        except (OSError, UnicodeDecodeError):
            headers = ""
        named, versioned = _NAME.search(headers), _VERSION.search(headers)
        return cls(
            path=path,
            package=named[1] if named else name or version,
            version=versioned[1] if versioned else version,
        )


def find_records(search_path: Sequence[str] | None = None) -> list[InstalledRecord]:
    """Return every RECORD of an environment, by package name.

    Args:
        search_path: directories in order of import; None for ``sys.path``. If a distribution is installed in two of
            them, the first one counts, as for imports.
    """
    found: dict[str, InstalledRecord] = {}
    for entry in dict.fromkeys(os.path.realpath(entry) for entry in (sys.path if search_path is None else search_path)):
        for path in sorted(Path(entry).glob("*.dist-info/RECORD")):
            record = InstalledRecord.of(str(path))
            found.setdefault(re.sub(r"[-_.]+", "-", record.package).lower(), record)
    return [found[name] for name in sorted(found)]
