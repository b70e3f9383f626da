"""Times and lengths are understood as Prometheus understands them."""

import datetime
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.metrics.api.times import MAX_TIME_MS, MIN_TIME_MS, parse_length_ms, parse_time_ms


@pytest.mark.parametrize(
    "text, time_ms",
    [
        ("0", 0),
        ("1435781430", 1435781430000),
        ("1435781430.781", 1435781430781),
        ("1435781430.7815", 1435781430782),
        ("1e3", 1_000_000),
        ("-0.05", -50),
        ("-0.0015", -2),
        ("2015-07-01T20:10:51.781Z", 1435781451781),
        ("2015-07-01T20:10:51.7819+02:00", 1435774251781),
        ("2015-07-01T20:10:51,5Z", 1435781451500),
        ("2015-07-01T5:10:51Z", 1435727451000),
        ("2015-07-01T20:10:51-00:30", 1435783251000),
        ("1969-12-31T23:59:59.999Z", -1),
        ("0000-01-01T00:00:00Z", -62167219200000),
        ("2016-02-29T00:00:00Z", 1456704000000),
        ("-292273086-05-16T16:47:06Z", MIN_TIME_MS),
        ("292277025-08-18T07:12:54.999999999Z", MAX_TIME_MS),
    ],
)
def test_times(text: str, time_ms: int) -> None:
    assert parse_time_ms(text) == time_ms


@pytest.mark.parametrize(
    "text, time_ms",
    [
        ("now", 10_000),
        ("now-2s", 8_000),
        ("-2s", 8_000),
        ("2015-07-01T20:10:51", 1435781451000),
        ("2015-07-01t20:10:51z", 1435781451000),
        ("2015-07-01", 1435708800000),
    ],
)
def test_what_prometheus_refuses_may_be_a_time_as_it_is_written_elsewhere(text: str, time_ms: int) -> None:
    assert parse_time_ms(text, 10_000) == time_ms


def test_without_a_now_no_time_is_counted_from_it() -> None:
    with pytest.raises(ValueError, match='cannot parse "now-1h" to a valid timestamp'):
        parse_time_ms("now-1h")


def test_the_bounds_are_those_of_prometheus() -> None:
    assert (MIN_TIME_MS, MAX_TIME_MS) == ((-9223372036854775 + 62135596801) * 1000, 9223309901257974999)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        " 1",
        "1e300",
        "-1e300",
        "1e400",
        "NaN",
        "Inf",
        "-Inf",
        "0x10",
        "9223372036854775",
        "2015-02-29T00:00:00Z",
        "2015-13-01T00:00:00Z",
        "2015-07-01T24:00:00Z",
        "2015-07-01T20:60:00Z",
        "2015-07-01T20:10:60Z",
        "2015-07-01T20:10:51+24:00",
        "2015-07-01T20:10:51Z\n",
        "٢٠١٥-07-01T20:10:51Z",
    ],
)
def test_what_is_no_time_is_told_in_the_words_of_prometheus(text: str) -> None:
    shown = '"2015-07-01T20:10:51Z\\n"' if text.endswith("\n") else f'"{text}"'
    with pytest.raises(ValueError, match=f"^{re.escape(f'cannot parse {shown} to a valid timestamp')}$"):
        parse_time_ms(text)


@given(st.integers(-62_135_500_000_000, 253_402_200_000_000), st.integers(-1439, 1439))
def test_rfc_3339_agrees_with_the_calendar_of_python(time_ms: int, zone_minutes: int) -> None:
    zone = datetime.timezone(datetime.timedelta(minutes=zone_minutes))
    moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(milliseconds=time_ms)
    assert parse_time_ms(moment.astimezone(zone).isoformat()) == time_ms


@pytest.mark.parametrize(
    "text, length_ms",
    [
        ("15", 15_000),
        ("0.25", 250),
        ("-1", -1000),
        ("0.0005", 0),
        ("1h30m", 5_400_000),
        ("0", 0),
        ("100ms", 100),
        ("33.3", 33_299),
        ("-33.3", -33_299),
    ],
)
def test_lengths(text: str, length_ms: int) -> None:
    assert parse_length_ms(text) == length_ms


@pytest.mark.parametrize("text", ["", "x", "1m1h", "-1s", "1.5h", "NaN", "1e400"])
def test_what_is_no_length_is_told_in_the_words_of_prometheus(text: str) -> None:
    with pytest.raises(ValueError, match=f'^cannot parse "{text}" to a valid duration$'):
        parse_length_ms(text)


@pytest.mark.parametrize("text", ["1e300", "-1e300", "Inf", "-Inf", "9223372037"])
def test_a_length_that_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f'^cannot parse "{text}" to a valid duration. It overflows int64$'):
        parse_length_ms(text)
