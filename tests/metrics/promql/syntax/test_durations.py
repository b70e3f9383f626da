"""Lengths of time, read and printed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.metrics.promql.syntax.durations import MAX_MS, parse_duration_ms, show_duration_ms


@pytest.mark.parametrize(
    "text, length_ms",
    [
        ("0", 0),
        ("0s", 0),
        ("1ms", 1),
        ("1s", 1000),
        ("5m", 300_000),
        ("1h30m", 5_400_000),
        ("1d", 86_400_000),
        ("2w", 2 * 7 * 86_400_000),
        ("1y", 365 * 86_400_000),
        ("1y2w3d4h5m6s7ms", 382 * 86_400_000 + 14_706_007),
        ("90m", 5_400_000),
        ("007s", 7000),
        ("9223372036854ms", MAX_MS),
    ],
)
def test_a_written_length_is_read(text: str, length_ms: int) -> None:
    assert parse_duration_ms(text) == length_ms


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "empty duration string"),
        ("5", 'not a valid duration string: "5"'),
        ("-5m", 'not a valid duration string: "-5m"'),
        ("1.5h", 'unknown unit "." in duration "1.5h"'),
        (".5h", 'not a valid duration string: ".5h"'),
        ("0xA5m", 'unknown unit "xA" in duration "0xA5m"'),
        ("5m1h2hs", 'not a valid duration string: "5m1h2hs"'),
        ("300y1h2hs", "duration out of range"),
        ("5m1h", 'not a valid duration string: "5m1h"'),
        ("5m5m", 'not a valid duration string: "5m5m"'),
        ("5m ", 'unknown unit "m " in duration "5m "'),
        ("5q", 'unknown unit "q" in duration "5q"'),
        ("5y1hs", 'unknown unit "hs" in duration "5y1hs"'),
        ("293y", "duration out of range"),
        ("9223372036855ms", "duration out of range"),
        ("18446744073709551615s", "duration out of range"),
        ("18446744073709551616s", 'not a valid duration string: "18446744073709551616s"'),
        ("9" * 1000 + "s", f'not a valid duration string: "{"9" * 1000}s"'),
    ],
)
def test_what_is_no_length_is_refused_in_prometheus_words(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011, the message is compared whole
        parse_duration_ms(text)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    "length_ms, text",
    [
        (0, "0s"),
        (1, "1ms"),
        (1001, "1s1ms"),
        (5_400_000, "1h30m"),
        (7 * 86_400_000, "1w"),
        (8 * 86_400_000, "8d"),
        (365 * 86_400_000, "1y"),
        (366 * 86_400_000, "366d"),
        (379 * 86_400_000, "379d"),
        (-300_000, "-5m"),
    ],
)
def test_a_length_prints_as_prometheus_prints_it(length_ms: int, text: str) -> None:
    assert show_duration_ms(length_ms) == text


@given(st.integers(0, MAX_MS))
def test_a_printed_length_reads_as_the_same_length(length_ms: int) -> None:
    assert parse_duration_ms(show_duration_ms(length_ms)) == length_ms
