"""Defines the grammar of predicates: sqlglot's parser with the operator precedence of pylance.

The operators, from lowest to highest precedence; operators on the same line are evaluated from left to right::

    OR
    AND
    NOT x
    IS [NOT] NULL | TRUE | FALSE | DISTINCT FROM
    [NOT] LIKE, [NOT] ILIKE
    = == <> != < <= > >=   [NOT] IN   [NOT] BETWEEN
    + -
    * / % ||   -x
    x::type

Thus, ``a = b IS NULL`` means ``(a = b) IS NULL``, and ``NOT a = b`` means ``NOT (a = b)``. The operand that follows
DISTINCT FROM extends as far as possible: ``a IS DISTINCT FROM b AND c`` means ``a IS DISTINCT FROM (b AND c)``.

The precedence of operators in sqlglot differs: there, ``a = b IS NULL`` means ``a = (b IS NULL)``. This module replaces
sqlglot's rules with a loop over a table of precedences. sqlglot parses names, values, calls, and types; its tables are
reduced to the syntax that predicates support, so that other SQL is never misread as a predicate.

Source: predicates tested with pylance 14.0.2, which ignores everything after the first invalid token; this library
reports an error instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, cast

from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import TokenType

from lance_core.errors import NotSupportedError
from lance_core.predicate.syntax import MAX_HEIGHT
from lance_core.predicate.tokenizer import NAMES, TYPE_WORDS, syntax_error, tokenize

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sqlglot.tokenizer_core import Token

__all__ = ["SPAN", "parse_tree"]

SPAN: Final = "span"
"""Metadata key for the range of the predicate's text from which an expression was parsed: (start, stop)."""

_OR, _AND, _NOT, _IS, _LIKE, _COMPARE, _ADD, _MULTIPLY, _CAST = 5, 10, 15, 17, 19, 20, 30, 40, 50

_BINARY: Final[dict[TokenType, tuple[int, type[exp.Expr]]]] = {
    TokenType.OR: (_OR, exp.Or),
    TokenType.AND: (_AND, exp.And),
    TokenType.LIKE: (_LIKE, exp.Like),
    TokenType.ILIKE: (_LIKE, exp.ILike),
    TokenType.EQ: (_COMPARE, exp.EQ),
    TokenType.NEQ: (_COMPARE, exp.NEQ),
    TokenType.LT: (_COMPARE, exp.LT),
    TokenType.LTE: (_COMPARE, exp.LTE),
    TokenType.GT: (_COMPARE, exp.GT),
    TokenType.GTE: (_COMPARE, exp.GTE),
    TokenType.PLUS: (_ADD, exp.Add),
    TokenType.DASH: (_ADD, exp.Sub),
    TokenType.STAR: (_MULTIPLY, exp.Mul),
    TokenType.SLASH: (_MULTIPLY, exp.Div),
    TokenType.MOD: (_MULTIPLY, exp.Mod),
    TokenType.DPIPE: (_MULTIPLY, exp.DPipe),
}
_PRECEDENCE: Final = {
    **{token: precedence for token, (precedence, _) in _BINARY.items()},
    TokenType.IS: _IS,
    TokenType.IN: _COMPARE,
    TokenType.BETWEEN: _COMPARE,
    TokenType.DCOLON: _CAST,
}
_NEGATABLE: Final = (TokenType.IN, TokenType.BETWEEN, TokenType.LIKE, TokenType.ILIKE)
_OTHER_SQL: Final = (TokenType.CASE, TokenType.EXISTS, TokenType.INTERVAL, TokenType.SELECT)
_TYPES: Final = frozenset(TYPE_WORDS.values())
_CALLABLE: Final = frozenset({TokenType.VAR, *_TYPES})
_COLUMNS: Final = _CALLABLE | {TokenType.IDENTIFIER, TokenType.ALIAS}


def parse_tree(text: str) -> exp.Expr:
    """Parse a predicate into a sqlglot expression in which every operand records its :data:`SPAN`.

    The operand of a prefix NOT is in parentheses, which distinguishes it from ``x NOT IN …`` and similar operators.

    Raises:
        InvalidInputError: the text cannot be parsed, or is nested too deeply.
        NotSupportedError: the text contains SQL that predicates do not support.
    """
    [tree] = _PredicateParser().parse_into(exp.Condition, tokenize(text), text)
    return cast("exp.Expr", tree)  # the parser either returns an expression or raises an error


