"""The parser's place in the text: one token ahead, the depth, and the errors at this place."""

from typing import NoReturn

from quarterdeck.search.language.ast import Field, Span
from quarterdeck.search.language.errors import SearchSyntaxError, shown
from quarterdeck.search.language.lexer import Kind, Lexer, Token
from quarterdeck.search.language.quoting import is_name, unquote_name

MAX_DEPTH = 64
"""Parentheses and `not` within each other. A tree is up to twice as tall (`a or b (...)`), and comparing two takes
four of the thousand frames that Python has for each level."""
MAX_CONDITIONS = 250
"""Words and comparisons. What DuckDB has to plan grows much faster than the text: a thousand take seconds."""
MAX_NAME_LENGTH = 1000
"""Characters of a field's name."""


class Cursor:
    """A place in a search's tokens."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.end = 0
        """Where the last token that was taken ends."""
        self.regexes = 0
        """How many regular expressions there were so far."""
        self._lexer = Lexer(text)
        self._ahead: Token | None = None
        self._depth = 0
        self._conditions = 0

    def enter(self, opening: Token) -> None:
        """One level deeper; whoever enters leaves again."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            reason = f"parentheses and `not` stand more than {MAX_DEPTH} deep within each other"
            self.fail(reason, opening.span, "write a flatter condition")

    def count_condition(self) -> None:
        """The token that comes next begins one."""
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            reason = f"there are more than {MAX_CONDITIONS} conditions"
            self.fail(reason, self.peek().span, "search for fewer at once, or with a regular expression")

    def leave(self) -> None:
        """Back to the level above."""
        self._depth -= 1

    def peek(self) -> Token:
        """The token that comes next."""
        if self._ahead is None:
            self._ahead = self._lexer.next()
        return self._ahead

    def take(self) -> Token:
        """The token that comes next, and on to the one after."""
        token = self.peek()
        self._ahead = None
        self.end = token.span.end
        return token

    def take_mark(self, mark: str) -> Token | None:
        """The mark, if it comes next."""
        return self.take() if self.peek().marks(mark) else None

    def expect_mark(self, mark: str, after: str, next_step: str) -> Token:
        """The mark, which must come next."""
        return self.take_mark(mark) or self.unexpected(f"{shown(mark)} {after}", next_step)

    def expect_field(self, what: str = "the name of a field") -> Field:
        """A field, which must come next."""
        token = self.peek()
        if token.kind is Kind.WORD or token.kind is Kind.NAME:
            return self.field_of(self.take())
        if token.kind is Kind.QUOTED:
            self.fail(f"expected {what}, found a quoted text", token.span, "put the name in backquotes instead")
        return self.unexpected(what, "name a field, as in `level` or `http.status`")

    def field_of(self, token: Token) -> Field:
        """The field that a word or a name in backquotes names."""
        name = unquote_name(token.text) if token.kind is Kind.NAME else token.text
        if not name:
            self.fail("the name of a field is empty", token.span, "write the name between the backquotes")
        if len(name) > MAX_NAME_LENGTH:
            reason = f"the name of a field has {len(name)} characters, and {MAX_NAME_LENGTH} are allowed"
            self.fail(reason, token.span, "name a field")
        if token.kind is Kind.WORD and not is_name(name):
            reason = f"{token.shown} is not the name of a field without backquotes"
            step = "put it in backquotes if a field is called so; names without them have letters, digits and _ @ . -"
            self.fail(reason, token.span, step)
        return Field(name, token.span)

    def fail(self, reason: str, span: Span, next_step: str) -> NoReturn:
        """Refuse the search."""
        raise SearchSyntaxError(reason, self.text, span, next_step)

    def unexpected(self, expected: str, next_step: str) -> NoReturn:
        """Refuse the search because of the token that comes next."""
        self.fail(f"expected {expected}, found {self.peek().shown}", self.peek().span, next_step)
