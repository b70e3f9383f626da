"""Floats as the API of Prometheus writes them, for compiled loops: the shortest decimal that reads back as the same.

Go prints a sample without an exponent, unless it is below 1e-6 or 1e21 and more: `0.1`, `100`, `1e-07`, `1e+21`,
`-0`, `+Inf`, `NaN`. The digits are found by the Schubfach method (Raffaele Giulietti, 2020): a float stands for all
numbers that round to it; scaled by a power of ten so that the place of its last digit is the units, the shortest
decimal is among four integers. All arithmetic is exact enough by proof, so that no second method is needed.

The type of every number matters here: compiled code makes a float of an unsigned and a signed integer, and asks of a
signed index whether it is negative. Eight bytes are written as one word, which takes as long as one of them would.

What is written may reach beyond its end, up to `ROOM_BYTES` from where it began.
"""

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from quarterdeck.metrics.promql.kernels.compile import part_of_kernel

Bytes: TypeAlias = NDArray[np.uint8]
U64: TypeAlias = NDArray[np.uint64]

LONGEST_BYTES: Final = 25
"""Of a float as text: `-0.0000012345678901234567`."""

ROOM_BYTES: Final = 48
"""What must be free where a float is written."""

_FIRST_POWER: Final = -292
_LAST_POWER: Final = 324


