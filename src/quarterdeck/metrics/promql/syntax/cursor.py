"""The parser's place in the text: one token ahead, and the errors told from there."""

from typing import NoReturn

from quarterdeck.metrics.promql.errors import ParseError
from quarterdeck.metrics.promql.spans import Span
from quarterdeck.metrics.promql.syntax.durations import parse_duration_ms
from quarterdeck.metrics.promql.syntax.lexer import Lexer
from quarterdeck.metrics.promql.syntax.numerals import parse_number
from quarterdeck.metrics.promql.syntax.tokens import Token, TokenKind

MAX_NESTING = 100
"""Brackets and right operands within each other: each costs up to seven of the thousand frames that Python has."""


class Cursor:
    """A place in a query's tokens."""

    def __init__(self, text: str, *, experimental: bool) -> None:
        self.text = text
        self.experimental = experimental
        """Whether what Prometheus has behind a switch is understood."""
        self.open_aggregations = 0
        """How many aggregations the place is in; messages without a better context say so."""
        self._lexer = Lexer(text)
        self._ahead: Token | None = None
        self._nesting = 0

    def enter(self) -> None:
        """One level deeper; whoever enters leaves again."""
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            self.fail(f"the query is nested deeper than {MAX_NESTING} levels", self.peek().span)

    def leave(self) -> None:
        """Back to the level above."""
        self._nesting -= 1

    def peek(self) -> Token:
        """The token that comes next."""
        if self._ahead is None:
            self._ahead = self._lexer.next()
        return self._ahead

    def take(self) -> Token:
        """The token that comes next, and on to the one after."""
        token = self.peek()
        self._ahead = None
        return token

    def take_mark(self, mark: str) -> Token | None:
        """The mark, if it comes next."""
        return self.take() if self.peek().says(TokenKind.MARK, mark) else None

    def expect_mark(self, mark: str, context: str = "", expected: str = "") -> Token:
        """The mark, which must come next."""
        return self.take_mark(mark) or self.unexpected(context, expected)

    def fail(self, reason: str, span: Span) -> NoReturn:
        """Refuse the query."""
        raise ParseError(reason, self.text, span)

    def unexpected(self, context: str = "", expected: str = "") -> NoReturn:
        """Refuse the query because of the token that comes next."""
        if not context and self.open_aggregations:
            context = "aggregation"
        reason = f"unexpected {self.peek().shown}"
        reason += f" in {context}" if context else ""
        reason += f", expected {expected}" if expected else ""
        self.fail(reason, self.peek().span)

    def value_of(self, token: Token) -> float:
        """The value of a number, or of a duration in seconds."""
        try:
            return (
                parse_duration_ms(token.text) / 1000 if token.kind is TokenKind.DURATION else parse_number(token.text)
            )
        except ValueError as error:
            self.fail(f"{error}" if token.kind is TokenKind.DURATION else f"error parsing number: {error}", token.span)
