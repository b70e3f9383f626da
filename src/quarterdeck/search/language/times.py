"""Times in a search, as `core/time_texts.py` reads them: the same text means the same everywhere."""

from quarterdeck.core.time_texts import FORMS, MAX_LENGTH_US, MAX_SECONDS, Moment, parse_moment, show_moment
from quarterdeck.search.language.ast import NOWHERE, Span, TimePoint

__all__ = ["FORMS", "MAX_LENGTH_US", "MAX_SECONDS", "parse_time", "show_time"]


def parse_time(text: str, span: Span = NOWHERE) -> TimePoint:
    """The moment that a text names; ValueError, which says why, when it names none.

    >>> parse_time("1970-01-01T01:00:00+01:00").at_us, parse_time("1.5").at_us
    (0, 1500000)
    """
    moment = parse_moment(text)
    return TimePoint(moment.at_us, moment.relative, span)


def show_time(point: TimePoint) -> str:
    """A moment as `parse_time` reads it.

    >>> show_time(parse_time("2026-01-31")), show_time(parse_time("now-90m"))
    ('2026-01-31T00:00:00Z', 'now-1h30m')
    """
    return show_moment(Moment(point.at_us, point.relative))
