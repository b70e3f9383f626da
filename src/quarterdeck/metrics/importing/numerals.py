"""Values and times as text, one by one and many at once.

One by one is strict and says what is wrong. Many at once says which texts it is sure of; the others are for the strict
way to judge. Both give the same numbers.
"""

import re
from decimal import ROUND_DOWN, Decimal
from typing import Any, Final

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
from pyarrow import compute  # pyright: ignore[reportMissingTypeStubs]

from quarterdeck.metrics.importing.batches import MAX_TIMESTAMP_MS
from quarterdeck.metrics.importing.errors import Malformed
from quarterdeck.metrics.promql.blocks import F64, I64, Bool
from quarterdeck.metrics.promql.floats import parse_float

_arrow: Final[Any] = pyarrow
_compute: Final[Any] = compute

_REAL: Final = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_WORD: Final = r"[+-]?(?i:inf|infinity)|(?i:nan)"
_REAL_NUMBER: Final = re.compile(_REAL)
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,30}")
_MILLISECOND: Final = Decimal("0.001")

_SURE_SECONDS: Final = float(1 << 36)
"""Up to here a float of seconds, and a thousand times it, is off by less than a hundredth of a millisecond."""
_SURE_DISTANCE_MS: Final = 0.01
"""So far from a whole millisecond, the one before is the same for the float and for the decimal it was read from."""
_DECIMALS_OF_MS: Final = 3


def read_value(text: str) -> float:
    """A float as Go and OpenMetrics write it; not in hexadecimal, and nothing too large for a float.

    >>> read_value("1e3"), read_value("+Inf"), read_value("-.5")
    (1000.0, inf, -0.5)
    """
    value = None if "x" in text or "X" in text else parse_float(text)
    if value is None:
        raise Malformed(f"`{text[:40]}` is no value", "write a decimal number, +Inf, -Inf or NaN")
    return value


def read_seconds(text: str) -> int:
    """Seconds as milliseconds, by the decimal digits; what is below a millisecond is cut off, as Prometheus does it.

    >>> read_seconds("1.234"), read_seconds("1700000000"), read_seconds("-0.0015")
    (1234, 1700000000000, -1)
    """
    if not _REAL_NUMBER.fullmatch(text):
        raise Malformed(f"`{text[:40]}` is no time", "write seconds since 1970 as a decimal number")
    rough = float(text)
    if abs(rough) > MAX_TIMESTAMP_MS // 1000 + 1:
        raise _out_of_range(text)
    if rough == 0.0:  # a decimal with an exponent of any size would not be
        return 0
    return _within_range(int(Decimal(text).quantize(_MILLISECOND, ROUND_DOWN).scaleb(3)), text)


def read_milliseconds(text: str) -> int:
    """A whole number of milliseconds."""
    if not _WHOLE_NUMBER.fullmatch(text):
        raise Malformed(f"`{text[:40]}` is no time", "write milliseconds since 1970 as a whole number")
    return _within_range(int(text), text)


def _within_range(timestamp_ms: int, text: str) -> int:
    if abs(timestamp_ms) > MAX_TIMESTAMP_MS:
        raise _out_of_range(text)
    return timestamp_ms


def _out_of_range(text: str) -> Malformed:
    return Malformed(
        f"the time {text[:40]} is more than {MAX_TIMESTAMP_MS} milliseconds from 1970",
        "check its unit: OpenMetrics has seconds, Prometheus' text format milliseconds",
    )


def values_of(texts: Any) -> tuple[F64, Bool]:
    """The values of an array of texts, and which of them are sure."""
    values, sure = _floats(texts)
    odd = np.flatnonzero(~np.isfinite(values) & sure)
    if odd.size:  # what overflows becomes infinite, and a NaN may have a sign or a payload
        words = texts.take(_arrow.array(odd))
        sure[odd] = _matches(words, _WORD)
    return values, sure


def seconds_of(texts: Any) -> tuple[I64, Bool]:
    """The milliseconds of an array of seconds, and which of them are sure."""
    seconds, sure = _floats(texts)
    sure &= np.abs(seconds) < _SURE_SECONDS
    exact = np.where(sure, seconds, 0.0) * 1000.0
    nearest = np.rint(exact)
    is_near = np.abs(exact - nearest) < _SURE_DISTANCE_MS
    sure &= ~is_near | _is_of_milliseconds(texts)
    return np.where(is_near, nearest, np.trunc(exact)).astype(np.int64), sure


def _is_of_milliseconds(texts: Any) -> Bool:
    """Whether a decimal number has no more digits than milliseconds need."""
    dots = _compute.find_substring(texts, ".").to_numpy()
    lengths = _compute.binary_length(texts).to_numpy()
    few = (dots < 0) | (lengths - dots <= 1 + _DECIMALS_OF_MS)
    if _compute.any(_compute.match_substring(texts, "e", ignore_case=True)).as_py():
        few &= ~np.array(
            _compute.match_substring(texts, "e", ignore_case=True).to_numpy(zero_copy_only=False), np.bool_
        )
    return few


def milliseconds_of(texts: Any) -> tuple[I64, Bool]:
    """The whole numbers of an array of texts, and which of them are sure."""
    plain = np.ones(len(texts), np.bool_)
    try:
        if _compute.any(_compute.match_substring(texts, "x", ignore_case=True)).as_py():
            raise _arrow.ArrowInvalid("Arrow would take hexadecimal numbers")
        times: I64 = texts.cast(_arrow.int64()).to_numpy()
    except _arrow.ArrowInvalid:
        plain = _matches(texts, "-?[0-9]{1,16}")
        times = _compute.if_else(_arrow.array(plain), texts, "0").cast(_arrow.int64()).to_numpy()
    return times, plain & (times <= MAX_TIMESTAMP_MS) & (times >= -MAX_TIMESTAMP_MS)


def _floats(texts: Any) -> tuple[F64, Bool]:
    try:
        values: F64 = texts.cast(_arrow.float64()).to_numpy()
        return values, np.ones(len(texts), np.bool_)
    except _arrow.ArrowInvalid:  # which does not say where
        plain = _matches(texts, f"{_REAL}|{_WORD}")
        values = _compute.if_else(_arrow.array(plain), texts, "0").cast(_arrow.float64()).to_numpy()
        return values, plain


def _matches(texts: Any, pattern: str) -> Bool:
    matched = _compute.match_substring_regex(texts, rf"\A(?:{pattern})\z")
    return np.array(matched.to_numpy(zero_copy_only=False), np.bool_)
