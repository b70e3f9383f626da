"""Parsing of selectors: a metric's name and the matchers between braces."""

from quarterdeck.metrics.promql.labels import METRIC_NAME
from quarterdeck.metrics.promql.spans import Span
from quarterdeck.metrics.promql.syntax.ast import Matcher, MatchOp, VectorSelector
from quarterdeck.metrics.promql.syntax.cursor import Cursor
from quarterdeck.metrics.promql.syntax.regex import InvalidRegex, compile_matcher
from quarterdeck.metrics.promql.syntax.tokens import MATCH_OPS, Token, TokenKind

_CONTEXT = "label matching"


def parse_selector(cursor: Cursor, name: Token | None) -> VectorSelector:
    """The selector whose name, if it stands before the braces, was already taken."""
    start = name or cursor.peek()
    if not cursor.peek().says(TokenKind.MARK, "{"):
        assert name is not None, "a selector begins with a name or a brace"
        return VectorSelector(name.text, (_named(name.text),), span=name.span)
    cursor.take()
    matchers = _parse_matchers(cursor)
    span = Span(start.span.start, cursor.expect_mark("}", _CONTEXT, '"," or "}"').span.end)
    if name is None:
        return VectorSelector(None, tuple(matchers), span=span)
    return VectorSelector(name.text, (*matchers, _named(name.text)), span=span)


def _named(name: str) -> Matcher:
    return Matcher(METRIC_NAME, MatchOp.EQUAL, name)


def _parse_matchers(cursor: Cursor) -> list[Matcher]:
    """The matchers up to the closing brace; a bare string is a metric's name, and a comma may follow the last one."""
    matchers: list[Matcher] = []
    while not (cursor.peek().says(TokenKind.MARK, "}")):
        name = cursor.peek()
        if name.kind not in (TokenKind.IDENTIFIER, TokenKind.STRING):
            cursor.unexpected(_CONTEXT, 'identifier or "}"')
        cursor.take()
        if cursor.peek().word in MATCH_OPS and cursor.peek().kind in (TokenKind.OPERATOR, TokenKind.MARK):
            matchers.append(_parse_matcher(cursor, name))
        elif name.kind is TokenKind.STRING:
            matchers.append(_named(name.word))
        else:
            cursor.unexpected(_CONTEXT, "label matching operator")
        if not cursor.take_mark(","):
            break
    return matchers


def _parse_matcher(cursor: Cursor, name: Token) -> Matcher:
    op = MATCH_OPS[cursor.take().word]
    if cursor.peek().kind is not TokenKind.STRING:
        cursor.unexpected(_CONTEXT, "string")
    value = cursor.take()
    if op in (MatchOp.REGEX, MatchOp.NOT_REGEX):
        try:
            compile_matcher(value.word)
        except InvalidRegex as error:
            cursor.fail(str(error), Span(name.span.start, value.span.end))
    return Matcher(name.word, op, value.word)
