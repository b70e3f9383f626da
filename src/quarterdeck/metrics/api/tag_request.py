"""What is asked about tags: `{"s": "now-1h", "e": "now", "q": "up{job=\\"a\\"}", "tag": "instance", "limit": 100}`.

The members may stand in a body of JSON or in the address. All of them may be left out, but for the tag of which values
are asked for: without times all times are meant, without a selector all series. Times are those of a stream
(`stream_request.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from quarterdeck.metrics.api.errors import BadRequest, invalid_parameter
from quarterdeck.metrics.api.form import choice, limit_of
from quarterdeck.metrics.api.parameters import Partial, SeriesParameters
from quarterdeck.metrics.api.selectors import ALL_EMPTY, parse_selectors
from quarterdeck.metrics.api.stream_request import parse_moment_ms
from quarterdeck.metrics.api.times import MAX_TIME_MS, MIN_TIME_MS
from quarterdeck.metrics.promql.errors import ParseError


@dataclass(frozen=True, slots=True)
class TagRequest:
    """What is asked."""

    tag: str
    """Empty where none is named."""
    series: SeriesParameters


def parse_tag_request(members: Mapping[str, object], now_ms: int, *, needs_tag: bool = False) -> TagRequest:
    """What the members ask for; BadRequest when they make no sense.

    >>> parse_tag_request({"q": "up", "s": 0, "limit": 2}, 0).series.limit
    2
    """
    tag, query = _text(members, "tag"), _text(members, "q")
    if needs_tag and not tag:
        raise BadRequest("no tag provided", 'say of which tag: {"tag": "job"}')
    end_ms = parse_moment_ms("e", members["e"], {"now": now_ms}) if "e" in members else None
    anchors = {"now": now_ms, "e": now_ms if end_ms is None else end_ms}
    start_ms = parse_moment_ms("s", members["s"], anchors) if "s" in members else MIN_TIME_MS
    end_ms = MAX_TIME_MS if end_ms is None else end_ms
    if end_ms < start_ms:
        raise invalid_parameter("e", "end timestamp must not be before start time")
    try:
        selectors = parse_selectors([query] if query else [])
    except ParseError as error:
        raise invalid_parameter("q", error.reason) from None
    except ValueError as error:
        reason = "it must contain at least one non-empty matcher" if str(error) == ALL_EMPTY else str(error)
        raise invalid_parameter("q", reason) from None
    form = {name: [str(members[name])] for name in ("limit", "partial") if name in members}
    partial = choice(form, "partial", Partial, Partial.DENY)
    return TagRequest(tag, SeriesParameters(selectors, start_ms, end_ms, limit_of(form), partial))


def _text(members: Mapping[str, object], name: str) -> str:
    given = members.get(name, "")
    if not isinstance(given, str):
        raise invalid_parameter(name, "it is not text")
    return given
