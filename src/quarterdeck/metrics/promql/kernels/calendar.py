"""`minute` to `year` of seconds since the epoch, in UTC, by the Gregorian calendar without end.

Fractions of a second are cut off toward zero, as Go converts to an integer. What does not fit into 64 bits (not a
number, infinity) becomes the smallest integer as on amd64, and that Go takes for 15:30:08 on 4 December of the year
292277026596: its calendar is unsigned and starts in the year -292277022400, as this one does.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from quarterdeck.metrics.promql.blocks import F64, I64

_SECONDS_OF_DAY: Final = 86_400
_DAYS_OF_ERA: Final = 146_097
"""Days in 400 years, after which the calendar and the days of the week repeat."""
_FIRST_YEAR: Final = -292_277_022_400
"""Days count from 1 March of this year: a leap day is then the last day of its year."""
_EPOCH_DAY: Final = 730_692_556 * _DAYS_OF_ERA + 719_468
"""1 January 1970. The first summand is the number of eras from the first year to the year 0."""
_EPOCH: Final = np.uint64(_EPOCH_DAY * _SECONDS_OF_DAY)
_WEDNESDAY: Final = 3
"""The day of the week of the first day, with Sunday as 0."""


@dataclass(frozen=True, slots=True, eq=False)
class _Date:
    """Dates of years that begin in March."""

    day: I64
    """Days since the first day."""
    year: I64
    """Calendar year, which begins in January."""
    month: I64
    """1 to 12."""
    day_of_month: I64
    """1 to 31."""


def minute(seconds: F64) -> F64:
    """0 to 59."""
    return _as_float(_absolute(seconds) // np.uint64(60) % np.uint64(60))


def hour(seconds: F64) -> F64:
    """0 to 23."""
    return _as_float(_absolute(seconds) // np.uint64(3600) % np.uint64(24))


def day_of_week(seconds: F64) -> F64:
    """0 for Sunday to 6."""
    return ((_date(seconds).day + _WEDNESDAY) % 7).astype(np.float64)


def day_of_month(seconds: F64) -> F64:
    """1 to 31."""
    return _date(seconds).day_of_month.astype(np.float64)


def day_of_year(seconds: F64) -> F64:
    """1 to 366."""
    date = _date(seconds)
    # Before March, whatever the year: 31 days of January. From March on the leap day counts.
    before = np.where(date.month <= 2, 31 * (date.month - 1), 59 + _is_leap(date.year) + _days_before(date.month - 3))
    return (before + date.day_of_month).astype(np.float64)


def month(seconds: F64) -> F64:
    """1 to 12."""
    return _date(seconds).month.astype(np.float64)


def year(seconds: F64) -> F64:
    """The calendar year; the one before 1 is 0."""
    return _date(seconds).year.astype(np.float64)


def days_in_month(seconds: F64) -> F64:
    """28 to 31."""
    date = _date(seconds)
    from_march = (date.month - 3) % 12
    long = _days_before(from_march + 1) - _days_before(from_march)
    return np.where(date.month == 2, 28 + _is_leap(date.year), long).astype(np.float64)


def _absolute(seconds: F64) -> NDArray[np.uint64]:
    """Whole seconds since the first day."""
    fits = (seconds >= -(2.0**63)) & (seconds < 2.0**63)
    whole = np.where(fits, seconds, -(2.0**63)).astype(np.int64)
    return whole.view(np.uint64) + _EPOCH


def _date(seconds: F64) -> _Date:
    day = (_absolute(seconds) // np.uint64(_SECONDS_OF_DAY)).view(np.int64)
    era, day_of_era = np.divmod(day, _DAYS_OF_ERA)
    # Each of the leap days that is there, or not there, shifts the days; 1460, 36524 and 146096 are the last days of
    # four, a hundred and four hundred years.
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    from_march = (5 * day_of_year + 2) // 153
    after_december = from_march >= 10
    return _Date(
        day,
        _FIRST_YEAR + 400 * era + year_of_era + after_december,
        np.where(after_december, from_march - 9, from_march + 3),
        day_of_year - _days_before(from_march) + 1,
    )


def _days_before(from_march: I64) -> I64:
    """Days from 1 March to the month that many months later: five months have 153, and no other rule is needed."""
    return (153 * from_march + 2) // 5


def _is_leap(year: I64) -> I64:
    return ((year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))).astype(np.int64)


def _as_float(numbers: NDArray[np.uint64]) -> F64:
    return numbers.astype(np.float64)
