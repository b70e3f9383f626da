"""Functions over windows that know the samples around them: `anchored` and `smoothed`.

The window begins with the last sample up to its start, if there is one not older than the lookback. A smoothed window
begins and ends on the lines between samples.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

from tests.differential.histogram_model.arithmetic import Outcome, is_reset, minus, plus
from tests.differential.histogram_model.histogram import GAUGE, Histogram, IncompatibleError
from tests.differential.histogram_model.samples import Notes, Point, Value
from tests.differential.histogram_model.windows import (
    MIXED_BUCKETS,
    MIXED_KINDS,
    NO_COUNTER_NAME,
    NOT_A_COUNTER,
    NOT_A_GAUGE,
    Window,
    over_window,
)

RATES = ("rate", "increase", "delta")
ANCHORED = (*RATES, "changes", "resets")


@dataclass(frozen=True)
class Edges:
    """The samples that count: from the one for the window's start to the one for its end."""

    points: list[Point]
    window: Window
    is_smoothed: bool

    @property
    def starts_between(self) -> bool:
        """Whether the window starts between two samples, and its first value lies on the line between them."""
        return self.is_smoothed and self.points[0].time_ms < self.window.start_ms

    @property
    def ends_between(self) -> bool:
        """Whether it ends so."""
        return self.is_smoothed and self.points[-1].time_ms > self.window.end_ms


def over_extended(function: str, window: Window, is_smoothed: bool, notes: Notes) -> Value | None:
    """What a function says; the window's points are those around it as well."""
    points = window.points
    start = max([place for place, point in enumerate(points) if point.time_ms <= window.start_ms], default=0)
    if points[-1].time_ms <= window.start_ms and function not in RATES:
        return None
    if function in {"changes", "resets"}:
        return over_window(function, replace(window, points=points[start:]), notes)
    if window.floats and window.histograms:
        notes.warn(MIXED_KINDS.format(window.metric))
        return None
    if points[-1].time_ms <= window.start_ms:
        return None
    beyond = [place for place, point in enumerate(points) if point.time_ms >= window.end_ms]
    end = beyond[0] if is_smoothed and beyond else len(points) - 1
    if points[end].time_ms <= window.start_ms or (is_smoothed and points[start].time_ms > window.end_ms):
        return None
    edges = Edges(points[start : end + 1], window, is_smoothed)
    seconds = (window.end_ms - window.start_ms) / 1000 if function == "rate" else 1.0
    is_counter = function != "delta"
    if window.floats:
        if is_counter and window.metric and not window.metric.endswith("_total"):
            notes.inform(NO_COUNTER_NAME.format(window.metric))
        return _float_change(edges, is_counter) / seconds
    try:
        found = _change(edges, is_counter, notes)
    except IncompatibleError:
        notes.warn(MIXED_BUCKETS.format(window.metric))
        return None
    return replace(found.divided(seconds) if function == "rate" else found, hint=GAUGE).compact()


def _float_change(edges: Edges, is_counter: bool) -> float:
    points = [(point.time_ms, point.value) for point in edges.points if isinstance(point.value, float)]
    values = [value for _, value in points]
    if edges.starts_between:
        values[0] = _between(points[0], points[1], edges.window.start_ms, is_counter)
    if edges.ends_between:
        values[-1] = _between(points[-2], points[-1], edges.window.end_ms, is_counter)
    change = values[-1] - values[0]
    return change + (sum(one for one, other in pairwise(values) if other < one) if is_counter else 0.0)


def _between(one: tuple[int, float], other: tuple[int, float], time_ms: int, is_counter: bool) -> float:
    begin = 0.0 if is_counter and other[1] < one[1] else one[1]
    return begin + (other[1] - begin) * (time_ms - one[0]) / (other[0] - one[0])


def _change(edges: Edges, is_counter: bool, notes: Notes) -> Histogram:
    members = [point.value for point in edges.points if isinstance(point.value, Histogram)]
    for member in members:
        if member.is_custom != members[0].is_custom:
            raise IncompatibleError
        if is_counter and member.hint == GAUGE:
            notes.warn(NOT_A_COUNTER.format(edges.window.metric))
    left, right = members[0], members[-1]
    if edges.starts_between:
        left = _line(edges.points[:2], edges.window.start_ms, is_counter, notes)
    if edges.ends_between:
        right = _line(edges.points[-2:], edges.window.end_ms, is_counter, notes)
    if not is_counter and {left.hint, right.hint} != {GAUGE}:
        notes.warn(NOT_A_GAUGE.format(edges.window.metric))
    result = _noted(minus(right, left), "subtraction", notes)
    if not is_counter:
        return result
    before, rest = left, members[1:-1]
    if edges.starts_between and is_reset(members[1], members[0]):
        # The line to the second sample starts at zero: it knows of this reset.
        if len(members) == 2:
            return result
        before, rest = members[1], members[2:-1]
    if len(members) == 1:
        return result
    correction: Histogram | None = None
    for member in (*rest, right):
        if is_reset(member, before):
            correction = before if correction is None else _noted(plus(correction, before), "addition", notes)
        before = member
    return result if correction is None else _noted(plus(result, correction), "addition", notes)


def _line(points: list[Point], time_ms: int, is_counter: bool, notes: Notes) -> Histogram:
    """The histogram at a time between two samples."""
    one, other = (point.value for point in points)
    assert isinstance(one, Histogram)
    assert isinstance(other, Histogram)
    share = (time_ms - points[0].time_ms) / (points[1].time_ms - points[0].time_ms)
    if is_counter and is_reset(other, one):
        return other.scaled(share)
    difference = _noted(minus(other, one), "subtraction", notes).scaled(share)
    return _noted(plus(difference, one), "addition", notes)


def _noted(outcome: Outcome, operation: str, notes: Notes) -> Histogram:
    if outcome.reconciled:
        notes.inform(f"mismatched custom buckets were reconciled during {operation}")
    return outcome.histogram
