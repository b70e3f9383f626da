"""Functions over the samples of one series within a window."""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

from tests.differential.histogram_model.arithmetic import coarser, exact_sum, is_reset, minus, plus, total
from tests.differential.histogram_model.groups import extreme, quantile, spread
from tests.differential.histogram_model.histogram import GAUGE, Histogram, IncompatibleError
from tests.differential.histogram_model.samples import Notes, Point, Value, same_float

OF_FLOATS = frozenset(
    {
        "min_over_time", "max_over_time", "stddev_over_time", "stdvar_over_time", "mad_over_time", "quantile_over_time",
        "ts_of_min_over_time", "ts_of_max_over_time", "deriv", "predict_linear", "double_exponential_smoothing",
    }
)  # fmt: skip
"""These leave histograms out, and say so if there are floats as well."""
OF_ANY = frozenset(
    {
        "count_over_time", "present_over_time", "first_over_time", "last_over_time", "ts_of_first_over_time",
        "ts_of_last_over_time", "changes", "resets",
    }
)  # fmt: skip
OF_ONE_KIND = frozenset({"rate", "increase", "delta", "irate", "idelta", "sum_over_time", "avg_over_time"})
FUNCTIONS = OF_FLOATS | OF_ANY | OF_ONE_KIND
KEEPING_NAMES = frozenset({"first_over_time", "last_over_time"})
NOT_A_COUNTER = 'this native histogram metric is not a counter: "{}"'
NOT_A_GAUGE = 'this native histogram metric is not a gauge: "{}"'
MIXED_KINDS = 'encountered a mix of histograms and floats for metric name "{}"'
MIXED_BUCKETS = 'vector contains a mix of histograms with exponential and custom buckets schemas for metric name "{}"'
IGNORED = 'ignored histograms in a range containing both floats and histograms for metric name "{}"'
NO_COUNTER_NAME = 'metric might not be a counter, name does not end in _total/_sum/_count/_bucket: "{}"'


@dataclass(frozen=True)
class Window:
    """The samples of a series after `start_ms`, up to `end_ms`."""

    points: list[Point]
    start_ms: int
    end_ms: int
    metric: str
    parameters: tuple[float, ...] = ()
    asked_ms: int = 0
    """The step for which this is asked; an offset makes it another time than the window's end."""

    @property
    def floats(self) -> list[tuple[int, float]]:
        return [(point.time_ms, point.value) for point in self.points if isinstance(point.value, float)]

    @property
    def histograms(self) -> list[Histogram]:
        return [point.value for point in self.points if isinstance(point.value, Histogram)]


def over_window(function: str, window: Window, notes: Notes) -> Value | None:
    """What a function says of a window that is not empty."""
    if function in OF_ANY:
        return _of_any(function, window.points)
    if function in {"irate", "idelta"}:
        window = replace(window, points=window.points[-2:])
    floats, histograms = window.floats, window.histograms
    if function in OF_FLOATS:
        if floats and histograms:
            notes.inform(IGNORED.format(window.metric))
        return _of_floats(function, window) if floats else None
    if floats and histograms:
        notes.warn(MIXED_KINDS.format(window.metric))
        return None
    if function in {"sum_over_time", "avg_over_time"}:
        return _total(function, window, notes)
    if len(window.points) < 2:
        return None
    is_counter = function in {"rate", "increase", "irate"}
    if function in {"irate", "idelta"}:
        return _last_change(window, is_counter, notes)
    found = _float_change(window, is_counter) if floats else _change(window, is_counter, notes)
    if found is None:
        return None
    if floats and window.metric and function in {"rate", "increase"} and not window.metric.endswith("_total"):
        notes.inform(NO_COUNTER_NAME.format(window.metric))
    first = window.points[0].value
    assert first is not None
    factor = _stretch(window, _size(found), _size(first), is_counter)
    if function == "rate":
        factor /= (window.end_ms - window.start_ms) / 1000
    return found.scaled(factor) if isinstance(found, Histogram) else found * factor


def _size(value: Value) -> float:
    return value.count if isinstance(value, Histogram) else value


def _of_any(function: str, points: list[Point]) -> Value:
    match function:
        case "count_over_time":
            return float(len(points))
        case "present_over_time":
            return 1.0
        case "ts_of_first_over_time":
            return points[0].time_ms / 1000
        case "ts_of_last_over_time":
            return points[-1].time_ms / 1000
        case "changes":
            return float(sum(_differ(one.value, other.value) for one, other in pairwise(points)))
        case "resets":
            return float(sum(_fell(one.value, other.value) for one, other in pairwise(points)))
        case _:
            value = points[0 if function == "first_over_time" else -1].value
            assert value is not None
            return value


def _differ(one: Value | None, other: Value | None) -> bool:
    if isinstance(one, Histogram) and isinstance(other, Histogram):
        return not one.equals(other)
    return not (isinstance(one, float) and isinstance(other, float) and same_float(one, other))


def _fell(one: Value | None, other: Value | None) -> bool:
    if isinstance(one, Histogram) and isinstance(other, Histogram):
        return is_reset(other, one)
    return not (isinstance(one, float) and isinstance(other, float) and not other < one)


def _of_floats(function: str, window: Window) -> float | None:
    times, values = zip(*window.floats, strict=True)
    match function:
        case "min_over_time" | "max_over_time" | "ts_of_min_over_time" | "ts_of_max_over_time":
            found = extreme(list(values), "max" in function)
            if function.startswith("ts"):
                return max(time for time, value in window.floats if same_float(value, found)) / 1000
            return found
        case "stddev_over_time" | "stdvar_over_time":
            variance = spread(list(values))
            return variance if function == "stdvar_over_time" else math.sqrt(variance)
        case "quantile_over_time":
            return quantile(window.parameters[0], list(values))
        case "mad_over_time":
            if any(map(math.isnan, values)):
                return math.nan
            middle = quantile(0.5, list(values))
            return quantile(0.5, [abs(value - middle) for value in values])
        case _:
            return _trend(function, window, list(times), list(values)) if len(values) > 1 else None


