"""Splitting predicates into tokens."""

import pytest
from sqlglot.tokenizer_core import TokenType

from lance_core.errors import InvalidInputError
from lance_core.predicate.tokenizer import tokenize


def _words(text: str) -> list[tuple[TokenType, str]]:
    return [(token.token_type, token.text) for token in tokenize(text)]


def test_predicate_text_is_split_into_tokens_of_every_kind() -> None:
    assert _words("a.b >= 1.5e-3 -- the rest\n/* and\nmore */ || X'6162'") == [
        (TokenType.VAR, "a"),
        (TokenType.DOT, "."),
        (TokenType.VAR, "b"),
        (TokenType.GTE, ">="),
        (TokenType.NUMBER, "1.5e-3"),
        (TokenType.DPIPE, "||"),
        (TokenType.BYTE_STRING, "6162"),
    ]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("'it''s'", TokenType.STRING, "it's"),
        ('"say ""x"""', TokenType.STRING, 'say "x"'),
        ("'say \"\"x'", TokenType.STRING, 'say ""x'),
        ("\"it''s\"", TokenType.STRING, "it''s"),
        ("'a\\'", TokenType.STRING, "a\\"),
        ("'a\\n\0\r\nb'", TokenType.STRING, "a\\n\0\r\nb"),
        ("''", TokenType.STRING, ""),
        ("'-- no /* comment'", TokenType.STRING, "-- no /* comment"),
        ("`a ``b`` c`", TokenType.IDENTIFIER, "a `b` c"),
        ("été_1$", TokenType.VAR, "été_1$"),
        ("a@b#c", TokenType.VAR, "a@b#c"),
        ("selection", TokenType.VAR, "selection"),
        ("Date", TokenType.DATE, "Date"),
        ("1.", TokenType.NUMBER, "1."),
        ("1.e5", TokenType.NUMBER, "1.e5"),
    ],
)
def test_quoted_strings_and_names_are_tokenized(text: str, kind: TokenType, value: str) -> None:
    assert _words(text) == [(kind, value)]


def test_tokens_keep_their_positions() -> None:
    tokens = tokenize("ab  = 'c' --d")
    assert [(token.start, token.end) for token in tokens] == [(0, 1), (4, 4), (6, 8)]


@pytest.mark.parametrize("text", ["a /**/ = --x\r y\n 1", "a\x0b=\xa01 -- end", "--x\na=1/* /* */", "a=1 /*'*/"])
def test_comments_are_treated_as_whitespace(text: str) -> None:
    assert [word for _, word in _words(text)] == ["a", "=", "1"]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "a € b",
            "1_000",
            "12ab",
            "1.2.3",
            "1e",
            "1..2",
            "0x1F",
            "1and",
            "1 . 5",
            ". 5",
            ".51.5",
            ".5.",
            "٣",
            "\0",
            "a\0b",
        ),
        *("X'6'", "X'zz'", "x'6_1'", "X'61''62'", "@a", "$a", "#a"),
        *("a /* open", "a /* /* */ */ /*", "a {# x #} = 1", "{# x #} a"),
    ],
)
def test_unknown_token_is_refused_with_its_position(text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"cannot be parsed at character \d+"):
        tokenize(text)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        *(("'open", 1), ('a = "open', 5), ("`open", 1), ("a '", 3), ("'it''", 1), ("`a``", 1), ("x'61", 1)),
        *(("a = 'x\\'y'", 10), ("a /* open", 3)),
    ],
)
def test_unclosed_quote_or_comment_is_refused_with_its_position(text: str, place: int) -> None:
    with pytest.raises(InvalidInputError, match=f"at character {place}: a quote or comment is not closed"):
        tokenize(text)
