"""A range of samples as a chart in a terminal: lines of dots, two axes, and a legend below.

Where a sample is missing or not a number, the line has a gap. An infinity is a dot at the edge, and does not change the
axis.
"""

import math
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from quarterdeck.metrics.commands.chart_axes import ValueAxis, time_ticks, value_axis
from quarterdeck.metrics.commands.chart_canvas import DOTS_ACROSS, DOTS_DOWN, LEAST_COLUMNS, BrailleCanvas
from quarterdeck.metrics.commands.chart_legend import colour, in_order, legend, letter
from quarterdeck.metrics.commands.query_answer import SeriesAnswer
from quarterdeck.metrics.commands.query_times import Range
from quarterdeck.metrics.promql.syntax.durations import show_duration_ms

_MOST_LETTERS: Final = 4
_ROWS_PER_TICK: Final = 2
_GAP_STEPS: Final = 1.5
"""Samples further apart than so many steps have one missing between them."""


def chart(series: Sequence[SeriesAnswer], span: Range, *, width: int, rows: int, colours: bool) -> RenderableType:
    """So many columns in all, and so many rows for the lines themselves."""
    curves = in_order(series)
    axis = _axis(curves, rows)
    labels = _value_labels(axis, rows)
    margin = max(map(len, labels.values()), default=0)
    ends = {} if colours else _ends(curves, axis, rows)
    columns = max(LEAST_COLUMNS, width - margin - 2 - max(map(len, ends.values()), default=0))
    canvas = BrailleCanvas(columns, rows)
    for index in range(len(curves) - 1, -1, -1):  # the first of the legend is on top
        _draw(canvas, curves[index], span, axis, index)
    lines = [
        Text.assemble(
            (labels.get(row, "").rjust(margin), "dim"),
            (" ┤" if row in labels else " │", "dim"),
            *((text, colour(ink) if colours and ink >= 0 else "") for text, ink in canvas.runs(row)),
            ends.get(row, ""),
        )
        for row in range(rows)
    ]
    for line in (*lines, *(bottom := list(_time_lines(span, columns, margin)))):
        line.rstrip()
    return Group(*lines, *bottom, *legend(curves, colours=colours))


def _axis(curves: Sequence[SeriesAnswer], rows: int) -> ValueAxis:
    finite = [number for curve in curves for number in curve.numbers if math.isfinite(number)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    return value_axis(low, high, max(2, rows // _ROWS_PER_TICK))


def _y(axis: ValueAxis, value: float, height: int) -> int:
    if math.isinf(value):
        return 0 if value > 0 else height - 1
    return round((1 - axis.fraction(value)) * (height - 1))


def _value_labels(axis: ValueAxis, rows: int) -> dict[int, str]:
    return {_y(axis, value, rows * DOTS_DOWN) // DOTS_DOWN: label for value, label in axis.ticks}


def _draw(canvas: BrailleCanvas, curve: SeriesAnswer, span: Range, axis: ValueAxis, ink: int) -> None:
    gap_s = span.step_s * _GAP_STEPS
    for part in _unbroken(curve, gap_s):
        dots = [(_x(span, time_s, canvas.width), _y(axis, number, canvas.height)) for time_s, number in part]
        if len(dots) == 1:  # one dot alone is hardly seen
            [(x, y)] = dots
            for across in (0, 1):
                for down in (0, 1):
                    canvas.dot(x - x % 2 + across, y - y % 2 + down, ink)
        for (x, y), (to_x, to_y) in pairwise(dots):
            canvas.line(x, y, to_x, to_y, ink)


def _unbroken(curve: SeriesAnswer, gap_s: float) -> Iterator[list[tuple[float, float]]]:
    """The parts of a curve that are drawn without lifting the pen; an infinity is one by itself."""
    part: list[tuple[float, float]] = []
    for time_s, number in zip(curve.times_s, curve.numbers, strict=True):
        if part and (not math.isfinite(number) or time_s - part[-1][0] > gap_s):
            yield part
            part = []
        if math.isinf(number):
            yield [(time_s, number)]
        elif not math.isnan(number):
            part.append((time_s, number))
    if part:
        yield part


def _x(span: Range, time_s: float, width: int) -> int:
    length_s = span.end_s - span.start_s
    return round((time_s - span.start_s) / length_s * (width - 1)) if length_s > 0 else width // 2


def _ends(curves: Sequence[SeriesAnswer], axis: ValueAxis, rows: int) -> dict[int, str]:
    """By row the letters of the lines that end there."""
    ends: dict[int, str] = {}
    for index, curve in enumerate(curves):
        last = next((number for number in reversed(curve.numbers) if not math.isnan(number)), None)
        if last is not None and letter(index):
            row = _y(axis, last, rows * DOTS_DOWN) // DOTS_DOWN
            ends[row] = (ends.get(row, " ") + letter(index))[: 1 + _MOST_LETTERS]
    return ends


def _time_lines(span: Range, columns: int, margin: int) -> Iterator[Text]:
    """The axis, its labels, and the whole range in words."""
    ticks = {
        _x(span, time_s, columns * DOTS_ACROSS) // DOTS_ACROSS: label
        for time_s, label in time_ticks(span.start_s, span.end_s, columns)
    }
    yield Text(" " * margin + " └" + "".join("┬" if column in ticks else "─" for column in range(columns)), style="dim")
    line = ""
    for column, label in sorted(ticks.items()):
        begin = min(margin + 2 + column - len(label) // 2, margin + 2 + columns - len(label))
        if begin > len(line) or not line:
            line = line.ljust(begin) + label
    yield Text(line, style="dim")
    begin, end = time.localtime(span.start_s), time.localtime(span.end_s)
    same_day = begin[:3] == end[:3]
    shown = time.strftime("%H:%M:%S" if same_day else "%Y-%m-%d %H:%M:%S", end)
    step = show_duration_ms(round(span.step_s * 1000))
    words = f"{time.strftime('%Y-%m-%d %H:%M:%S', begin)} to {shown} {end.tm_zone}, a point every {step}"
    indent = max(0, min(margin + 2, margin + 2 + columns - len(words)))
    yield Text(" " * indent + words, style="dim", no_wrap=True, overflow="ellipsis")
