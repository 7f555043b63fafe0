"""Converts between object keys and URI paths, with the same results as pylance, and checks relative paths.

The rules are those of URLs: trailing whitespace and all line breaks are dropped, ``.`` and ``..`` are resolved, and
``%41`` is decoded to ``A``. The result must be valid UTF-8 and must not contain control characters or empty segments.

Source: keys that pylance 14.0.2 derives from URIs; the WHATWG URL standard.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote, unquote_to_bytes

from lance_core.errors import InvalidInputError

__all__ = ["decoded", "is_plain_path", "key_of", "quoted", "trimmed"]

_LINE_ENDS: Final = str.maketrans("", "", "\t\n\r")
_BLANKS: Final = "".join(map(chr, range(0x21)))
_HERE: Final = (".", "%2e")
_ABOVE: Final = ("..", ".%2e", "%2e.", "%2e%2e")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_UNQUOTED: Final = "/!\"$&'()*+,-.:;<=>@[\\]^_`{|}~"


def trimmed(url: str) -> str:
    """Return a URL without surrounding whitespace and line breaks."""
    return url.strip(_BLANKS).translate(_LINE_ENDS)


def decoded(path: str) -> str:
    """Decode percent-encoded characters in a path.

    Raises:
        InvalidInputError: the decoded path is not valid UTF-8.
    """
    try:
        return unquote_to_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"the URI path {path!r:.200} is not valid UTF-8 after percent-decoding") from error


def key_of(path: str) -> str:
    """Return the key for a URI path, without leading and trailing slashes; the key of the bucket itself is empty.

    Raises:
        InvalidInputError: the key is not valid UTF-8, has a control character or an empty segment, or its decoded form
            refers to a location outside the bucket.
    """
    key = decoded("/".join(_followed(path.removeprefix("/"))))
    if not key:
        return key
    key = key.removesuffix("/")
    if any(segment in ("", ".", "..") for segment in key.split("/")):
        raise InvalidInputError(f"the URI path {path!r:.200} contains an empty or relative segment")
    if _CONTROL.search(key):
        raise InvalidInputError(f"the URI path {path!r:.200} contains a control character")
    return key


def quoted(key: str) -> str:
    """Return the URI path for a key; non-ASCII letters stay unchanged."""
    return "".join(each if each > "\x7f" else quote(each, safe=_UNQUOTED) for each in key)


def _followed(path: str) -> list[str]:
    """Return the segments of a path after resolving ``.`` and ``..``; if one of these is last, a slash remains."""
    found: list[str] = []
    *inner, last = path.split("/")
    for segment in inner:
        _follow(found, segment)
    if last.lower() in (*_HERE, *_ABOVE):
        _follow(found, last)
        last = ""
    return [*found, last] if found or last else []


def _follow(found: list[str], segment: str) -> None:
    if segment.lower() in _ABOVE:
        del found[-1:]
    elif segment.lower() not in _HERE:
        found.append(segment)


def is_plain_path(path: str) -> bool:
    """Return whether a relative path stays below its base directory, even after percent-decoding."""
    while True:
        segments = path.split("/")
        if "\0" in path or "\\" in path or segments[0].endswith(":") or not {"", ".", ".."}.isdisjoint(segments):
            return False
        decoded = unquote(path) if "%" in path else path
        if decoded == path:
            return True
        path = decoded
