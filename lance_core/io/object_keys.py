"""Keys of objects, from the path of a URI and back: the same key as the reference makes of it.

The rules are those of URLs: blanks at the end and line ends anywhere are no part of it, ``.`` and ``..`` are followed,
``%41`` is ``A``. What is left must be UTF-8 without control characters, and have no empty segment.

Source: keys that pylance 14.0.2 makes of URIs; the WHATWG URL standard.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from lance_core.errors import InvalidInputError

__all__ = ["decoded", "key_of", "quoted", "trimmed"]

_LINE_ENDS: Final = str.maketrans("", "", "\t\n\r")
_BLANKS: Final = "".join(map(chr, range(0x21)))
_HERE: Final = (".", "%2e")
_ABOVE: Final = ("..", ".%2e", "%2e.", "%2e%2e")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_UNQUOTED: Final = "/!\"$&'()*+,-.:;<=>@[\\]^_`{|}~"


def trimmed(url: str) -> str:
    """Return a URL without surrounding blanks and line ends."""
    return url.strip(_BLANKS).translate(_LINE_ENDS)


def decoded(path: str) -> str:
    """Return a path without percent signs that stand for other characters.

    Raises:
        InvalidInputError: it is not UTF-8 then.
    """
    try:
        return unquote_to_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"the path {path!r:.200} of the URI is not valid UTF-8 after percent-decoding"
        ) from error


def key_of(path: str) -> str:
    """Return the key that the path of a URI means, without slashes at its ends; empty for the bucket itself.

    Raises:
        InvalidInputError: it is not UTF-8, has a control character or an empty segment, or leads above the bucket in a
            way that only shows when it is decoded.
    """
    key = decoded("/".join(_followed(path.removeprefix("/"))))
    if not key:
        return key
    key = key.removesuffix("/")
    if any(segment in ("", ".", "..") for segment in key.split("/")):
        raise InvalidInputError(f"the path {path!r:.200} of the URI has an empty or relative segment")
    if _CONTROL.search(key):
        raise InvalidInputError(f"the path {path!r:.200} of the URI has a control character")
    return key


def quoted(key: str) -> str:
    """Return the path of a URI that means a key; letters of all languages stay unchanged."""
    return "".join(each if each > "\x7f" else quote(each, safe=_UNQUOTED) for each in key)


def _followed(path: str) -> list[str]:
    """Return the segments of a path after ``.`` and ``..``, which leave a slash behind at the end."""
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
