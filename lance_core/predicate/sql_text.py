"""Prepares SQL text for DataFusion: finds the columns that it reads, and replaces type names of the dialect.

DataFusion parses the text; this module only replaces tokens:

===========================================  ===========================================================================
written                                      given to DataFusion
===========================================  ===========================================================================
``Key``, ``st.x``, ``st['x']``, `` `a` ``    one quoted column: ``"Key"``, ``"st.x"``, ``"a"``
``"text"``                                   ``'text'``
``timestamp``, ``datetime`` (as a type)      ``timestamp(6)``, except in arguments of functions
``is_valid(x)``                              ``(x) is not null``
===========================================  ===========================================================================

Outside the arguments of functions, the reference implementation rejects some expressions that DataFusion accepts;
this module rejects them too.

Source: expressions tested with pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sqlglot.tokenizer_core import TokenType

from lance_core.errors import InvalidInputError, NotSupportedError
from lance_core.predicate.names import find_column
from lance_core.predicate.syntax import Name
from lance_core.predicate.tokenizer import NAMES, TYPE_WORDS, syntax_error, tokenize

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from sqlglot.tokenizer_core import Token

    from lance_core.schema.field import Schema

__all__ = ["SqlText"]

_TIMES: Final = frozenset({"timestamp", "datetime"})
_TYPES: Final = frozenset(word.lower() for word in TYPE_WORDS) | {"binary"}
_OPERATORS: Final = frozenset(
    {
        *("and", "or", "not", "is", "in", "between", "like", "ilike", "distinct", "from", "escape"),
        *("null", "true", "false", "as", "case", "when", "then", "else", "end"),
    }
)
_CONSTANTS: Final = frozenset({"null", "true", "false", "end"})
_ALSO_NAMES: Final = frozenset({"case", "else", "end", "escape", "from", "then", "when"})
"""Keywords that are read as column names where an operand is expected, as in ``end - start``, if the table has a column
of this name."""
_OPERAND_ENDS: Final = frozenset({TokenType.NUMBER, TokenType.STRING, TokenType.R_PAREN, TokenType.R_BRACKET})
_BITWISE: Final = frozenset("&|^")
"""Operators that the reference implementation accepts only in the arguments of functions."""
_SPECIAL: Final = frozenset(
    {
        *("all", "any", "at", "case", "exists", "interval", "similar", "some"),
        *("ceil", "extract", "floor", "overlay", "position", "substr", "substring", "trim", "unknown"),
    }
)
"""Words with a special meaning in SQL that the reference implementation accepts only in the arguments of functions."""


@dataclass(frozen=True, slots=True)
class SqlText:
    """An expression for DataFusion.

    Attributes:
        text: the expression; every column in it is quoted.
        columns: maps each quoted name to the path of the column or struct member, and its type in the table.
    """

    text: str
    columns: dict[str, tuple[tuple[str, ...], pa.DataType]]

    @classmethod
    def of(cls, schema: Schema, text: str) -> SqlText:
        """Prepare an expression on the columns of a schema.

        Raises:
            InvalidInputError: the text has an invalid character, its parentheses do not match, or a quoted column or a
                struct member is unknown.
            NotSupportedError: the text contains SQL that the reference does not accept, or an ambiguous name.
        """
        writer = _Writer(schema, text)
        writer.write()
        return cls("".join(writer.pieces), writer.columns)

    @property
    def column(self) -> tuple[str, ...] | None:
        """The path of the column or struct member, if the expression consists of its name; otherwise None."""
        paths = [path for shown, (path, _) in self.columns.items() if self.text.strip() == _quoted(shown, '"')]
        return paths[0] if paths else None


@dataclass(slots=True)
class _Writer:
    schema: Schema
    source: str
    pieces: list[str] = field(default_factory=list)
    columns: dict[str, tuple[tuple[str, ...], pa.DataType]] = field(default_factory=dict)
    _tokens: Sequence[Token] = ()
    _index: int = 0
    _closings: list[tuple[bool, str]] = field(default_factory=list)
    """For each open parenthesis or bracket: whether it holds arguments of a function, and the text that closes it."""
    _lists: list[bool] = field(default_factory=list)
    """For each open parenthesis or bracket: whether it may hold several items."""
    _named: set[int] = field(default_factory=set)
    """For each reference to a column: the index of its last token."""

    def write(self) -> None:
        self._tokens = tokenize(self.source)
        stop = 0
        while self._index < len(self._tokens):
            token = self._tokens[self._index]
            # A comment would swallow what follows it.
            self.pieces.append(" " if self.source[stop : token.start].strip() else self.source[stop : token.start])
            self.pieces.append(self._replacement(token))
            stop = self._tokens[self._index].end + 1
            self._index += 1
        if self._closings:
            expected = self._closings[-1][1][0]
            raise syntax_error(self.source, len(self.source), f"expected {expected!r}, found the end of the expression")

    def _replacement(self, token: Token) -> str:
        """Return what replaces a token, and advance to the last token that is replaced."""
        kind = token.token_type
        is_bitwise = token.text in _BITWISE and any(is_call for is_call, _ in self._closings)
        if (kind is TokenType.UNKNOWN and not is_bitwise) or kind is TokenType.SELECT:
            where = "supported only in function arguments" if token.text in _BITWISE else "not supported"
            raise NotSupportedError(f"expression {self.source!r}: {token.text.upper()} is {where}")
        if self._is_refused_operator(token):
            operator = "unary operator +" if kind is TokenType.PLUS else "operator <=>"
            raise NotSupportedError(f"expression {self.source!r}: the {operator} is not supported")
        if kind is TokenType.STRING:
            return _quoted(token.text, "'")
        if kind is TokenType.L_PAREN:
            before = self._tokens[self._index - 1].text.lower() if self._index else ""
            return self._opened("(", ")", in_call=False, is_list=before == "in" or before in _TYPES)
        if kind is TokenType.L_BRACKET:
            return self._opened("[", "]", in_call=False)
        if kind is TokenType.COMMA and not any(self._lists):
            raise NotSupportedError(
                f"expression {self.source!r}: a list of values is supported only after IN or as function arguments"
            )
        if kind in (TokenType.R_PAREN, TokenType.R_BRACKET):
            return self._closed(token)
        if kind is TokenType.EQ:
            return "="
        return self._word(token) if kind in NAMES else self.source[token.start : token.end + 1]

    def _is_refused_operator(self, token: Token) -> bool:
        """Return whether a token ends ``<=>``, or is a unary plus sign."""
        before = self._tokens[self._index - 1] if self._index else None
        if token.token_type is TokenType.GT:
            return before is not None and before.token_type is TokenType.LTE and before.end + 1 == token.start
        return token.token_type is TokenType.PLUS and not self._follows_operand()

    def _follows_operand(self) -> bool:
        """Return whether an operand ends before the current token."""
        if not self._index:
            return False
        before = self._tokens[self._index - 1]
        if before.token_type in _OPERAND_ENDS or self._index - 1 in self._named:
            return True
        return before.token_type in NAMES and before.text.lower() not in _OPERATORS - _CONSTANTS

    def _word(self, token: Token) -> str:
        word = token.text.lower()
        is_plain = token.token_type is not TokenType.IDENTIFIER
        in_call = any(is_call for is_call, _ in self._closings)
        if is_plain and self._is_type(word):
            return self._type(token, in_call=in_call)
        if is_plain and word in _SPECIAL and not in_call and not self._is_column(word):
            raise NotSupportedError(
                f"expression {self.source!r}: {word.upper()} is supported only in function arguments"
            )
        if is_plain and self._kind(1) is TokenType.STRING and word not in _OPERATORS:
            raise syntax_error(self.source, token.start, f"expected the type of a literal, found {token.text!r}")
        if is_plain and word in _OPERATORS and not self._is_name(word):
            return token.text
        if is_plain and self._kind(1) is TokenType.L_PAREN:
            self._index += 1
            if word == "is_valid":
                return self._opened("((", ") is not null)", in_call=True)
            return self._opened(f"{token.text}(", ")", in_call=word not in ("cast", "try_cast"))
        return self._column(token)

    def _column(self, token: Token) -> str:
        """Return the name of a column or of a struct member; the name may consist of several tokens."""
        is_quoted = token.token_type is TokenType.IDENTIFIER
        path = [token.text]
        while (step := self._member(path)) > 0:
            self._index += step
        name = Name(text=".".join(path), path=tuple(path), exact=is_quoted)
        try:
            found, dtype = find_column(self.schema, name)
        except InvalidInputError:
            if is_quoted or len(path) > 1:
                raise
            # It may be a word of SQL: extract(year from …).
            return token.text
        shown = ".".join(found)
        self.columns[shown] = (found, dtype)
        self._named.add(self._index)
        return _quoted(shown, '"')

    def _member(self, path: list[str]) -> int:
        """Append the struct member that comes next to the path; return the number of its tokens, 0 if there is none."""
        if self._kind(1) is TokenType.DOT and self._kind(2) in NAMES:
            path.append(self._tokens[self._index + 2].text)
            return 2
        brackets = self._kind(1), self._kind(2), self._kind(3)
        if brackets == (TokenType.L_BRACKET, TokenType.STRING, TokenType.R_BRACKET):
            path.append(self._tokens[self._index + 2].text)
            return 3
        return 0

    def _is_column(self, word: str) -> bool:
        follows_column = self._kind(1) not in (TokenType.L_PAREN, TokenType.STRING)
        return follows_column and word in (name.lower() for name in self.schema.names)

    def _is_name(self, word: str) -> bool:
        """Return whether a word that may be an operator names a column."""
        if word not in _ALSO_NAMES or not self._is_column(word) or self._follows_operand():
            return False
        if word == "case":
            return all(token.text.lower() != "when" for token in self._tokens[self._index :])
        before = self._tokens[self._index - 1].text.lower() if self._index else ""
        return (before, word) not in (("case", "when"), ("distinct", "from"))

    def _is_type(self, word: str) -> bool:
        """Return whether a word is a type: after AS or ``::``, or in ``date '…'`` or ``timestamp(3) '…'``."""
        before = self._tokens[self._index - 1].token_type if self._index else None
        if before in (TokenType.ALIAS, TokenType.DCOLON):
            return True
        is_sized = [self._kind(step) for step in (1, 3)] == [TokenType.L_PAREN, TokenType.R_PAREN]
        is_sized = is_sized and word in _TIMES and self._kind(4) is TokenType.STRING
        is_decimal = word == "decimal" and self._kind(1) is TokenType.L_PAREN
        return is_decimal or (word in _TYPES and (is_sized or self._kind(1) is TokenType.STRING))

    def _type(self, token: Token, *, in_call: bool) -> str:
        word = token.text.lower()
        is_sized = self._kind(1) is TokenType.L_PAREN
        if not in_call and (word not in _TYPES or (word == "decimal" and not is_sized)):
            raise NotSupportedError(f"expression {self.source!r}: unknown type {token.text!r}")
        if word not in _TIMES:
            return token.text
        return "timestamp" if is_sized or in_call else "timestamp(6)"

    def _opened(self, opening: str, closing: str, *, in_call: bool, is_list: bool = True) -> str:
        self._closings.append((in_call, closing))
        self._lists.append(is_list)
        return opening

    def _closed(self, token: Token) -> str:
        _, closing = self._closings[-1] if self._closings else (False, "")
        if not closing.startswith(token.text):
            expected = repr(closing[0]) if closing else "the end"
            raise syntax_error(self.source, token.start, f"expected {expected}, found {token.text!r}")
        self._lists.pop()
        self._closings.pop()
        return closing

    def _kind(self, step: int) -> TokenType | None:
        """Return the kind of a token that follows the current one; None after the last one."""
        index = self._index + step
        return self._tokens[index].token_type if index < len(self._tokens) else None


def _quoted(text: str, quote: str) -> str:
    return quote + text.replace(quote, quote * 2) + quote
