"""`match[]`: which series a client means, outside of a query."""

from collections.abc import Sequence
from typing import Final, TypeAlias

from quarterdeck.metrics.promql.syntax.ast import Matcher
from quarterdeck.metrics.promql.syntax.cursor import Cursor
from quarterdeck.metrics.promql.syntax.matchers import accepts
from quarterdeck.metrics.promql.syntax.selectors import parse_selector
from quarterdeck.metrics.promql.syntax.tokens import Kind

Matchers: TypeAlias = tuple[Matcher, ...]

ALL_EMPTY: Final = "match[] must contain at least one non-empty matcher"


def parse_selectors(texts: Sequence[str]) -> tuple[Matchers, ...]:
    """The matchers of each; ParseError if one is no selector, ValueError if one would take series of any labels.

    >>> [matcher.value for matcher in parse_selectors(['up{job="a"}'])[0]]
    ['a', 'up']
    """
    found = tuple(_parse_selector(text) for text in texts)
    for matchers in found:
        if all(accepts(matcher, "") for matcher in matchers):
            raise ValueError(ALL_EMPTY)
    return found


def _parse_selector(text: str) -> Matchers:
    """Only a name and matchers; nothing of what may follow them in a query."""
    cursor = Cursor(text, experimental=False)
    name = None
    if not cursor.peek().says(Kind.MARK, "{"):
        if not cursor.peek().names_metric:
            cursor.unexpected()
        name = cursor.take()
    selector = parse_selector(cursor, name)
    if cursor.peek().kind is not Kind.END:
        cursor.unexpected()
    return selector.matchers
