"""The body of a request for a stream: `{"s": "e-1h", "e": "now", "q": "sum(rate(m[5m]))", "summary": false}`.

`s` and `e` are where the range starts and ends: a number is milliseconds since 1970, and a text is a time as it is
written everywhere (`now-1h`, RFC 3339, seconds since 1970); the start may also be counted from the end (`e-1h`). By
default it is the last hour. The step comes from the length of the range.

Digits that would be seconds of a time after the year 5138 are milliseconds: clients put these into an address.
"""

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Final, cast

from quarterdeck.core.time_texts import MAX_SECONDS, counted_us
from quarterdeck.metrics.api.errors import BadRequest, invalid_parameter
from quarterdeck.metrics.api.form import MAX_VALUE_CHARACTERS
from quarterdeck.metrics.api.json_text import json_bytes
from quarterdeck.metrics.api.parameters import check_steps
from quarterdeck.metrics.api.times import MAX_TIME_MS, MIN_TIME_MS, parse_time_ms
from quarterdeck.metrics.promql.errors import ParseError
from quarterdeck.metrics.promql.spans import Span

_HOUR_MS: Final = 3_600_000
_STEPS_MS: Final = (
    (1 * _HOUR_MS, 10_000),
    (12 * _HOUR_MS, 60_000),
    (24 * _HOUR_MS, 300_000),
    (72 * _HOUR_MS, 1_200_000),
)
"""Up to which length of a range which step: some hundreds of points, as many as a chart can show."""
_WHOLE: Final = re.compile(r"-?[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """What is to be streamed."""

    query: str
    start_ms: int
    end_ms: int
    step_ms: int
    summary: bool
    """One frame a series instead of its samples."""


def parse_stream_request(body: bytes, now_ms: int) -> StreamRequest:
    """What a body asks for; BadRequest when it makes no sense, ParseError when it has no query.

    >>> parse_stream_request(b'{"q": "up", "e": 7200000}', 0)
    StreamRequest(query='up', start_ms=3600000, end_ms=7200000, step_ms=10000, summary=False)
    """
    members = parse_members(body)
    query, summary = members.get("q", ""), members.get("summary", False)
    if not isinstance(query, str):
        raise invalid_parameter("q", "it is not text")
    if not isinstance(summary, bool):
        raise invalid_parameter("summary", "it is neither true nor false")
    end_ms = parse_moment_ms("e", members.get("e", "now"), {"now": now_ms})
    start_ms = parse_moment_ms("s", members.get("s", "e-1h"), {"now": now_ms, "e": end_ms})
    if end_ms < start_ms:
        raise invalid_parameter("e", "end timestamp must not be before start time")
    step_ms = step_for_ms(end_ms - start_ms)
    check_steps(start_ms, end_ms, step_ms)
    if not query:
        raise ParseError("no expression found in input", query, Span(0, 0))
    return StreamRequest(query, start_ms, end_ms, step_ms, summary)


def step_for_ms(length_ms: int) -> int:
    """The step that suits the length of a range.

    >>> step_for_ms(3_600_000), step_for_ms(3_600_001), step_for_ms(30 * 86_400_000)
    (10000, 60000, 3600000)
    """
    return next((step_ms for most_ms, step_ms in _STEPS_MS if length_ms <= most_ms), _HOUR_MS)


def parse_members(body: bytes) -> dict[str, Any]:
    """The members of a body that is a JSON object; BadRequest when it is none."""
    try:
        read: object = json.loads(body)
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        raise BadRequest("the body is no JSON object", 'send {"q": "up", "s": "now-1h", "e": "now"}')
    return cast("dict[str, Any]", read)


def parse_moment_ms(name: str, given: object, anchors: dict[str, int]) -> int:
    """A time as the member `name` may have it; `anchors` are the words from which it may be counted.

    >>> parse_moment_ms("s", "now-1h", {"now": 7_200_000})
    3600000
    """
    time_ms = None
    if isinstance(given, int | float) and not isinstance(given, bool):
        time_ms = math.floor(given) if math.isfinite(given) else None
    elif isinstance(given, str) and len(given) <= MAX_VALUE_CHARACTERS:
        time_ms = _text_ms(given, anchors)
    if time_ms is None or not MIN_TIME_MS <= time_ms <= MAX_TIME_MS:
        given = given[:MAX_VALUE_CHARACTERS] if isinstance(given, str) else given
        shown = json_bytes(given if not isinstance(given, float) or math.isfinite(given) else str(given)).decode()
        raise invalid_parameter(name, f"cannot parse {shown[:100]} to a valid timestamp")
    return time_ms


def _text_ms(text: str, anchors: dict[str, int]) -> int | None:
    if _WHOLE.fullmatch(text) and abs(int(text)) >= MAX_SECONDS:
        return int(text)
    try:
        for word, at_ms in anchors.items():
            if word != "now" and (distance_us := counted_us(text, word)) is not None:
                return at_ms + distance_us // 1_000
        return parse_time_ms(text, anchors["now"])
    except ValueError:
        return None
