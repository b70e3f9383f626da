"""From text to tokens, one at a time, so that the first mistake in the text is the one that is reported.

A word is a run of anything except blanks, quotes and the marks of the language, so `/api/v1` and `12:30` are words.
What a token means depends on its place; the parser knows that. Positions are in characters.
"""

import re
from enum import StrEnum
from typing import NamedTuple

from quarterdeck.search.language.ast import Span
from quarterdeck.search.language.errors import SearchSyntaxError, shown

# Possessive where it counts: none looks at a character more than a few times. Only single characters are repeated
# possessively: before 3.11.5 Python gets groups wrong that have a choice in them.
_BLANKS = re.compile(r"\s*+")
_WORD = re.compile(r"""[^\s"'`()\[\]|,=!<>]++""")
_OPERATOR = re.compile(r"==|=~|!=|!~|<=|>=|[=<>]")
_QUOTED = {mark: re.compile(rf"{mark}[^{mark}\\]*+(?:\\.[^{mark}\\]*+)*{mark}", re.DOTALL) for mark in "\"'"}
_NAME = re.compile(r"`[^`]*+(?:``[^`]*+)*`(?!`)")
_KEYWORDS = {written: word for word in ("and", "or", "not") for written in (word, word.upper())}


class Kind(StrEnum):
    WORD = "word"
    QUOTED = "quoted text"
    NAME = "name in backquotes"
    OPERATOR = "operator"
    MARK = "mark"
    END = "end"


class Token(NamedTuple):
    """A piece of the text."""

    kind: Kind
    text: str
    """As it was written, quotes included."""
    span: Span
    glued: bool
    """Whether no blank stands before it."""
    keyword: str = ""
    """Which of `and`, `or` and `not` it is where a condition may stand. One with an operator right behind it is none,
    but the name of a field."""

    @property
    def shown(self) -> str:
        """How a message names it."""
        return "the end" if self.kind is Kind.END else shown(self.text)

    def says(self, *words: str) -> bool:
        """Whether it is one of these bare words, in small or capital letters."""
        return self.kind is Kind.WORD and self.text.lower() in words

    def marks(self, mark: str) -> bool:
        """Whether it is this mark."""
        return self.kind is Kind.MARK and self.text == mark


class Lexer:
    """The tokens of one search."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def next(self) -> Token:
        """The next token; at the end, and ever after, the token END. It stands right behind the last other one."""
        before = self._position
        start = _end(_BLANKS, self._text, before)
        char = self._text[start : start + 1]
        if not char:
            return Token(Kind.END, "", Span(before, before), True)
        kind, end = self._measure(char, start)
        self._position = end
        text = self._text[start:end]
        keyword = _KEYWORDS.get(text, "")
        if keyword and _OPERATOR.match(self._text, end):
            keyword = ""
        return Token(kind, text, Span(start, end), start == before, keyword)

    def _measure(self, char: str, start: int) -> tuple[Kind, int]:
        if char in _QUOTED:
            return Kind.QUOTED, self._closed(_QUOTED[char], char, start)
        if char == "`":
            return Kind.NAME, self._closed(_NAME, char, start)
        if operator := _OPERATOR.match(self._text, start):
            return Kind.OPERATOR, operator.end()
        if char in "()[]|,!":
            return Kind.MARK, start + 1
        return Kind.WORD, _end(_WORD, self._text, start)

    def _closed(self, pattern: re.Pattern[str], mark: str, start: int) -> int:
        found = pattern.match(self._text, start)
        if found is None:
            step = f"close it with {mark}, or write a {mark} that is part of a text within quotes of the other kind"
            what = "a name in backquotes" if mark == "`" else "a quoted text"
            raise SearchSyntaxError(
                f"{what} begins here and does not end",
                self._text,
                Span(start, start + 1),
                f"close it with {mark}" if mark == "`" else step,
            )
        return found.end()


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    assert found is not None, "called where the pattern matches"
    return found.end()