def _scaled_power(power: int) -> tuple[int, int]:
    """A power of ten times the power of two that makes it 128 bits long, rounded up; in two halves."""
    if power >= 0:
        number = 10**power
        excess = number.bit_length() - 128
        scaled = -(-number >> excess) if excess > 0 else number << -excess
    else:
        number = 10**-power
        scaled = -(-(1 << (127 + number.bit_length())) // number)
    return scaled >> 64, scaled & (2**64 - 1)


_POWERS: Final = np.array([_scaled_power(power) for power in range(_FIRST_POWER, _LAST_POWER + 1)], np.uint64)
_TENS: Final = np.array([10**power for power in range(20)], np.uint64)
_NOT_A_NUMBER: Final = np.frombuffer(b"NaN", np.uint8)
_INFINITY: Final = np.frombuffer(b"Inf", np.uint8)

_ZERO, _ONE, _TWO, _EIGHT, _TEN, _HUNDRED = (np.uint64(number) for number in (0, 1, 2, 8, 10, 100))
_TEN_THOUSAND, _EIGHT_DIGITS, _SIXTEEN_DIGITS = (np.uint64(10**power) for power in (4, 8, 16))
_HALF_BITS, _LOW_HALF = np.uint64(32), np.uint64(2**32 - 1)
_FRACTION_BITS: Final = np.uint64(52)
_HIDDEN_BIT: Final = np.uint64(1 << 52)
_FRACTION: Final = np.uint64((1 << 52) - 1)
_EXPONENT: Final = np.uint64(0x7FF)
_SIGN_BIT: Final = np.uint64(63)
_LEADING_ZEROS: Final = np.uint64(int.from_bytes(b"0.000000", "little"))


@part_of_kernel
def _signed(number: np.uint64) -> int:
    return np.int64(number)  # pyright: ignore[reportReturnType] - to compiled code they are the same


@part_of_kernel
def write_float(out: Bytes, position: int, bits: np.uint64) -> int:
    """Write the float of these bits; the place after it."""
    fraction = bits & _FRACTION
    exponent = _signed((bits >> _FRACTION_BITS) & _EXPONENT)
    if exponent == 0x7FF and fraction != _ZERO:
        return _write_whole_text(out, position, _NOT_A_NUMBER)
    negative = (bits >> _SIGN_BIT) != _ZERO
    if exponent == 0x7FF:
        out[position] = 45 if negative else 43  # - +
        return _write_whole_text(out, position + 1, _INFINITY)
    if negative:
        out[position] = 45
        position += 1
    if exponent == 0 and fraction == _ZERO:
        out[position] = 48  # 0
        return position + 1
    power = max(exponent, 1) - 1075
    significand = fraction if exponent == 0 else fraction | _HIDDEN_BIT
    if -52 <= power <= 0:
        shift = np.uint64(-power)
        whole = significand >> shift
        if whole << shift == significand:
            least = ((exponent - 1022) * 1233) >> 12  # how many digits the power of two has that is not above it
            count = least + 1 if whole >= _TENS[least] else least
            _write_digits(out, position, whole, count)
            return position + count
    digits, tens = _shortest(significand, power, bool(fraction == _ZERO) and exponent > 1)
    return _write_decimal(out, position, digits, tens)


@part_of_kernel
def write_whole(out: Bytes, position: int, number: np.uint64) -> int:
    """Write a number of at most 17 digits; the place after it."""
    count = 1
    while count < 17 and number >= _TENS[count]:
        count += 1
    _write_digits(out, position, number, count)
    return position + count


@part_of_kernel
def write_text(out: Bytes, position: int, text: Bytes, low: int, high: int) -> int:
    """Copy a piece of a text; the place after it."""
    place, start = np.uint64(position), np.uint64(low)
    for index in range(np.uint64(high - low)):
        out[place + index] = text[start + index]
    return position + high - low


@part_of_kernel
def write_word(out: Bytes, position: int, word: np.uint64) -> None:
    """Write eight bytes, the lowest first."""
    place = np.uint64(position)
    for index in range(_EIGHT):
        out[place + index] = np.uint8(word >> (index * _EIGHT))


@part_of_kernel
def _write_whole_text(out: Bytes, position: int, text: Bytes) -> int:
    return write_text(out, position, text, 0, len(text))


@part_of_kernel
def _shortest(significand: np.uint64, power: int, uneven: bool) -> tuple[np.uint64, int]:
    """Digits and a power of ten that stand for `significand * 2 ** power`, maybe with zeros at the end.

    `uneven`: the next smaller float is only half as far away as the next larger one.
    """
    # The floors of logarithms, as multiplications: 1262611 / 2 ** 22 is log10(2), 524031 / 2 ** 22 is log10(4 / 3).
    tens = (power * 1262611 - (524031 if uneven else 0)) >> 22
    shift = np.uint64(power + ((-tens * 1741647) >> 19) + 1)
    high, low = _POWERS[-tens - _FIRST_POWER, 0], _POWERS[-tens - _FIRST_POWER, 1]
    # In quarters of the last place: where the numbers begin that round to this float, itself, and where they end.
    four = significand << _TWO
    left = _scaled(high, low, (four - (_ONE if uneven else _TWO)) << shift)
    middle = _scaled(high, low, four << shift)
    right = _scaled(high, low, (four + _TWO) << shift)
    odd = significand & _ONE  # then the ends themselves round to a neighbour
    left += odd
    right -= odd
    units = middle >> _TWO
    if units >= _TEN:
        shorter = units // _TEN
        forty = np.uint64(40)
        below, above = left <= shorter * forty, shorter * forty + forty <= right
        if below != above:
            return shorter + (_ONE if above else _ZERO), tens + 1
    below, above = left <= units << _TWO, (units + _ONE) << _TWO <= right
    if below != above:
        return units + (_ONE if above else _ZERO), tens
    half = (units << _TWO) + _TWO
    up = middle > half or (middle == half and (units & _ONE) != _ZERO)
    return units + (_ONE if up else _ZERO), tens


@part_of_kernel
def _scaled(high: np.uint64, low: np.uint64, number: np.uint64) -> np.uint64:
    """The upper 64 bits of a product of 192, the last of them set if anything but the error of the table follows."""
    carried, _ = _product(low, number)
    top, rest = _product(high, number)
    rest += carried
    if rest < carried:
        top += _ONE
    return top | (_ONE if rest > _ONE else _ZERO)


@part_of_kernel
def _product(one: np.uint64, other: np.uint64) -> tuple[np.uint64, np.uint64]:
    """All 128 bits, in two halves."""
    one_high, one_low = one >> _HALF_BITS, one & _LOW_HALF
    other_high, other_low = other >> _HALF_BITS, other & _LOW_HALF
    lowest, crossed = one_low * other_low, one_high * other_low
    middle = one_low * other_high + (lowest >> _HALF_BITS) + (crossed & _LOW_HALF)
    return one_high * other_high + (crossed >> _HALF_BITS) + (middle >> _HALF_BITS), one * other


@part_of_kernel
def _write_decimal(out: Bytes, position: int, digits: np.uint64, tens: int) -> int:
    count = 17
    while count > 1 and digits < _TENS[count - 1]:
        count -= 1
    point = count + tens  # how many digits stand before the point
    if point <= -6 or point > 21:
        return _write_scientific(out, position, digits, count, point - 1)
    if point <= 0:
        write_word(out, position, _LEADING_ZEROS)
        start, fraction, after = position + 2 - point, digits, count
    elif point < count:
        after = count - point
        whole = digits // _TENS[after]
        _write_digits(out, position, whole, point)
        out[position + point] = 46  # .
        start, fraction = position + point + 1, digits - whole * _TENS[after]
    else:
        _write_digits(out, position, digits, count)
        for index in range(17, point):
            out[position + index] = 48
        return position + point
    _write_digits(out, start, fraction, after)
    return _without_zeros(out, start + after)


@part_of_kernel
def _write_scientific(out: Bytes, position: int, digits: np.uint64, count: int, exponent: int) -> int:
    _write_digits(out, position + 1, digits, count)
    end = _without_zeros(out, position + 1 + count)
    out[position] = out[position + 1]
    out[position + 1] = 46  # .
    if end == position + 2:
        end = position + 1
    out[end] = 101  # e
    out[end + 1] = 45 if exponent < 0 else 43  # - +
    size = np.uint64(abs(exponent))
    count = 3 if size >= _HUNDRED else 2
    _write_digits(out, end + 2, size, count)
    return end + 2 + count


@part_of_kernel
def _without_zeros(out: Bytes, end: int) -> int:
    """The place after the last digit that is no zero."""
    last = np.uint64(end) - _ONE
    while out[last] == 48:
        last -= _ONE
    return _signed(last + _ONE)


@part_of_kernel
def _write_digits(out: Bytes, position: int, digits: np.uint64, count: int) -> None:
    """Write a number as `count` digits, at most 17; zeros follow it."""
    digits *= _TENS[17 - count]
    first = digits // _SIXTEEN_DIGITS
    rest = digits - first * _SIXTEEN_DIGITS
    upper = rest // _EIGHT_DIGITS
    out[position] = np.uint8(first + np.uint64(48))
    write_word(out, position + 1, _eight_digits(upper))
    write_word(out, position + 9, _eight_digits(rest - upper * _EIGHT_DIGITS))


@part_of_kernel
def _eight_digits(number: np.uint64) -> np.uint64:
    """A number below 1e8 as text, in a word: halves, quarters and digits are divided side by side."""
    upper = number // _TEN_THOUSAND
    halves = upper | ((number - upper * _TEN_THOUSAND) << _HALF_BITS)
    hundreds = ((halves * np.uint64(10486)) >> np.uint64(20)) & np.uint64(0x0000007F0000007F)
    quarters = hundreds | ((halves - hundreds * _HUNDRED) << np.uint64(16))
    tens = ((quarters * np.uint64(103)) >> _TEN) & np.uint64(0x000F000F000F000F)
    return (tens | ((quarters - tens * _TEN) << _EIGHT)) + np.uint64(0x3030303030303030)
