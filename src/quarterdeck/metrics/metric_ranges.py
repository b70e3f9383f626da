"""What the selectors of a query would find, by the catalog alone.

If an answer is empty, this tells whether the name, the time or the labels are to blame. Nothing here opens a segment.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from quarterdeck.metrics.planning import Selection
from quarterdeck.metrics.promql.labels import METRIC_NAME
from quarterdeck.metrics.promql.syntax.ast import Matcher, MatchOp
from quarterdeck.metrics.promql.syntax.printer import show_matchers
from quarterdeck.metrics.universe import MetricRange, Universe

_NEAR: Final = 3
"""So many names are proposed."""
_COMPARED: Final = 5_000
"""With at most so many names a wrong one is compared: some 100 ms."""
_LONGEST_COMPARED: Final = 200
"""Characters of a name that is compared with others."""


@dataclass(frozen=True, slots=True)
class Selected:
    """What a selector of a query would find."""

    selector: str
    metric: str
    """Empty where the selector names none."""
    start_ms: int
    """From here on it looks for samples,"""
    end_ms: int
    """to here."""
    found: bool
    """Whether there may be series that match, then. That there are none is certain."""
    known: MetricRange | None
    """Of the metric; None where there is no such."""
    near: tuple[str, ...]
    """Names like it, where there is no such metric."""


def selected(universe: Universe, selection: Selection) -> Selected:
    """What is known about one selector."""
    metric = _metric_of(selection.matchers)
    known = universe.metrics.get(metric) if metric else None
    near = near_names(metric, universe.metrics) if metric and known is None else ()
    found = bool(universe.candidates(selection.matchers, selection.start_ms, selection.end_ms))
    if found and known is not None:
        found = known.last_ms >= selection.start_ms and known.first_ms <= selection.end_ms
    return Selected(show_matchers(selection.matchers), metric, selection.start_ms, selection.end_ms, found, known, near)


def near_names(name: str, names: Iterable[str]) -> tuple[str, ...]:
    """Names that somebody may have meant, the most likely first.

    >>> near_names("http_request_total", ["up", "http_requests_total", "http_requests"])
    ('http_requests_total', 'http_requests')
    """
    if len(name) > _LONGEST_COMPARED:
        return ()
    others = [other for other in names if len(other) <= _LONGEST_COMPARED]
    if len(others) > _COMPARED:  # those that begin alike, then those that are as long
        others.sort(key=lambda other: (other[:2] != name[:2], abs(len(other) - len(name))))
    lowered = {other.lower(): other for other in reversed(others[:_COMPARED])}
    return tuple(lowered[other] for other in get_close_matches(name.lower(), lowered, _NEAR))


def _metric_of(matchers: Sequence[Matcher]) -> str:
    return next((one.value for one in matchers if one.name == METRIC_NAME and one.op is MatchOp.EQUAL), "")
