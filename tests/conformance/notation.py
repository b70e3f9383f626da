"""The small notations within a line of a script: durations, quoted strings, label sets, series and their values.

Each function takes text and answers with a value, or raises `ValueError` that says what is wrong with the text. It must
not know lines, files or commands.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from typing import Final, TypeAlias

from quarterdeck.metrics.promql.labels import METRIC_NAME, Labels, from_mapping
from tests.conformance.histogram_text import HistogramText


class Mark(Enum):
    """A place in a series that has no value."""

    OMITTED = "_"
    STALE = "stale"


Point: TypeAlias = float | HistogramText | Mark

_UNITS_MS: Final = {
    "y": 365 * 86_400_000,
    "w": 7 * 86_400_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1_000,
    "ms": 1,
}
_DURATION: Final = re.compile("".join(rf"(?:(?P<{unit}>\d+){unit}(?![a-z]))?" for unit in _UNITS_MS))

_PLAIN: Final = r"(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[iI][nN][fF]|[nN][aA][nN])"
_HISTOGRAM: Final = r"\{\{[^}]*\}\}"
_ITEM: Final = re.compile(
    rf"(?P<base>_|stale|{_HISTOGRAM}|[+-]?{_PLAIN})"
    rf"(?:(?P<sign>[+-])(?P<step>{_HISTOGRAM}|[+-]?{_PLAIN})(?=x))?"
    r"(?:x(?P<times>\d+))?(?=\s|\Z)"
)
_START_ITEM: Final = re.compile(
    r"(?P<base>_|\*|[+-]?\d+[a-wy-z]*)(?:(?P<sign>[+-])(?P<step>\d+[a-wy-z]*)(?=x))?(?:x(?P<times>\d+))?\Z"
)

_SPACE: Final = re.compile(r"\s*")
_METRIC: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|`[^`]*`')
_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{3}|.)", re.DOTALL)
_ESCAPED: Final = dict(zip("abfnrtv\\'\"", "\a\b\f\n\r\t\v\\'\"", strict=True))


def duration_ms(text: str) -> int:
    """A duration as Prometheus writes it, without a sign; `0` needs no unit.

    >>> duration_ms("1h30m"), duration_ms("59999ms"), duration_ms("0")
    (5400000, 59999, 0)
    """
    found = _DURATION.fullmatch(text)
    if found is None or not text:
        if text == "0":
            return 0
        raise ValueError(f"{text!r} is no duration: write units from large to small, as in 1h30m")
    return sum(int(count) * _UNITS_MS[unit] for unit, count in found.groupdict().items() if count)


def signed_duration_ms(text: str) -> int:
    """A duration that may have a sign."""
    size = duration_ms(text.lstrip("+-"))
    return -size if text.startswith("-") else size


def unquoted(text: str) -> str:
    """What a quoted string says. Bytes that are no UTF-8 become lone surrogates.

    >>> unquoted(r'"a\\tb"'), unquoted("`a\\\\tb`")
    ('a\\tb', 'a\\\\tb')
    """
    if _QUOTED.fullmatch(text) is None:
        raise ValueError(f"{text} is no quoted string")
    inner = text[1:-1]
    if text[0] == "`" or "\\" not in inner:
        return inner
    out = b""
    position = 0
    for found in _ESCAPE.finditer(inner):
        out += inner[position : found.start()].encode() + _unescaped(found[1])
        position = found.end()
    return (out + inner[position:].encode()).decode("utf-8", "surrogateescape")


def _unescaped(code: str) -> bytes:
    if code in _ESCAPED:
        return _ESCAPED[code].encode()
    if code[0] == "x" and len(code) > 1:
        return bytes([int(code[1:], 16)])
    if code[0] in "uU" and len(code) > 1:
        return chr(int(code[1:], 16)).encode()
    if len(code) == 3:
        return bytes([int(code, 8)])
    raise ValueError(f"\\{code} is not an escape of a quoted string")


def series(line: str) -> tuple[Labels, tuple[Point, ...]]:
    """A series and its values.

    >>> series('up{job="a"} 1+1x2 _ stale')
    ((('__name__', 'up'), ('job', 'a')), (1.0, 2.0, 3.0, <Mark.OMITTED: '_'>, <Mark.STALE: 'stale'>))
    """
    labels, end = _label_set(line)
    return labels, tuple(_points(line, end))


def metric(text: str) -> Labels:
    """The labels of a series, with nothing after them."""
    labels, end = _label_set(text)
    if end != len(text):
        raise ValueError(f"{text[end:]!r} was not expected after the labels")
    return labels


def start_offsets_ms(text: str) -> tuple[int | None, ...]:
    """The values of an `@st` line: how far each sample's start lies from its time. None: it has none."""
    out: list[int | None] = []
    for item in text.split():
        found = _START_ITEM.match(item)
        if found is None:
            raise ValueError(f"{item!r} is no start of a sample: write a duration such as -1m, -30s-1mx2, or _")
        times = int(found["times"] or 0)
        if found["base"] == "_":
            out += [None] * (times or 1)
        elif found["base"] == "*":
            before = next((offset for offset in reversed(out) if offset is not None), 0)
            out += [before] * (times + 1)
        else:
            base = signed_duration_ms(found["base"])
            step = signed_duration_ms((found["sign"] or "") + (found["step"] or "0"))
            out += [base + step * place for place in range(times + 1)]
    return tuple(out)