class _PredicateParser(Parser):
    """Parses one text."""

    EXPRESSION_PARSERS: ClassVar = {exp.Condition: lambda self: self._parse_predicate()}
    PRIMARY_PARSERS: ClassVar = {
        token: Parser.PRIMARY_PARSERS[token]
        for token in (
            TokenType.STRING,
            TokenType.BYTE_STRING,
            TokenType.NUMBER,
            TokenType.NULL,
            TokenType.TRUE,
            TokenType.FALSE,
        )
    }
    NUMERIC_PARSERS: ClassVar = {TokenType.NUMBER: Parser.NUMERIC_PARSERS[TokenType.NUMBER]}
    FUNCTION_PARSERS: ClassVar = {name: Parser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST")}
    FUNC_TOKENS: ClassVar = set(_CALLABLE)
    TYPE_TOKENS: ClassVar = set(_TYPES)
    ID_VAR_TOKENS: ClassVar = set(_COLUMNS)
    RESERVED_TOKENS: ClassVar = Parser.RESERVED_TOKENS - {TokenType.SELECT}
    BRACKETS: ClassVar = frozenset({TokenType.L_BRACKET})
    COLUMN_OPERATORS: ClassVar = {TokenType.DOT: None}
    FUNCTIONS: ClassVar = {}
    NO_PAREN_FUNCTIONS: ClassVar = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar = {}
    PLACEHOLDER_PARSERS: ClassVar = {}
    ARRAY_CONSTRUCTORS: ClassVar = {}
    SUBQUERY_PREDICATES: ClassVar = {}

    _depth = 0

    def _parse_predicate(self) -> exp.Expr:
        this = self._parse_tighter_than(0)
        if self._curr:
            self._unexpected("an operator or the end of the predicate")
        return this

    def _parse_disjunction(self) -> exp.Expr:
        return self._parse_tighter_than(0)

    def _parse_expression(self) -> exp.Expr:
        return self._parse_tighter_than(0)

    def _parse_tighter_than(self, binding: int) -> exp.Expr:
        """Parse all operations that bind more tightly than ``binding``."""
        self._depth += 1
        if self._depth > MAX_HEIGHT:
            self.raise_error(f"nested more than {MAX_HEIGHT} levels deep")
        start = self._curr
        this = self._spanned(self._parse_operand(), start)
        while (precedence := self._coming()) > binding:
            this = self._spanned(self._parse_operation(this, precedence), start)
        self._depth -= 1
        return this

    def _coming(self) -> int:
        """Return the precedence of the next operator; 0 if there is none."""
        token = self._curr.token_type
        if token is TokenType.NOT:
            return _PRECEDENCE[self._next.token_type] if self._next.token_type in _NEGATABLE else 0
        return _PRECEDENCE.get(token, 0)

    def _spanned(self, this: exp.Expr, start: Token) -> exp.Expr:
        this.meta[SPAN] = (start.start, self._prev.end + 1)
        return this

    def _parse_operand(self) -> exp.Expr:
        token = self._curr.token_type
        parse = _PREFIXES.get(token)
        if parse is not None:
            return parse(self)
        if token in _CALLABLE:
            called = self._parse_called()
            if called is not None:
                return called
        if token in _OTHER_SQL:
            raise NotSupportedError(f"predicate {self.sql!r}: {self._curr.text.upper()} is not supported")
        this = self._parse_column() if token in _COLUMNS else self._parse_primary()
        return this or self._unexpected("a column, a value, or '('")

    def _parse_called(self) -> exp.Expr | None:
        """Parse a typed literal or a call; None if there is neither."""
        following = self._next.token_type
        if following not in (TokenType.STRING, TokenType.L_PAREN):
            return None
        index = self._index
        target = self._parse_types(allow_identifiers=False)
        if target and self._match(TokenType.STRING):
            literal = self._spanned(exp.Literal.string(self._prev.text), self._prev)
            return exp.Cast(this=literal, to=target)
        self._retreat(index)
        return self._parse_function_call() if following is TokenType.L_PAREN else None

    def _parse_text(self) -> exp.Expr:
        # sqlglot joins adjacent strings.
        self._advance()
        return exp.Literal.string(self._prev.text)

    def _parse_parenthesis(self) -> exp.Expr:
        self._advance()
        this = self._parse_disjunction()
        self._match_r_paren()
        return exp.Paren(this=this)

    def _parse_not(self) -> exp.Expr:
        self._advance()
        return exp.Not(this=exp.Paren(this=self._parse_tighter_than(_NOT)))

    def _parse_minus(self) -> exp.Expr:
        self._advance()
        number = self._curr.token_type in (TokenType.NUMBER, TokenType.DOT) and self._parse_primary()
        return exp.Neg(this=number or self._parse_tighter_than(_MULTIPLY))

    def _parse_operation(self, this: exp.Expr, precedence: int) -> exp.Expr:
        """Parse an operator and the operand after it."""
        negated = self._match(TokenType.NOT)
        operator = self._curr.token_type
        self._advance()
        parse = _SUFFIXES.get(operator)
        if parse is not None:
            operation = parse(self, this)
        else:
            operation = _BINARY[operator][1](this=this, expression=self._parse_tighter_than(precedence))
            if precedence == _LIKE and self._match_text_seq("ESCAPE"):
                raise NotSupportedError(
                    f"predicate {self.sql!r}: LIKE … ESCAPE is not supported; escape with a backslash"
                )
        return exp.Not(this=operation) if negated else operation

    def _parse_is(self, this: exp.Expr | None) -> exp.Expr:
        negated = self._match(TokenType.NOT)
        if self._match_text_seq("DISTINCT", "FROM"):
            other = self._parse_disjunction()
            return (exp.NullSafeEQ if negated else exp.NullSafeNEQ)(this=this, expression=other)
        if self._curr.token_type not in (TokenType.NULL, TokenType.TRUE, TokenType.FALSE):
            self._unexpected("NULL, TRUE, FALSE, or DISTINCT FROM")
        test = exp.Is(this=this, expression=self._parse_primary())
        return exp.Not(this=test) if negated else test

    def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.In:
        if not self._match(TokenType.L_PAREN):
            self._unexpected("'('")
        items = self._parse_csv(self._parse_disjunction)
        self._match_r_paren()
        return exp.In(this=this, expressions=items)

    def _parse_between(self, this: exp.Expr | None) -> exp.Between:
        low = self._parse_tighter_than(_COMPARE)
        if not self._match(TokenType.AND):
            self._unexpected("'AND'")
        return exp.Between(this=this, low=low, high=self._parse_tighter_than(_COMPARE))

    def _parse_cast(self, strict: bool, safe: bool | None = None) -> exp.Expr:
        this = self._parse_disjunction()
        if not self._match(TokenType.ALIAS):
            self._unexpected("'AS'")
        cast = self._parse_cast_to(this)
        # sqlglot itself does not check for the parenthesis.
        if self._curr.token_type is not TokenType.R_PAREN:
            self._unexpected("')'")
        return cast if strict else exp.TryCast(this=this, to=cast.args["to"])

    def _parse_cast_to(self, this: exp.Expr) -> exp.Expr:
        found = self._curr.text
        target = self._parse_types(allow_identifiers=False)
        if target is None:
            if not self._curr:
                self._unexpected("a type")
            raise NotSupportedError(
                f"predicate {self.sql!r}: unknown type {found!r}; expected one of {sorted(TYPE_WORDS)}"
            )
        return exp.Cast(this=this, to=target)

    def _parse_field(
        self,
        any_token: bool = False,
        tokens: Collection[TokenType] | None = None,
        anonymous_func: bool = False,
    ) -> exp.Expr | None:
        # sqlglot accepts any token only after a dot.
        if any_token and self._curr.token_type not in NAMES:
            self._unexpected("the name of a struct member")
        return self._parse_id_var(any_token)

    def _parse_type_size(self) -> exp.DataTypeParam:
        return exp.DataTypeParam(this=self._parse_number() or exp.Null())

    def _parse_function_args(self, alias: bool = False) -> list[exp.Expr]:
        closes = self._curr.token_type is TokenType.R_PAREN
        return [] if closes else self._parse_csv(self._parse_disjunction)

    def _parse_window(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr | None:
        return this

    def _match_r_paren(self, expression: exp.Expr | None = None) -> None:
        if not self._match(TokenType.R_PAREN):
            self._unexpected("')'")

    def _unexpected(self, expected: str) -> NoReturn:
        raise syntax_error(self.sql, self._position, f"expected {expected}, found {self._found}")

    def raise_error(self, message: str, token: Any = None) -> NoReturn:
        """Raise the error for a predicate that cannot be parsed."""
        raise syntax_error(self.sql, self._position, f"{message}, found {self._found}")

    @property
    def _position(self) -> int:
        return self._curr.start if self._curr else len(self.sql)

    @property
    def _found(self) -> str:
        return repr(self._curr.text) if self._curr else "the end"


_PREFIXES: Final[dict[TokenType, Callable[[_PredicateParser], exp.Expr]]] = {
    TokenType.STRING: _PredicateParser._parse_text,
    TokenType.L_PAREN: _PredicateParser._parse_parenthesis,
    TokenType.NOT: _PredicateParser._parse_not,
    TokenType.DASH: _PredicateParser._parse_minus,
}
_SUFFIXES: Final[dict[TokenType, Callable[[_PredicateParser, exp.Expr], exp.Expr]]] = {
    TokenType.IS: _PredicateParser._parse_is,
    TokenType.IN: _PredicateParser._parse_in,
    TokenType.BETWEEN: _PredicateParser._parse_between,
    TokenType.DCOLON: _PredicateParser._parse_cast_to,
}
