"""From text to a tree. `or` binds loosest, then `and`, which may be left out, then `not`.

Time and depth are bounded: every character is read a fixed number of times, and nothing here or in the tree is deeper
than the cursor allows.
"""

import re

from quarterdeck.search.language.ast import (
    And,
    Compare,
    Condition,
    Contains,
    Everything,
    Glob,
    Not,
    Op,
    Or,
    Search,
    Span,
    Text,
    TimePoint,
    TimeRange,
    Value,
)
from quarterdeck.search.language.cursor import Cursor
from quarterdeck.search.language.errors import SearchSyntaxError, shown
from quarterdeck.search.language.fields import check_stages
from quarterdeck.search.language.lexer import Kind, Token
from quarterdeck.search.language.stages import parse_stages
from quarterdeck.search.language.times import FORMS, parse_time
from quarterdeck.search.language.values import looks_like_a_number, quoted_text, regex, word_value

MAX_LENGTH = 100_000
"""Characters of a search."""

_NO_TEXT = re.compile("[\ud800-\udfff]")
_MATCHES = (Op.MATCH, Op.NOT_MATCH)
_EQUALITIES = (Op.EQUAL, Op.NOT_EQUAL)


def parse_search(text: str) -> Search:
    """The tree of a search; SearchSyntaxError when the text is none.

    >>> parse_search("level=error | head 5").stages[0].count
    5
    """
    if len(text) > MAX_LENGTH:
        reason = f"the search has {len(text)} characters, and {MAX_LENGTH} are allowed"
        raise SearchSyntaxError(reason, text[:MAX_LENGTH], Span(0, 1), "split it into several")
    if half := _NO_TEXT.search(text):
        reason = "half a character: a surrogate without its other half"
        raise SearchSyntaxError(reason, text, Span(*half.span()), "leave it out")
    cursor = Cursor(text)
    condition = _whole_condition(cursor)
    search = Search(condition, parse_stages(cursor), text)
    check_stages(search)
    return search


def _whole_condition(cursor: Cursor) -> Condition:
    first = cursor.peek()
    if first.kind is Kind.END or first.marks("|"):
        return Everything(Span(first.span.start, first.span.start))
    condition = _disjunction(cursor)
    if cursor.peek().marks(")"):
        cursor.fail("this parenthesis closes nothing", cursor.peek().span, "leave it out, or open one before it")
    return condition


def _disjunction(cursor: Cursor) -> Condition:
    start = cursor.peek().span.start
    parts = [_conjunction(cursor)]
    while cursor.peek().keyword == "or":
        cursor.take()
        parts.append(_conjunction(cursor))
    return parts[0] if len(parts) == 1 else Or(tuple(parts), Span(start, cursor.end))


def _conjunction(cursor: Cursor) -> Condition:
    start = cursor.peek().span.start
    parts = [_negation(cursor)]
    while True:
        token = cursor.peek()
        if token.keyword == "and":
            cursor.take()
        elif token.kind is Kind.END or token.keyword == "or" or token.marks("|") or token.marks(")"):
            break
        parts.append(_negation(cursor))
    return parts[0] if len(parts) == 1 else And(tuple(parts), Span(start, cursor.end))


def _negation(cursor: Cursor) -> Condition:
    negations: list[Token] = []
    while cursor.peek().keyword == "not" or cursor.peek().marks("!"):
        cursor.enter(cursor.peek())
        negations.append(cursor.take())
    condition = _operand(cursor)
    for negation in reversed(negations):
        condition = Not(condition, Span(negation.span.start, cursor.end))
        cursor.leave()
    return condition


def _operand(cursor: Cursor) -> Condition:
    token = cursor.peek()
    if opening := cursor.take_mark("("):
        cursor.enter(opening)
        condition = _disjunction(cursor)
        if not cursor.take_mark(")"):
            found = cursor.peek().shown
            cursor.fail(f"this parenthesis is not closed before {found}", opening.span, "close it with )")
        cursor.leave()
        return condition
    cursor.count_condition()
    if token.marks("["):
        return _time_range(cursor)
    if token.kind is Kind.OPERATOR:
        return _bare_match(cursor)
    if token.keyword or token.kind in (Kind.MARK, Kind.END):
        step = f'write one there; the word itself is "{token.text}", in quotes' if token.keyword else "write one there"
        cursor.unexpected("a condition", step)
    return _term(cursor)


def _term(cursor: Cursor) -> Condition:
    """What begins with a word, a quoted text or a name in backquotes."""
    token = cursor.take()
    following = cursor.peek()
    if following.kind is Kind.OPERATOR:
        return _comparison(cursor, token)
    if token.kind is Kind.NAME:
        cursor.unexpected(f"a comparison after the field {token.shown}", "write one, such as =* for any value")
    if token.text == "~":
        return _matching(cursor, token)
    if following.glued:
        _refuse_glued(cursor, token, following)
    if token.kind is Kind.QUOTED:
        return Contains(quoted_text(cursor, token), token.span)
    if token.text == "*":
        return Everything(token.span)
    is_glob = "*" in token.text or "?" in token.text
    return Contains(Glob(token.text, token.span) if is_glob else Text(token.text, span=token.span), token.span)