def _label_set(line: str) -> tuple[Labels, int]:
    """The labels at the start of a line, and where they end."""
    labels: dict[str, str] = {}
    position = 0
    if found := _METRIC.match(line):
        labels[METRIC_NAME] = found[0]
        position = found.end()
    if not line.startswith("{", position):
        if not labels:
            raise ValueError(f"{line!r} does not start with a metric's name or {{")
        return from_mapping(labels), position
    position = _skip(line, position + 1)
    while not line.startswith("}", position):
        name, value, position = _pair(line, position)
        if name in labels:
            raise ValueError(f"the label {name!r} is there twice")
        labels[name] = value
        position = _skip(line, position)
        if line.startswith(",", position):
            position = _skip(line, position + 1)
        elif not line.startswith("}", position):
            raise ValueError(f"expected , or }} before {line[position:]!r}")
    return from_mapping(labels), position + 1


def _pair(line: str, position: int) -> tuple[str, str, int]:
    """One label, or a quoted metric's name; and where it ends."""
    found = _QUOTED.match(line, position) or _METRIC.match(line, position)
    if found is None:
        raise ValueError(f"expected a label's name before {line[position:]!r}")
    is_quoted = found[0][0] in "\"'`"
    name = unquoted(found[0]) if is_quoted else found[0]
    position = _skip(line, found.end())
    if not line.startswith("=", position):
        if is_quoted:
            return METRIC_NAME, name, position
        raise ValueError(f"expected = after the label's name {name!r}")
    value = _QUOTED.match(line, _skip(line, position + 1))
    if value is None:
        raise ValueError(f"the value of the label {name!r} must be a quoted string")
    return name, unquoted(value[0]), value.end()


def _skip(line: str, position: int) -> int:
    found = _SPACE.match(line, position)
    assert found is not None
    return found.end()


def _points(line: str, position: int) -> Iterator[Point]:
    position = _skip(line, position)
    if position == len(line):
        raise ValueError(f"{line!r} has no values")
    while position < len(line) and line[position] != "#":
        found = _ITEM.match(line, position)
        if found is None:
            raise ValueError(
                f"{line[position:]!r} starts with no value: write numbers, a+bxn, axn, _, stale or {{{{}}}}"
            )
        yield from _expanded(found)
        position = _skip(line, found.end())


def _expanded(found: re.Match[str]) -> Iterator[Point]:
    if found["base"] == "_":
        yield from [Mark.OMITTED] * int(found["times"] or 1)
        return
    point = _point(found["base"])
    step = _point(found["step"]) if found["step"] else None
    if isinstance(point, HistogramText) and isinstance(step, HistogramText):
        point = replace(point, has_hint=step.has_hint)
    yield point
    # Growing by adding, not by multiplying, as the numbers in the scripts were made.
    for _ in range(int(found["times"] or 0)):
        if step is not None:
            point = _grown(point, step, -1 if found["sign"] == "-" else 1)
        yield point


def _point(text: str) -> Point:
    if text == Mark.STALE.value:
        return Mark.STALE
    if text.startswith("{{"):
        return HistogramText.parse(text[2:-2])
    return float(text)


def _grown(point: Point, step: Point, sign: int) -> Point:
    if isinstance(point, HistogramText) and isinstance(step, HistogramText):
        return point.plus(step, sign)
    if isinstance(point, float) and isinstance(step, float):
        return point + sign * step
    raise ValueError("a series grows by what it is made of: floats by a float, histograms by a histogram")
