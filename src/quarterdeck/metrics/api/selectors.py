"""`match[]`: which series a client means, outside of a query."""

from collections.abc import Sequence
from typing import Final, TypeAlias

from quarterdeck.metrics.promql.syntax.ast import Matcher
from quarterdeck.metrics.promql.syntax.cursor import Cursor
from quarterdeck.metrics.promql.syntax.matchers import accepts
from quarterdeck.metrics.promql.syntax.selectors import parse_selector
from quarterdeck.metrics.promql.syntax.tokens import TokenKind

Matchers: TypeAlias = tuple[Matcher, ...]

MAX_SELECTORS: Final = 256
"""Of a request. Each is compared with every segment, and goes to every worker."""
MAX_MATCHERS: Final = 1_000
"""Of all selectors together."""
MAX_CHARACTERS: Final = 128 * 1024
"""Of all selectors together, as of a query."""
_MOST: Final = (
    f"at most {MAX_SELECTORS} selectors with {MAX_MATCHERS:,} matchers and {MAX_CHARACTERS:,} characters are allowed: "
    "ask in several requests, or with a regular expression"
)

ALL_EMPTY: Final = "match[] must contain at least one non-empty matcher"


def parse_selectors(texts: Sequence[str]) -> tuple[Matchers, ...]:
    """The matchers of each; ParseError if one is no selector, ValueError if one would take series of any labels, or
    there are too many.

    >>> [matcher.value for matcher in parse_selectors(['up{job="a"}'])[0]]
    ['a', 'up']
    """
    if len(texts) > MAX_SELECTORS:
        raise ValueError(f"there are {len(texts)} selectors, and {_MOST}")
    if sum(map(len, texts)) > MAX_CHARACTERS:
        raise ValueError(f"the selectors have {sum(map(len, texts)):,} characters, and {_MOST}")
    found = tuple(_parse_selector(text) for text in texts)
    if sum(map(len, found)) > MAX_MATCHERS:
        raise ValueError(f"the selectors have {sum(map(len, found)):,} matchers, and {_MOST}")
    for matchers in found:
        if all(accepts(matcher, "") for matcher in matchers):
            raise ValueError(ALL_EMPTY)
    return found


def _parse_selector(text: str) -> Matchers:
    """Only a name and matchers; nothing of what may follow them in a query."""
    cursor = Cursor(text, experimental=False)
    name = None
    if not cursor.peek().says(TokenKind.MARK, "{"):
        if not cursor.peek().names_metric:
            cursor.unexpected()
        name = cursor.take()
    selector = parse_selector(cursor, name)
    if cursor.peek().kind is not TokenKind.END:
        cursor.unexpected()
    return selector.matchers
