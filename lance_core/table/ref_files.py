"""The files of tags and branches. Each contains a JSON object, whose values are checked when they are read.

Source: files that pylance 14.0.2 writes, and files that it rejects.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import unquote

from lance_core.errors import CorruptDataError, InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from lance_core.io.object_store import ObjectStore

__all__ = ["REF_SUFFIX", "RefDocument", "is_unfinished_ref", "moment_text", "ref_files", "ref_json"]

REF_SUFFIX: Final = ".json"

_UNFINISHED: Final = re.compile(r"\.tmp.+|.+\.json#[0-9]+")
_TIME: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9:]{8})(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})")
_MAX_U64: Final = 2**64 - 1
_NANOSECONDS: Final = 1_000_000_000
_NANOSECOND_DIGITS: Final = 9
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_SECOND: Final = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)
_LAST_SECOND: Final = (datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)


def ref_json(document: Mapping[str, object], what: str) -> bytes:
    """Return the content of the file of a tag or a branch.

    Raises:
        InvalidInputError: a string cannot be encoded as UTF-8.
    """
    try:
        return json.dumps(document, indent=2, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"the metadata of a {what} contains a string that is not valid Unicode: {error}"
        ) from error


def is_unfinished_ref(file_name: str) -> bool:
    """Return whether a file name belongs to an incompletely written ref; complete refs have the suffix ``.json``."""
    return not file_name.endswith(REF_SUFFIX) and _UNFINISHED.fullmatch(file_name) is not None


def ref_files(store: ObjectStore, root: str, directory: str) -> Iterator[tuple[str, str, pa.Buffer]]:
    """Yield the name, path, and content of each ref in a directory below the main root, ordered by name."""
    for file_name in sorted(store.list_names(store.join(root, directory))):
        if not file_name.endswith(REF_SUFFIX):
            continue
        path = store.join(root, directory, file_name)
        try:
            data = store.get(path)
        except NotFoundError:
            # The file was deleted after it was listed.
            continue
        yield unquote(file_name.removesuffix(REF_SUFFIX)), path, data


@dataclass(frozen=True, slots=True)
class RefDocument:
    """A JSON object whose values are checked when they are accessed."""

    values: dict[str, Any]
    path: str

    @classmethod
    def parse(cls, data: pa.Buffer | bytes, path: str) -> Self:
        """Parse the file of a tag or a branch. Raises ``CorruptDataError`` if it does not contain a JSON object."""
        try:
            values = json.loads(bytes(data))
        except (ValueError, RecursionError) as error:
            raise CorruptDataError(f"{path} is not valid JSON: {error}", path=path) from error
        if not isinstance(values, dict):
            raise CorruptDataError(f"{path}: expected a JSON object, found {values!r:.40}", path=path)
        return cls(values, path)

    def number(self, key: str, default: int | None = None) -> int:
        """Return a whole number; the key is required unless there is a default."""
        value = self.values.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_U64:
            raise self._unexpected(key, "a whole number", value)
        return value

    def text(self, key: str) -> str | None:
        """Return a string; None if the value is null or absent."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise self._unexpected(key, "a string or null", value)
        return value

    def texts(self, key: str) -> dict[str, str]:
        """Return an object whose values are strings; an empty object if it is absent."""
        value = self.values.get(key, {})
        if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
            raise self._unexpected(key, "an object with string values", value)
        return value

    def moment(self, key: str) -> int | None:
        """Return a time in nanoseconds since the epoch; None if the value is null or absent."""
        value = self.text(key)
        if value is None:
            return None
        match = _TIME.fullmatch(value)
        try:
            if match is None:
                raise ValueError(value)
            whole = datetime.fromisoformat(f"{match[1]}T{match[2]}{match[4].upper()}")
        except ValueError as error:
            raise self._unexpected(key, "an RFC 3339 time", value) from error
        seconds = (whole - _EPOCH) // timedelta(seconds=1)
        if not _FIRST_SECOND <= seconds <= _LAST_SECOND:
            # With its time zone, the time is outside the years 1 to 9999.
            raise self._unexpected(key, "an RFC 3339 time", value)
        fraction = (match[3] or ".")[1 : 1 + _NANOSECOND_DIGITS].ljust(_NANOSECOND_DIGITS, "0")
        return seconds * _NANOSECONDS + int(fraction)

    def _unexpected(self, key: str, expected: str, found: object) -> CorruptDataError:
        return CorruptDataError(
            f"{self.path}: {key} must be {expected}, found {found!r:.80}", path=self.path, expected=expected
        )


def moment_text(nanoseconds: int | None) -> str | None:
    """Format a time as RFC 3339 in UTC, with as many groups of three fractional digits as needed."""
    if nanoseconds is None:
        return None
    seconds, fraction = divmod(nanoseconds, _NANOSECONDS)
    text = (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()
    digits = f"{fraction:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{text}.{digits}Z" if digits else f"{text}Z"
