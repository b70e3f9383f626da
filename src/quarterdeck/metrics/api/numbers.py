"""Single floats and times as text, for where there are few of them."""

from typing import Final

import numpy as np

from quarterdeck.metrics.api.decimals import LONGEST_BYTES, ROOM_BYTES, U64, Bytes, write_float
from quarterdeck.metrics.promql.blocks import F64, I64
from quarterdeck.metrics.promql.kernels.compile import given, kernel, warms

_PORTION: Final = 4096


@kernel
def _write_each(bits: U64, out: Bytes, ends: I64) -> None:
    position = 0
    for index in range(len(bits)):
        position = write_float(out, position, bits[index])
        ends[index] = position


def show_floats(values: F64) -> list[str]:
    """Each as the API writes it, without quotes.

    >>> show_floats(np.array([0.1, -0.0, 1e21, 1e-7, 123456789.0, np.inf, -np.inf, np.nan]))
    ['0.1', '-0', '1e+21', '1e-07', '123456789', '+Inf', '-Inf', 'NaN']
    """
    shown: list[str] = []
    out = np.empty(min(len(values), _PORTION) * LONGEST_BYTES + ROOM_BYTES, np.uint8)
    for low in range(0, len(values), _PORTION):
        bits = given(np.ascontiguousarray(values[low : low + _PORTION])).view(np.uint64)
        ends = np.empty(len(bits), np.int64)
        _write_each(bits, out, ends)
        places: list[int] = ends.tolist()
        text = out[: places[-1]].tobytes().decode()
        shown += [text[start:end] for start, end in zip([0, *places], places, strict=False)]
    return shown


def show_seconds(time_ms: int) -> str:
    """A time as the API writes it.

    >>> show_seconds(1435781430781), show_seconds(-50), show_seconds(4000)
    ('1435781430.781', '-0.050', '4')
    """
    seconds, rest = divmod(abs(time_ms), 1000)
    return f"{'-' if time_ms < 0 else ''}{seconds}" + (f".{rest:03d}" if rest else "")


@warms
def warm_numbers() -> None:
    """One float."""
    show_floats(np.zeros(1))