def _trend(function: str, window: Window, times: list[int], values: list[float]) -> float:
    if function == "double_exponential_smoothing":
        smoothing, trending = window.parameters
        before, level, trend = 0.0, values[0], values[1] - values[0]
        for place, value in enumerate(values[1:]):
            if place:
                trend = trending * (level - before) + (1 - trending) * trend
            before, level = level, smoothing * value + (1 - smoothing) * (level + trend)
        return level
    if all(value == values[0] for value in values):
        if math.isinf(values[0]):
            return math.nan
        return 0.0 if function == "deriv" else values[0]
    at = [(time - window.asked_ms) / 1000 for time in times]
    mean, height = sum(at) / len(at), sum(values) / len(values)
    slope = sum((x - mean) * (y - height) for x, y in zip(at, values, strict=True)) / sum((x - mean) ** 2 for x in at)
    return slope if function == "deriv" else height - slope * mean + slope * window.parameters[0]


def _total(function: str, window: Window, notes: Notes) -> Value | None:
    is_mean = function == "avg_over_time"
    if floats := window.floats:
        return exact_sum([value for _, value in floats], len(floats) if is_mean else 1)
    try:
        outcome = total(window.histograms, is_mean)
    except IncompatibleError:
        notes.warn(MIXED_BUCKETS.format(window.metric))
        return None
    if outcome.collided:
        notes.warn("conflicting counter resets during histogram aggregation")
    if outcome.reconciled:
        notes.inform("mismatched custom buckets were reconciled during aggregation")
    return outcome.histogram


def _last_change(window: Window, is_counter: bool, notes: Notes) -> Value | None:
    seconds = (window.points[1].time_ms - window.points[0].time_ms) / 1000
    if floats := window.floats:
        (_, before), (_, after) = floats
        change = after if is_counter and after < before else after - before
        return change / seconds if is_counter else change
    old, new = window.histograms
    if is_counter and GAUGE in {old.hint, new.hint}:
        notes.warn(NOT_A_COUNTER.format(window.metric))
    if not is_counter and {old.hint, new.hint} != {GAUGE}:
        notes.warn(NOT_A_GAUGE.format(window.metric))
    result = new
    if not (is_counter and is_reset(new, old)):
        try:
            outcome = minus(new, old)
        except IncompatibleError:
            notes.warn(MIXED_BUCKETS.format(window.metric))
            return None
        if outcome.reconciled:
            notes.inform("mismatched custom buckets were reconciled during subtraction")
        result = outcome.histogram
    result = replace(result, hint=GAUGE).compact()
    return result.divided(seconds) if is_counter else result


def _float_change(window: Window, is_counter: bool) -> float:
    values = [value for _, value in window.floats]
    resets = sum(before for before, after in pairwise(values) if after < before) if is_counter else 0.0
    return values[-1] - values[0] + resets


def _change(window: Window, is_counter: bool, notes: Notes) -> Histogram | None:
    """From the first to the last; of a counter, what it had reached whenever it started over is added."""
    members = window.histograms
    first, last = members[0], members[-1]
    own = Notes()
    if is_counter and GAUGE in {first.hint, last.hint}:
        own.warn(NOT_A_COUNTER.format(window.metric))
    if is_counter and is_reset(members[1], first):
        # What was before the reset does not matter, nor which buckets it was in.
        first = Histogram(members[1].schema, bounds=members[1].bounds)
    between = members[1:-1] if is_counter else []
    if last.is_custom == first.is_custom and any(member.is_custom != first.is_custom for member in between):
        own = Notes()
    if any(member.is_custom != first.is_custom for member in (last, *between)):
        own.warn(MIXED_BUCKETS.format(window.metric))
        _tell(own, notes)
        return None
    if any(member.hint == GAUGE for member in between):
        own.warn(NOT_A_COUNTER.format(window.metric))
    outcome = minus(coarser(last, min(m.schema for m in (first, last, *between))), first)
    if outcome.reconciled:
        own.inform("mismatched custom buckets were reconciled during subtraction")
    result = outcome.histogram
    if not is_counter and {members[0].hint, last.hint} != {GAUGE}:
        own.warn(NOT_A_GAUGE.format(window.metric))
    for before, after in pairwise(members[1:] if is_counter else []):
        if is_reset(after, before):
            outcome = plus(result, before)
            if outcome.reconciled:
                own.inform("mismatched custom buckets were reconciled during addition")
            result = outcome.histogram
    _tell(own, notes)
    return replace(result, hint=GAUGE).compact()


def _tell(own: Notes, notes: Notes) -> None:
    notes.certain |= own.certain


def _stretch(window: Window, change: float, first: float, is_counter: bool) -> float:
    """How much farther than the samples the window reaches; not farther than half a gap beyond a border far away."""
    times = [point.time_ms for point in window.points]
    sampled = (times[-1] - times[0]) / 1000
    gap = sampled / (len(times) - 1)
    to_start, to_end = (times[0] - window.start_ms) / 1000, (window.end_ms - times[-1]) / 1000
    if to_start >= gap * 1.1:
        to_start = gap / 2
    if is_counter and change > 0 and first >= 0:
        to_start = min(to_start, sampled * (first / change))
    if to_end >= gap * 1.1:
        to_end = gap / 2
    return (sampled + to_start + to_end) / sampled
