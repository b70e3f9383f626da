"""What --start, --end and --last say together, and what they may not say."""

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.terminal import times
from quarterdeck.terminal.times import now_s, parse_length_s, parse_time_s, resolve_bounds

NOW_S = 10_000.0


@pytest.mark.parametrize(
    ("start", "end", "last", "bounds"),
    [
        (None, None, None, (None, None)),
        ("now-1h", None, None, ("6400", None)),
        (None, "now-1h", None, (None, "6400")),
        (None, None, "1h", ("6400", None)),
        ("1000", None, "1h", ("1000", "4600")),
        (None, "9000", "1h", ("5400", "9000")),
        ("1000", "2000", None, ("1000", "2000")),
        ("1000", "2000", "1h", ("1000", "2000")),
        ("0.000001", "0.000002", None, ("0.000001", "0.000002")),
    ],
)
def test_two_of_start_end_and_last_are_a_range(
    start: str | None, end: str | None, last: str | None, bounds: tuple[str | None, str | None]
) -> None:
    assert resolve_bounds(start, end, last, NOW_S) == bounds


@pytest.mark.parametrize(
    ("start", "end", "why"), [("7", "7", "it ends where it begins"), ("now", "now-1m", "it begins 60 s after its end")]
)
def test_a_range_with_nothing_in_it_is_refused(start: str, end: str, why: str) -> None:
    with pytest.raises(QuarterdeckError, match=why) as refused:
        resolve_bounds(start, end, None, NOW_S)
    assert refused.value.code is ErrorCode.INVALID_ARGUMENT


@pytest.mark.parametrize("text", ["0", "0s", "293y", "9223372037"])
def test_a_length_is_more_than_nothing_and_no_more_than_prometheus_can_hold(text: str) -> None:
    with pytest.raises(QuarterdeckError, match="--last was not understood") as refused:
        parse_length_s("--last", text)
    assert refused.value.code is ErrorCode.INVALID_ARGUMENT
    assert parse_length_s("--last", "9223372036") == 9_223_372_036
    assert parse_length_s("--last", "0.000001") == 0.000_001


def test_now_is_the_moment_that_was_given_to_the_microsecond() -> None:
    assert parse_time_s("--at", "now", 0.000_249) == 0.000_249


def test_now_is_told_in_whole_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times.time, "time", lambda: 1_700_000_000.123_987)
    assert now_s() == 1_700_000_000.124
