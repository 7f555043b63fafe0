"""Versions of the ``.lance`` file format: names, aliases, and the number pairs found on disk.

For old versions, the pair in a file's footer differs from the pair in a manifest's ``DataFile``: format 2.0 writes
(0, 3) in the footer and (2, 0) in the manifest; format 0.1 has been recorded as (0, 0), (0, 1), and (0, 2).

Source: format notes ``docs/format-notes/versions.md``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import Final, Self

from lance_core.errors import CorruptDataError, InvalidInputError, InvalidTypeError, UnsupportedVersionError

__all__ = ["DEFAULT_VERSION", "LanceFileVersion"]


class LanceFileVersion(Enum):
    """Versions of the data file format, ordered from oldest to newest: ``V2_1 < V2_2``."""

    V0_1 = "0.1"
    V2_0 = "2.0"
    V2_1 = "2.1"
    V2_2 = "2.2"
    V2_3 = "2.3"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Convert a version string or an alias, ignoring case, to a version. "2" is not a valid version string.

        Raises:
            InvalidInputError: the string is not a known version.
            InvalidTypeError: the value is not a string.
        """
        if not isinstance(text, str):
            raise InvalidTypeError(f"data_storage_version must be a string such as '2.2', found {text!r}")
        name = _ALIASES.get(text.lower(), text)
        for version in cls:
            if version.value == name:
                return version
        known = ", ".join([version.value for version in cls] + sorted(_ALIASES))
        raise InvalidInputError(f"unknown data storage version {text!r}; expected one of {known}", version=text)

    @classmethod
    def from_pair(cls, major: int, minor: int) -> Self:
        """Convert a (major, minor) pair from a file footer or a manifest to a version.

        Raises:
            UnsupportedVersionError: the pair is newer than all pairs that this library knows.
            CorruptDataError: no release has ever written the pair.
        """
        name = _PAIRS.get((major, minor))
        if name is not None:
            return cls(name)
        if (major, minor) > max(_PAIRS):
            raise UnsupportedVersionError(
                f"data file version {major}.{minor} is newer than the newest known version, {max(cls, key=_age).value}",
                version=f"{major}.{minor}",
            )
        raise CorruptDataError(
            f"invalid data file version pair ({major}, {minor}): no release has ever written this pair"
        )

    @property
    def footer_pair(self) -> tuple[int, int]:
        """The pair (major, minor) that writers store in the footer of a data file."""
        return _FOOTER_PAIRS[self.value]

    @property
    def manifest_pair(self) -> tuple[int, int]:
        """The pair (major, minor) that writers store in the ``DataFile`` of a manifest."""
        return _MANIFEST_PAIRS[self.value]

    @property
    def is_legacy(self) -> bool:
        """True for 0.1, which stores batches without validity bitmaps and cannot be mixed with other versions."""
        return self is LanceFileVersion.V0_1

    def mixes_with(self, other: LanceFileVersion) -> bool:
        """Return whether one table may contain files of both versions. Version 0.1 cannot be mixed with others."""
        return self.is_legacy == other.is_legacy

    @property
    def is_structural(self) -> bool:
        """True for 2.1 and later, whose pages contain repetition and definition levels."""
        return self not in _WITHOUT_LEVELS

    @property
    def is_readable(self) -> bool:
        """Whether this library reads files of this version."""
        return self in _READABLE

    def require_readable(self) -> Self:
        """Return self, after checking that this library reads files of this version.

        Raises:
            UnsupportedVersionError: this library does not read files of this version.
        """
        if self not in _READABLE:
            raise UnsupportedVersionError(
                f"reading data files in format {self.value} is not supported; supported formats: "
                f"{', '.join(v.value for v in _READABLE)}",
                version=self.value,
            )
        return self

    def require_writable(self) -> Self:
        """Return self, after checking that this library writes files of this version.

        Raises:
            UnsupportedVersionError: this library does not write files of this version.
        """
        if self not in _WRITABLE:
            raise UnsupportedVersionError(
                f"writing data files in format {self.value} is not supported; supported formats: "
                f"{', '.join(v.value for v in _WRITABLE)}",
                version=self.value,
            )
        return self

    def __lt__(self, other: LanceFileVersion) -> bool:
        return _age(self) < _age(other)

    def __le__(self, other: LanceFileVersion) -> bool:
        return _age(self) <= _age(other)

    def __gt__(self, other: LanceFileVersion) -> bool:
        return _age(self) > _age(other)

    def __ge__(self, other: LanceFileVersion) -> bool:
        return _age(self) >= _age(other)


@cache
def _age(version: LanceFileVersion) -> tuple[int, ...]:
    return tuple(int(part) for part in version.value.split("."))


_ALIASES: Final = {"legacy": "0.1", "0.3": "2.0", "stable": "2.2", "next": "2.3"}
_PAIRS: Final = {
    (0, 0): "0.1",
    (0, 1): "0.1",
    (0, 2): "0.1",
    (0, 3): "2.0",
    (2, 0): "2.0",
    (2, 1): "2.1",
    (2, 2): "2.2",
    (2, 3): "2.3",
}
_FOOTER_PAIRS: Final = {"0.1": (0, 2), "2.0": (0, 3), "2.1": (2, 1), "2.2": (2, 2), "2.3": (2, 3)}
_MANIFEST_PAIRS: Final = {"0.1": (0, 2), "2.0": (2, 0), "2.1": (2, 1), "2.2": (2, 2), "2.3": (2, 3)}

_WITHOUT_LEVELS: Final = (LanceFileVersion.V0_1, LanceFileVersion.V2_0)
_READABLE: Final = (LanceFileVersion.V0_1, LanceFileVersion.V2_0, LanceFileVersion.V2_1, LanceFileVersion.V2_2)
_WRITABLE: Final = _READABLE

DEFAULT_VERSION: Final = LanceFileVersion.V2_2
"""The version that pylance 14.0.2 writes by default; its alias is "stable"."""
