"""Splits a predicate into tokens: sqlglot's tokenizer with the rules of the dialect.

========  ==================================================================
name      letters, digits, and ``_ @ # $``, not starting with a digit
quoted    a name between backticks; a doubled backtick means one backtick
string    text between single or double quotes; a doubled quote means one quote
bytes     ``X'6162'``: hexadecimal digits
number    ``1``, ``1.5``, ``.5``, ``1e-3``
symbol    operators, brackets, commas
========  ==================================================================

Comments (``-- …`` to the end of the line, and ``/* … */``) count as whitespace. A backslash has no special meaning in a
string.

sqlglot treats unknown characters as names, accepts unterminated comments, and skips other text that is not valid SQL.
Therefore, this module checks sqlglot's tokens and the text between them.

Source: predicates tested with pylance 14.0.2; sqlglot 30.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType
from sqlglot.tokens import Tokenizer

from lance_core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlglot.tokenizer_core import Token

__all__ = ["NAMES", "TYPE_WORDS", "syntax_error", "tokenize"]

TYPE_WORDS: Final[Mapping[str, TokenType]] = MappingProxyType(
    {
        "BOOLEAN": TokenType.BOOLEAN,
        "TINYINT": TokenType.TINYINT,
        "SMALLINT": TokenType.SMALLINT,
        "INT": TokenType.INT,
        "INTEGER": TokenType.INT,
        "BIGINT": TokenType.BIGINT,
        "FLOAT": TokenType.FLOAT,
        "DOUBLE": TokenType.DOUBLE,
        "STRING": TokenType.TEXT,
        "DATE": TokenType.DATE,
        "TIMESTAMP": TokenType.TIMESTAMP,
        "DATETIME": TokenType.DATETIME,
        "DECIMAL": TokenType.DECIMAL,
        "NUMERIC": TokenType.DECIMAL,
    }
)
"""Maps the first word of each type name to its token type."""

_WORDS: Final = {
    word: TokenType[word]
    for word in (
        *("AND", "OR", "NOT", "IS", "IN", "BETWEEN", "LIKE", "ILIKE", "NULL", "TRUE", "FALSE"),
        *("CASE", "EXISTS", "INTERVAL", "SELECT"),
    )
}
NAMES: Final = frozenset({TokenType.VAR, TokenType.IDENTIFIER, TokenType.ALIAS, *TYPE_WORDS.values(), *_WORDS.values()})
"""Types of the tokens that are accepted as the name of a struct member: all words."""

_SYMBOLS: Final = {
    "==": TokenType.EQ,
    "<>": TokenType.NEQ,
    "!=": TokenType.NEQ,
    "<=": TokenType.LTE,
    ">=": TokenType.GTE,
    "||": TokenType.DPIPE,
    "::": TokenType.DCOLON,
}


class _PredicateTokenizer(Tokenizer):
    """A tokenizer that recognizes only the keywords and symbols of predicates."""

    SINGLE_TOKENS: ClassVar = {
        **{symbol: Tokenizer.SINGLE_TOKENS[symbol] for symbol in "()[],.-=<>+*/%"},
        **dict.fromkeys("!|:;&^~?\\{}'\"`", TokenType.UNKNOWN),
    }
    KEYWORDS: ClassVar = {**_WORDS, **_SYMBOLS, **TYPE_WORDS, "AS": TokenType.ALIAS}
    QUOTES: ClassVar = ["'", '"']
    STRING_ESCAPES: ClassVar = ["'", '"']
    IDENTIFIERS: ClassVar = ["`"]
    BYTE_STRINGS: ClassVar = [("x'", "'"), ("X'", "'")]
    NESTED_COMMENTS: ClassVar = False
    COMMENTS_TERMINATE_AT_NEWLINE_ONLY: ClassVar = True


def tokenize(text: str) -> list[Token]:
    """Split a predicate into tokens.

    Raises:
        InvalidInputError: a character cannot start a token, or a quote or comment is not closed.
    """
    tokenizer = _PredicateTokenizer()
    try:
        tokens = tokenizer.tokenize(text)
    except TokenError as error:
        stop = tokenizer.tokens[-1].end + 1 if tokenizer.tokens else 0
        raise _not_closed(text, stop) from error
    stop = 0
    for token in tokens:
        _check_space(text, stop, token.start, "\n")
        _check(token, text, before=stop)
        stop = token.end + 1
    _check_space(text, stop, len(text), "")
    return tokens


def syntax_error(text: str, position: int, reason: str) -> InvalidInputError:
    """Return the error for a predicate that cannot be parsed at a position."""
    shown = text if len(text) <= 200 else f"{text[max(position - 80, 0) : position + 80]} …"
    return InvalidInputError(
        f"the predicate {shown!r} cannot be parsed at character {position + 1}: {reason}", position=position
    )


def _not_closed(text: str, stop: int) -> InvalidInputError:
    """Return the error for an unclosed quote or comment after the last token."""
    position = len(text) - len(text[stop:].lstrip())
    return syntax_error(text, position, f"a quote or comment is not closed: {text[position : position + 20]!r}")


def _check_space(text: str, start: int, stop: int, line_end: str) -> None:
    """Check that the text between two tokens consists of whitespace and closed comments."""
    space = text[start:stop]
    if space and not space.isspace() and not _SPACE[line_end].fullmatch(space):
        raise _not_closed(text, start)


def _check(token: Token, text: str, *, before: int) -> None:
    """Check that a token is valid for its kind, and restore its spelling, because keywords may also be names."""
    kind = token.token_type
    written = text[token.start : token.end + 1]
    if kind in (TokenType.STRING, TokenType.IDENTIFIER):
        return
    if kind is TokenType.BYTE_STRING:
        if len(token.text) % 2 or not _HEXADECIMAL.fullmatch(token.text):
            raise syntax_error(text, token.start, f"{written} must consist of pairs of hexadecimal digits")
        return
    token.text = written
    pattern = _PATTERNS.get(kind)
    if kind is TokenType.NUMBER and text[before - 1 : before] == ".":
        # The dot is a separate token; the digits must follow it directly.
        pattern = _FRACTION if before == token.start else _NOTHING
    match = pattern and pattern.match(text, token.start)
    if pattern and (match is None or match.end() != token.end + 1):
        raise syntax_error(text, token.start, f"unexpected character: {text[token.start : token.start + 20]!r}")


_COMMENTED: Final = r"(?: \s | --[^\n]*{} | /\*(?:[^*]|\*(?!/))*\*/ )*"
_SPACE: Final = {
    "\n": re.compile(_COMMENTED.format(r"\n"), re.VERBOSE | re.DOTALL),
    "": re.compile(_COMMENTED.format(r"(?:\n|\Z)"), re.VERBOSE | re.DOTALL),
}
_HEXADECIMAL: Final = re.compile(r"[0-9a-fA-F]*")
_FRACTION: Final = re.compile(r"\d+(?:[eE][+-]?\d+)?(?![\w.])", re.ASCII)
_NOTHING: Final = re.compile(r"(?!)")
_PATTERNS: Final = {
    TokenType.VAR: re.compile(r"[^\W\d][\w@#$]*"),
    TokenType.NUMBER: re.compile(r"\d+\.?\d*(?:[eE][+-]?\d+)?(?![\w.])", re.ASCII),
}
