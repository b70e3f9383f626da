"""Floats as the language writes them."""

import math
from decimal import Decimal


def show_float(value: float) -> str:
    """The shortest decimal that reads back as the same float, without an exponent, as in a label of `count_values`.

    >>> show_float(1e21), show_float(-0.0), show_float(0.1), show_float(float("inf"))
    ('1000000000000000000000', '-0', '0.1', '+Inf')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return format(Decimal(repr(value)), "f").removesuffix(".0")


_WORDS = {"inf": math.inf, "+inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def parse_float(text: str) -> float | None:
    """A float as Go's ParseFloat reads it; None if it is none.

    >>> parse_float("1e3"), parse_float("+Inf"), parse_float(" 1"), parse_float(""), parse_float("1e400")
    (1000.0, inf, None, None, None)
    """
    lowered = text.lower()
    if lowered in _WORDS or lowered.replace("infinity", "inf") in _WORDS:
        return _WORDS[lowered.replace("infinity", "inf")]
    if not text or not text.isascii() or text.strip() != text or "_" in text or lowered.lstrip("+-")[:1] in {"i", "n"}:
        return None
    if "x" in lowered and "p" not in lowered:  # Go asks for the exponent, Python does not
        return None
    try:
        value = float.fromhex(text) if "x" in lowered else float(text)
    except (ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None


def show_short(value: float) -> str:
    """As Go's `%g` prints it: the shortest decimal, with an exponent for what is large or small.

    >>> show_short(0.1), show_short(1e6), show_short(123456.5), show_short(0.00001), show_short(-3.0)
    ('0.1', '1e+06', '123456.5', '1e-05', '-3')
    """
    if math.isnan(value) or math.isinf(value) or value == 0:
        return show_float(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    power = len(digits) - 1 + exponent
    if -4 <= power < 6:
        return show_float(value)
    shown = "".join(map(str, digits))
    mantissa = shown[0] + (f".{shown[1:]}" if len(shown) > 1 else "")
    return f"{'-' if sign else ''}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"


def show_digits(value: float, digits: int) -> str:
    """As Go's `%.2g` prints it, for two digits.

    >>> show_digits(2.0, 2), show_digits(0.126, 2), show_digits(150.0, 2), show_digits(float("inf"), 2)
    ('2', '0.13', '1.5e+02', '+Inf')
    """
    return f"{value:.{digits}g}" if math.isfinite(value) else show_float(value)


def show_open_metrics(value: float) -> str:
    """As OpenMetrics writes floats into labels: never like an integer.

    >>> show_open_metrics(1.0), show_open_metrics(0.25), show_open_metrics(1e-7), show_open_metrics(float("inf"))
    ('1.0', '0.25', '1e-07', '+Inf')
    """
    shown = show_short(value)
    return shown if math.isnan(value) or math.isinf(value) or "e" in shown or "." in shown else f"{shown}.0"
