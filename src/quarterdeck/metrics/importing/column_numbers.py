"""Columns of numbers and times as arrays: values as floats, times in milliseconds.

A time between two milliseconds goes to the nearest, and in the middle to the even one, as in text.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.metrics.importing.batches import MAX_TIMESTAMP_MS
from quarterdeck.metrics.importing.column_mapping import UNIT_OPTION, TimeUnit
from quarterdeck.metrics.importing.errors import Malformed
from quarterdeck.metrics.promql.blocks import F64, I64, Bool

_arrow: Final[Any] = pyarrow
_types: Final[Any] = pyarrow.types

_PER_MS: Final = {TimeUnit.MICROSECONDS: 1_000, TimeUnit.NANOSECONDS: 1_000_000}
_NEXT_UNIT: Final = f"check the column and its unit ({UNIT_OPTION})"


class Problem(NamedTuple):
    """What is wrong with a row of a batch, counted from 0."""

    row: int
    fault: Malformed


def is_number(kind: Any) -> bool:
    return bool(_types.is_integer(kind) or _types.is_floating(kind) or _types.is_decimal(kind))


def time_fault(kind: Any, unit: TimeUnit) -> str | None:
    """Why a column of this type holds no times; None if it does."""
    if _types.is_timestamp(kind) or _types.is_integer(kind):
        return None
    if _types.is_floating(kind):
        return None if unit is TimeUnit.SECONDS else f"fractions are read as seconds only, and the unit is {unit}"
    return "a time is a timestamp, a whole number with a unit, or a fraction in seconds"


def first_null(column: Any, name: str) -> list[Problem]:
    """The first row without a value."""
    if not column.null_count:
        return []
    nulls: Bool = column.is_null().to_numpy(zero_copy_only=False)
    fault = Malformed(f"column {name!r} is null", "leave rows without it out of the file, or fill it")
    return [Problem(int(np.argmax(nulls)), fault)]


def values_of(column: Any) -> F64:
    """Floats; those of a column of doubles stay as they are, to the bit. A null is anything."""
    return column.cast(_arrow.float64(), safe=False).to_numpy(zero_copy_only=False)


def times_of(column: Any, unit: TimeUnit) -> tuple[I64, list[Problem]]:
    """Milliseconds, and the first row whose time is too far from 1970. A null is anything."""
    kind = column.type
    if _types.is_floating(kind):
        seconds = column.cast(_arrow.float64(), safe=False).fill_null(0.0).to_numpy(zero_copy_only=False)
        return _from_seconds(seconds)
    if _types.is_timestamp(kind):
        unit = TimeUnit(kind.unit)
    whole = column.cast(_arrow.int64(), safe=False)
    numbers: I64 = whole.fill_null(0).to_numpy(zero_copy_only=False)
    wrapped = numbers < 0 if _types.is_uint64(kind) else np.zeros(numbers.size, np.bool_)
    return _in_ms(numbers, unit, wrapped)


def _in_ms(numbers: I64, unit: TimeUnit, far: Bool) -> tuple[I64, list[Problem]]:
    if unit in _PER_MS:
        by = _PER_MS[unit]
        low, rest = np.divmod(numbers, by)
        times = low + ((2 * rest > by) | ((2 * rest == by) & (low % 2 == 1)))
        limit = MAX_TIMESTAMP_MS
        far = far | (times > limit) | (times < -limit)
    else:
        times_1000 = unit is TimeUnit.SECONDS
        limit = MAX_TIMESTAMP_MS // 1000 if times_1000 else MAX_TIMESTAMP_MS
        far = far | (numbers > limit) | (numbers < -limit)
        times = np.where(far, 0, numbers) * (1000 if times_1000 else 1)
    return times, _first_far(far, numbers)


def _from_seconds(seconds: F64) -> tuple[I64, list[Problem]]:
    far = ~(np.abs(seconds) <= MAX_TIMESTAMP_MS // 1000)
    return np.rint(np.where(far, 0.0, seconds) * 1000.0).astype(np.int64), _first_far(far, seconds)


def _first_far(far: Bool, numbers: I64 | F64) -> list[Problem]:
    if not far.any():
        return []
    row = int(np.argmax(far))
    why = f"the time {numbers[row]} is none, or more than {MAX_TIMESTAMP_MS} milliseconds from 1970"
    return [Problem(row, Malformed(why, _NEXT_UNIT))]
