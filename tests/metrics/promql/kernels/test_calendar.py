"""Dates and times of day, against Python's."""

import calendar as python_calendar
import datetime as dt
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.metrics.promql.kernels import calendar

EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - all of this is UTC
FIRST, LAST = -62_135_596_800, 253_402_300_799
"""The first second of year 1 and the last of 9999."""


def fields(seconds: float) -> list[float]:
    array = np.array([seconds])
    return [
        float(function(array)[0])
        for function in (
            calendar.minute,
            calendar.hour,
            calendar.day_of_week,
            calendar.day_of_month,
            calendar.day_of_year,
            calendar.month,
            calendar.year,
            calendar.days_in_month,
        )
    ]


@given(st.integers(FIRST, LAST).map(float) | st.floats(FIRST, LAST))
def test_times_are_those_of_the_gregorian_calendar(seconds: float) -> None:
    time = EPOCH + dt.timedelta(seconds=math.trunc(seconds))
    assert fields(seconds) == [
        time.minute,
        time.hour,
        time.isoweekday() % 7,
        time.day,
        time.timetuple().tm_yday,
        time.month,
        time.year,
        python_calendar.monthrange(time.year, time.month)[1],
    ]


def test_every_day_of_four_hundred_years_is_right() -> None:
    days = [dt.date(1999, 12, 25) + dt.timedelta(days=day) for day in range(146_100)]
    seconds = np.array([(day.toordinal() - dt.date(1970, 1, 1).toordinal()) * 86_400.0 for day in days])
    assert calendar.day_of_month(seconds).tolist() == [day.day for day in days]
    assert calendar.month(seconds).tolist() == [day.month for day in days]
    assert calendar.year(seconds).tolist() == [day.year for day in days]
    assert calendar.day_of_year(seconds).tolist() == [day.timetuple().tm_yday for day in days]
    assert calendar.day_of_week(seconds).tolist() == [day.isoweekday() % 7 for day in days]


def test_fractions_are_cut_off_toward_zero() -> None:
    assert calendar.year(np.array([-0.9])).tolist() == [1970.0]
    assert calendar.year(np.array([-1.0])).tolist() == [1969.0]


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf, 1e300, -1e300, 2.0**63, -(2.0**63)])
def test_what_is_no_integer_of_64_bits_is_the_time_that_go_makes_of_it(seconds: float) -> None:
    # time.Unix(math.MinInt64, 0) prints as 292277026596-12-04 15:30:08, a year like 2196.
    day = dt.date(2196, 12, 4)
    assert fields(seconds) == [30, 15, day.isoweekday() % 7, 4, day.timetuple().tm_yday, 12, 292_277_026_596, 31]


def test_years_before_the_first_count_down_through_zero() -> None:
    assert calendar.year(np.array([FIRST - 1.0, FIRST - 367 * 86_400.0])).tolist() == [0.0, -1.0]


def test_arrays_keep_their_shape() -> None:
    assert calendar.hour(np.zeros((0, 3))).shape == (0, 3)
    assert calendar.month(np.zeros((2, 3))).shape == (2, 3)
