"""A time means what it says, and nothing that is none is taken for one."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.core.time_texts import (
    MAX_CALENDAR_US,
    MAX_LENGTH_US,
    MAX_SECONDS,
    MIN_CALENDAR_US,
    UNITS_US,
    Moment,
    calendar_us,
    parse_length_us,
    parse_moment,
    show_length_us,
    show_moment,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
US = timedelta(microseconds=1)
moments = st.builds(Moment, st.integers(-MAX_SECONDS * 10**6 + 1, MAX_SECONDS * 10**6 - 1)) | st.builds(
    Moment, st.integers(-MAX_LENGTH_US, MAX_LENGTH_US), st.just(True)
)


@pytest.mark.parametrize(
    ("text", "at_us"),
    [
        ("0", 0),
        ("1769860800", 1_769_860_800_000_000),
        ("1769860800.25", 1_769_860_800_250_000),
        ("5.", 5_000_000),
        ("-1.5", -1_500_000),
        ("1.0000019", 1_000_001),
        ("1970-01-02", 86_400_000_000),
        ("1970-01-01 00:01", 60_000_000),
        ("1970-01-01T00:00:01", 1_000_000),
        ("1970-01-01t00:00:01z", 1_000_000),
        ("1970-01-01T0:00:01Z", 1_000_000),
        ("1970-01-01 00:00:01 +01:00", -3_599_000_000),
        ("1970-01-01T00:00:00-0130", 5_400_000_000),
        ("1970-01-01T00:00:00.1234567899Z", 123_456),
        ("1970-01-01T00:00:00,5Z", 500_000),
        ("1969-12-31T23:59:59.5", -500_000),
        ("2000-02-29", 951_782_400_000_000),
    ],
)
def test_a_time_is_seconds_or_a_date_and_without_a_zone_utc(text: str, at_us: int) -> None:
    assert parse_moment(text) == Moment(at_us)


@pytest.mark.parametrize(
    ("text", "after_us"),
    [
        ("now", 0),
        ("now-2h", -7_200_000_000),
        ("-2h", -7_200_000_000),
        ("now - 1h30m", -5_400_000_000),
        ("-1h30m", -5_400_000_000),
        ("now+5m", 300_000_000),
        ("now-1y2w3d4h5m6s7ms8us", -(382 * 86_400 + 4 * 3600 + 306) * 10**6 - 7_008),
        ("now-90", -90_000_000),
        ("now-0.5", -500_000),
    ],
)
def test_a_time_is_a_length_from_now(text: str, after_us: int) -> None:
    assert parse_moment(text) == Moment(after_us, relative=True)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *(
            (text, "it is not a time")
            for text in ("", "soon", "now-", "now2h", "now--2h", "2h", "-", "-h", "1e9", "nan")
        ),
        *((text, "it is not a time") for text in ("now-1.5h", "now-1h1h", "now-1m1h", "now-1x", "-1x", "--1h", "+1h")),
        *((text, "it is not a time") for text in ("2026-1-1", "26-01-01", "2026-01-31T", "2026-01-31T12", " 1", "٣")),
        ("now-11000y", "it is more than 10,000 years away"),
        ("100000000000", "so many seconds since 1970 are too far away"),
        ("2026-13-01", "month must be in 1..12"),
        ("2026-00-01", "month must be in 1..12"),
        ("2026-02-29", "day must be in 1..28"),
        ("1900-02-29", "day must be in 1..28"),
        ("2024-02-30", "day must be in 1..29"),
        ("2026-04-31", "day must be in 1..30"),
        ("2026-01-01T24:00", "hour must be in 0..23"),
        ("2026-01-01T00:60", "minute must be in 0..59"),
        ("2026-01-01T00:00:60", "second must be in 0..59"),
        ("2026-01-01T00:00:00+24:00", "its offset from UTC is a day or longer"),
        ("2026-01-01T00:00:00-00:60", "its offset from UTC is a day or longer"),
        ("0000-01-01", "it is outside the years 1 to 9999"),
        ("0001-01-01T00:00:00+01:00", "it is outside the years 1 to 9999"),
        ("9999-12-31T23:59:59-00:01", "it is outside the years 1 to 9999"),
    ],
)
def test_what_is_no_time_is_refused_and_says_why(text: str, why: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the words are compared below
        parse_moment(text)
    assert str(raised.value) == why


@given(st.integers(MIN_CALENDAR_US, MAX_CALENDAR_US), st.integers(-1439, 1439))
def test_dates_agree_with_the_calendar_of_python(at_us: int, zone_minutes: int) -> None:
    moment = EPOCH + at_us * US
    assert calendar_us(moment.isoformat()) == at_us
    assert datetime.fromisoformat(show_moment(Moment(at_us))) == moment
    try:
        written = moment.astimezone(timezone(timedelta(minutes=zone_minutes))).isoformat()
    except OverflowError:
        return
    assert calendar_us(written) == at_us


@given(st.integers(-719_528, 2_932_896))
def test_every_day_is_the_one_after_the_day_before(day: int) -> None:
    """From the first day of the year 0 to the last of 9999."""
    written = show_moment(Moment(day * UNITS_US["d"])) if day >= -719_162 else None
    assert written is None or calendar_us(written) == day * UNITS_US["d"]


def test_the_year_0_is_a_leap_year() -> None:
    day_us = UNITS_US["d"]
    assert calendar_us("0001-01-01") == MIN_CALENDAR_US
    assert calendar_us("0000-12-31") == MIN_CALENDAR_US - day_us
    assert calendar_us("0000-02-29") == MIN_CALENDAR_US - 307 * day_us
    assert calendar_us("0000-01-01") == MIN_CALENDAR_US - 366 * day_us


@pytest.mark.parametrize("text", ["-99999999999.500000", "-62135596800.000001", "0001-01-01T00:00:00Z", "now-3y"])
def test_before_the_year_1_a_moment_is_shown_as_seconds(text: str) -> None:
    assert show_moment(parse_moment(text)) == text


@given(moments)
def test_a_moment_is_shown_as_a_text_that_is_the_same_moment(moment: Moment) -> None:
    assert parse_moment(show_moment(moment)) == moment


@given(st.integers(0, MAX_LENGTH_US))
def test_a_length_is_shown_as_a_text_that_is_the_same_length(length_us: int) -> None:
    assert parse_length_us(show_length_us(length_us)) == length_us


@pytest.mark.parametrize(
    ("text", "length_us"),
    [("0", 0), ("0s", 0), ("15", 15_000_000), ("0.5", 500_000), ("1h30m", 5_400_000_000), ("100ms", 100_000)],
)
def test_a_length_has_units_or_is_seconds(text: str, length_us: int) -> None:
    assert parse_length_us(text) == length_us


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *(
            (text, "it is not a length of time")
            for text in ("", "h", "1.5h", "-1", "-1h", "1m1h", "1h1h", "1h30", "1mo")
        ),
        ("10100y", "it is more than 10,000 years"),
        ("999999999999", "it is more than 10,000 years"),
    ],
)
def test_what_is_no_length_is_refused_and_says_why(text: str, why: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the words are compared below
        parse_length_us(text)
    assert str(raised.value) == why


def test_a_moment_from_now_is_since_1970_once_now_is_known() -> None:
    assert Moment(-5, relative=True).since_1970_us(100) == 95
    assert Moment(-5).since_1970_us(100) == -5


def test_hostile_texts_take_no_time() -> None:
    for text in ("now-" + "1h" * 50_000, "9" * 100_000, "1." + "9" * 100_000, "2026-01-01" + " " * 100_000 + "x"):
        with suppress(ValueError):
            parse_moment(text)
