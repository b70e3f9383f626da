"""Where something stands in the text of a query."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the query's text, in characters: from `start` to before `end`."""

    start: int
    end: int


NOWHERE = Span(0, 0)
"""The place of a node that nobody wrote."""