def _refuse_glued(cursor: Cursor, token: Token, following: Token) -> None:
    """`it's`, `hello!` and `count()` in a condition are all meant otherwise than as two conditions side by side."""
    is_opening = following.kind is Kind.MARK and following.text in "([!"
    if not is_opening and following.kind not in (Kind.QUOTED, Kind.NAME, Kind.WORD):
        return
    if following.marks("(") and token.kind is Kind.WORD:
        reason = f"{shown(token.text + '(')} is not a condition"
        step = "put a | before it if it is a stage, a blank behind the word if not"
        cursor.fail(reason, Span(token.span.start, following.span.end), step)
    reason = f"{token.shown} and {following.shown} stand together without a blank"
    cursor.fail(reason, following.span, "put a blank between them, or all of it into one pair of quotes")


def _bare_match(cursor: Cursor) -> Condition:
    """`=~"..."` without a field, and its opposite."""
    token = cursor.peek()
    if token.text not in _MATCHES:
        step = "write a field's name before it; one called `and`, `or` or `not` goes in backquotes"
        cursor.unexpected("a condition", step)
    cursor.take()
    matching = _matching(cursor, token)
    return Not(matching, matching.span) if token.text == Op.NOT_MATCH else matching


def _matching(cursor: Cursor, mark: Token) -> Contains:
    if cursor.peek().kind is not Kind.QUOTED:
        cursor.unexpected(f"a regular expression in quotes after {mark.shown}", "write one there")
    token = cursor.take()
    _check_end(cursor, token)
    return Contains(regex(cursor, token), Span(mark.span.start, token.span.end))


def _comparison(cursor: Cursor, name: Token) -> Compare:
    operator = cursor.take()
    if name.kind is Kind.QUOTED:
        step = "put the field's name in backquotes, or a blank and a ~ before an expression that is not a value"
        cursor.fail("a quoted text is not the name of a field", name.span, step)
    field = cursor.field_of(name)
    op = Op.EQUAL if operator.text == "==" else Op(operator.text)
    value = _value(cursor, op, operator)
    return Compare(field, op, value, Span(name.span.start, cursor.end))


def _value(cursor: Cursor, op: Op, operator: Token) -> Value:
    if cursor.peek().kind not in (Kind.WORD, Kind.QUOTED):
        what = "a regular expression" if op in _MATCHES else "a value"
        step = "write one there, in quotes if it has blanks or marks in it"
        cursor.unexpected(f"{what} after {operator.shown}", step)
    token = cursor.take()
    _check_end(cursor, token)
    if op in _MATCHES:
        return regex(cursor, token)
    if token.kind is Kind.QUOTED:
        return quoted_text(cursor, token)
    value = word_value(token)
    if op not in _EQUALITIES:
        if isinstance(value, Glob):
            reason = f"{token.shown} has wildcards, which {shown(op)} cannot compare with"
            cursor.fail(reason, token.span, "use = or !=, or put it in quotes to have it to the letter")
        if isinstance(value, Text) and looks_like_a_number(token.text):
            reason = f"{token.shown} is beyond the numbers that can be compared"
            cursor.fail(reason, token.span, "put it in quotes to compare it as a text")
    return value


def _check_end(cursor: Cursor, value: Token) -> None:
    """Behind a value something else may stand, but not a piece that was meant to be part of it."""
    following = cursor.peek()
    if following.kind is Kind.OPERATOR:
        reason = f"found {following.shown} right after the value {value.shown}"
        cursor.fail(reason, following.span, "put a value that has such marks in it into quotes")
    if following.glued and (following.kind in (Kind.QUOTED, Kind.NAME, Kind.WORD) or following.text in ("(", "[", "!")):
        reason = f"{value.shown} and {following.shown} stand together without a blank"
        cursor.fail(reason, following.span, "put a blank between them, or all of it into one pair of quotes")


def _time_range(cursor: Cursor) -> TimeRange:
    opening = cursor.take()
    step = "write a range as in [now-1h, now] or [2026-01-31, ]"
    start = _time(cursor)
    cursor.expect_mark(",", "between the start and the end of a range of times", step)
    end = _time(cursor)
    cursor.expect_mark("]", "after the end of a range of times", step)
    span = Span(opening.span.start, cursor.end)
    if start and end and start.relative == end.relative and end.at_us < start.at_us:
        cursor.fail("the range of times ends before it begins", span, "swap its start and its end")
    return TimeRange(start, end, span)


def _time(cursor: Cursor) -> TimePoint | None:
    start = cursor.peek().span.start
    if cursor.peek().kind is not Kind.WORD:
        return None
    while cursor.peek().kind is Kind.WORD:  # a date and a time may stand side by side
        cursor.take()
    span = Span(start, cursor.end)
    written = cursor.text[span.start : span.end]
    try:
        return parse_time(written, span)
    except ValueError as error:
        cursor.fail(f"{shown(written)} was not understood as a time: {error}", span, f"write it as in {FORMS}")
