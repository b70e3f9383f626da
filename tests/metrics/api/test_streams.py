"""Requests for a stream, and the frames that are no samples."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.metrics.api import sse
from quarterdeck.metrics.api.errors import BadRequest, ErrorAnswer
from quarterdeck.metrics.api.parameters import TOO_MANY_STEPS
from quarterdeck.metrics.api.stream_request import parse_stream_request, step_for_ms
from quarterdeck.metrics.promql.errors import ParseError

HOUR = 3_600_000
NOW = 1_435_781_430_781


def body(**members: object) -> bytes:
    return json.dumps({"q": "up", **members}).encode()


@pytest.mark.parametrize(
    "start, end, start_ms, end_ms",
    [
        (0, HOUR, 0, HOUR),
        (0.9, 5.5, 0, 5),
        ("0", "3600", 0, HOUR),
        ("-5", 0, -5000, 0),
        ("100000003600", "100000003600", 100000003600, 100000003600),
        ("-1h", "now", NOW - HOUR, NOW),
        ("2015-07-01 20:10", "2015-07-01T20:10Z", NOW - 30_781, NOW - 30_781),
        ("now-1h", "now", NOW - HOUR, NOW),
        ("now-1h30m", "now+5m", NOW - 5_400_000, NOW + 300_000),
        ("e-1h", "now-1d", NOW - 25 * HOUR, NOW - 24 * HOUR),
        ("e", "now", NOW, NOW),
        ("2015-07-01T20:10:30Z", "2015-07-01T22:10:30.781+02:00", NOW - 781, NOW),
    ],
)
def test_where_a_range_starts_and_ends(start: object, end: object, start_ms: int, end_ms: int) -> None:
    asked = parse_stream_request(body(s=start, e=end), NOW)
    assert (asked.query, asked.start_ms, asked.end_ms, asked.summary) == ("up", start_ms, end_ms, False)


def test_by_default_it_is_the_last_hour() -> None:
    asked = parse_stream_request(body(summary=True), NOW)
    assert (asked.start_ms, asked.end_ms, asked.step_ms, asked.summary) == (NOW - HOUR, NOW, 10_000, True)


@pytest.mark.parametrize(
    "members, text",
    [
        ({"s": "x"}, 'invalid parameter "s": cannot parse "x" to a valid timestamp'),
        ({"e": "e-1h"}, 'invalid parameter "e": cannot parse "e-1h" to a valid timestamp'),
        ({"s": "now-1x"}, 'invalid parameter "s": cannot parse "now-1x" to a valid timestamp'),
        ({"s": "now-"}, 'invalid parameter "s": cannot parse "now-" to a valid timestamp'),
        ({"s": None}, 'invalid parameter "s": cannot parse null to a valid timestamp'),
        ({"s": True}, 'invalid parameter "s": cannot parse true to a valid timestamp'),
        ({"s": [1]}, 'invalid parameter "s": cannot parse [1] to a valid timestamp'),
        ({"e": float("nan")}, 'invalid parameter "e": cannot parse "nan" to a valid timestamp'),
        ({"e": 10**30}, f'invalid parameter "e": cannot parse {10**30} to a valid timestamp'),
        ({"s": "now+1h"}, 'invalid parameter "e": end timestamp must not be before start time'),
        ({"q": 5}, 'invalid parameter "q": it is not text'),
        ({"summary": "yes"}, 'invalid parameter "summary": it is neither true nor false'),
        ({"s": 0}, TOO_MANY_STEPS),
    ],
)
def test_what_is_wrong_with_a_request(members: dict[str, object], text: str) -> None:
    with pytest.raises(BadRequest) as raised:
        parse_stream_request(body(**members), NOW)
    assert raised.value.reason == text


@pytest.mark.parametrize("data", [b"", b"[]", b"1", b"{", b"\xff", b"[" * 100_000, b'{"s":' + b"9" * 5000 + b"}"])
def test_a_body_that_is_no_object(data: bytes) -> None:
    with pytest.raises(BadRequest, match="the body is no JSON object"):
        parse_stream_request(data, NOW)


def test_a_request_without_a_query() -> None:
    with pytest.raises(ParseError, match="no expression found in input"):
        parse_stream_request(b"{}", NOW)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(),
    st.integers(),
    st.text("0123456789-+.:TZnowehms\udcff", max_size=8),
    st.lists(st.integers(), max_size=2),
)


@given(st.dictionaries(st.sampled_from(["s", "e", "q", "summary"]), VALUES))
def test_no_request_raises_anything_but_an_error_of_ours(members: dict[str, object]) -> None:
    with contextlib.suppress(BadRequest, ParseError):
        parse_stream_request(json.dumps(members).encode(), NOW)


@pytest.mark.parametrize(
    "length_ms, step_ms",
    [
        (0, 10_000),
        (HOUR, 10_000),
        (HOUR + 1, 60_000),
        (12 * HOUR, 60_000),
        (12 * HOUR + 1, 300_000),
        (24 * HOUR, 300_000),
        (24 * HOUR + 1, 1_200_000),
        (72 * HOUR, 1_200_000),
        (72 * HOUR + 1, HOUR),
    ],
)
def test_the_step_suits_the_length(length_ms: int, step_ms: int) -> None:
    assert step_for_ms(length_ms) == step_ms


def test_signs_of_life_and_the_end() -> None:
    assert sse.HEARTBEAT == b'data: {"type":"heartbeat"}\n\n'
    assert sse.done() == b'data: {"type":"done","data":{"status":"ok"}}\n\n'
    assert sse.done(ErrorAnswer(503, "timeout", "late")) == (
        b'data: {"type":"done","data":{"status":"error","errorType":"timeout","error":"late"}}\n\n'
    )
    assert sse.done(infos=["i"], extra={"series": 3}) == (
        b'data: {"type":"done","data":{"status":"ok","infos":["i"],"series":3}}\n\n'
    )
