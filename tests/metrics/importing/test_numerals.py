"""Numbers as text: one by one and many at once give the same, and only what the formats allow."""

import math
from collections.abc import Callable
from decimal import ROUND_DOWN, Decimal
from typing import Any, Final

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quarterdeck.metrics.importing.batches import MAX_TIMESTAMP_MS
from quarterdeck.metrics.importing.errors import Malformed
from quarterdeck.metrics.importing.numerals import (
    milliseconds_of,
    read_milliseconds,
    read_seconds,
    read_value,
    seconds_of,
    values_of,
)

_arrow: Final[Any] = pyarrow

NUMBER_LIKE = st.text("0123456789+-.eExXinfaINFAty_ ()p", max_size=12) | st.sampled_from(
    ("inf", "-Inf", "+INFINITY", "NaN", "-nan", "nan(1)", "1e400", "-1e999", "0x10", "1_0", "1e-400", "\uff19")
)


def texts_of(*texts: str) -> Any:
    return _arrow.array(texts, _arrow.string())


def strictly(read: Callable[[str], float], text: str) -> float | None:
    try:
        return read(text)
    except Malformed:
        return None


@given(st.lists(NUMBER_LIKE | st.floats().map(repr), min_size=1))
@example(["-nan", "1"])
@example(["nan(1)", "x"])
@example(["1e400"])
def test_values_that_are_sure_are_what_the_strict_way_reads(texts: list[str]) -> None:
    values, sure = values_of(texts_of(*texts))
    for text, value, is_sure in zip(texts, values.tolist(), sure.tolist(), strict=True):
        strict = strictly(read_value, text)
        if is_sure:
            assert strict is not None
            assert strict == value or (math.isnan(strict) and math.isnan(value))
            assert math.copysign(1, strict) == math.copysign(1, value)
        else:
            assert strict is None, "everything that is right is taken at once"


@given(st.lists(NUMBER_LIKE | st.decimals(-(10**11), 10**11, places=4).map(str) | st.integers().map(str), min_size=1))
@example(["1700000000.0005", "1700000000.0015", "0.0005"])
@example(["1700000000.0009999999", "-1700000000.0019999999", "1e-3", "1.7000000001e9", "1700000000.00099"])
@example(["9200000000000", "9200000000000.001", "-9200000000000.0004"])
def test_seconds_that_are_sure_are_what_the_strict_way_reads(texts: list[str]) -> None:
    times, sure = seconds_of(texts_of(*texts))
    for text, time, is_sure in zip(texts, times.tolist(), sure.tolist(), strict=True):
        if is_sure:
            assert strictly(read_seconds, text) == time


@given(st.lists(NUMBER_LIKE | st.integers().map(str), min_size=1))
@example(["0x10", "5"])
@example(["+5"])
def test_milliseconds_that_are_sure_are_what_the_strict_way_reads(texts: list[str]) -> None:
    times, sure = milliseconds_of(texts_of(*texts))
    for text, time, is_sure in zip(texts, times.tolist(), sure.tolist(), strict=True):
        if is_sure:
            assert strictly(read_milliseconds, text) == time


@given(st.decimals(-(10**10), 10**10, places=3))
def test_usual_times_are_sure(seconds: Decimal) -> None:
    times, sure = seconds_of(texts_of(f"{seconds:f}"))
    assert sure.all()
    assert times.tolist() == [int(seconds * 1000)]


@given(st.decimals(-9_200_000_000_000, 9_200_000_000_000, places=6))
def test_what_is_below_a_millisecond_is_cut_off(seconds: Decimal) -> None:
    exact = seconds.quantize(Decimal("0.001"), ROUND_DOWN) * 1000
    assert read_seconds(f"{seconds:f}") == int(exact)


@pytest.mark.parametrize(
    "text, time",
    [
        ("1.234", 1234),
        ("1700000000.867", 1_700_000_000_867),
        ("1.7e9", 1_700_000_000_000),
        ("+1", 1000),
        (".5", 500),
        ("5.", 5000),
        ("-1.5", -1500),
        ("0.0005", 0),
        ("0.0015", 1),
        ("-0.0015", -1),
        ("1700000000.0009999999", 1_700_000_000_000),
        ("65.514", 65_514),
        ("1e-999999999", 0),
        ("0." + "0" * 5000 + "1", 0),
        ("1.2349999999999999999999999999999999999999", 1234),
        ("9200000000000", MAX_TIMESTAMP_MS),
    ],
)
def test_seconds_are_read_by_their_digits(text: str, time: int) -> None:
    assert read_seconds(text) == time


@pytest.mark.parametrize("text", ["", "nan", "inf", "1_0", "0x10", "1s", " 1", "1,5", "\uff11", "1e", "--1"])
def test_what_is_no_time_is_refused(text: str) -> None:
    for read in (read_seconds, read_milliseconds):
        with pytest.raises(Malformed, match="no time"):
            read(text)


@pytest.mark.parametrize(
    "read, text",
    [
        (read_seconds, "9200000000000.001"),
        (read_seconds, "-9200000000000.001"),
        (read_seconds, "1e300"),
        (read_seconds, "1e999999999"),
        (read_seconds, "1700000000000000"),
        (read_milliseconds, "9200000000000001"),
        (read_milliseconds, "-9200000000000001"),
        (read_milliseconds, "9" * 30),
    ],
)
def test_times_too_far_away_are_refused_with_a_word_on_units(read: Callable[[str], int], text: str) -> None:
    with pytest.raises(Malformed) as caught:
        read(text)
    assert "from 1970" in caught.value.why
    assert "unit" in caught.value.next_step


def test_milliseconds_are_whole() -> None:
    assert read_milliseconds("-1700000000867") == -1_700_000_000_867
    with pytest.raises(Malformed):
        read_milliseconds("1.5")


def test_bits_of_values_are_those_of_python() -> None:
    rng = np.random.default_rng(5)
    floats = rng.integers(0, 1 << 63, 2000, dtype=np.uint64).view(np.float64)
    floats = floats[np.isfinite(floats)]
    values, sure = values_of(texts_of(*map(repr, floats.tolist())))
    assert sure.all()
    assert (values.view(np.uint64) == floats.view(np.uint64)).all()
