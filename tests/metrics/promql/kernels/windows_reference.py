"""What each window function means, one window at a time in plain Python, with the rounding of Prometheus."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

from quarterdeck.metrics.promql.kernels.windows import WindowFunction as Fn

Samples = Sequence[tuple[int, float]]


def evaluate(
    function: Fn, samples: Samples, step_ms: int, range_ms: int, offset_ms: int = 0, parameters: Sequence[float] = ()
) -> float | None:
    """The result of a function at a time, given all samples of a series; None if it has none."""
    end_ms = step_ms - offset_ms
    window = [(t, v) for t, v in samples if end_ms - range_ms < t <= end_ms]
    if not window:
        return None
    times = [t for t, _ in window]
    values = [v for _, v in window]
    match function:
        case Fn.RATE | Fn.INCREASE | Fn.DELTA:
            return _extrapolated(function, window, end_ms, range_ms)
        case Fn.IRATE | Fn.IDELTA:
            return _from_last_two(function, window)
        case Fn.RESETS:
            return float(sum(b < a for a, b in itertools.pairwise(values)))
        case Fn.CHANGES:
            pairs = itertools.pairwise(values)
            return float(sum(a != b and not (math.isnan(a) and math.isnan(b)) for a, b in pairs))
        case Fn.DERIV:
            return None if len(window) < 2 else _line(window, times[0])[0]
        case Fn.PREDICT_LINEAR:
            if len(window) < 2:
                return None
            slope, level = _line(window, step_ms)
            return slope * parameters[0] + level
        case Fn.SUM:
            total, lost = _sum(values)
            return total if math.isinf(total) else total + lost
        case Fn.AVG:
            return _mean(values)
        case Fn.MIN | Fn.MAX | Fn.TS_OF_MIN | Fn.TS_OF_MAX:
            return _extreme(function, window)
        case Fn.COUNT:
            return float(len(window))
        case Fn.PRESENT:
            return 1.0
        case Fn.LAST:
            return values[-1]
        case Fn.FIRST:
            return values[0]
        case Fn.TS_OF_LAST:
            return times[-1] / 1000
        case Fn.TS_OF_FIRST:
            return times[0] / 1000
        case Fn.STDVAR:
            return _variance(values)
        case Fn.STDDEV:
            variance = _variance(values)
            return math.sqrt(variance) if variance >= 0 else math.nan
        case Fn.QUANTILE:
            return quantile(parameters[0], values)
        case Fn.MAD:
            if any(map(math.isnan, values)):
                return math.nan
            median = quantile(0.5, values)
            return quantile(0.5, [abs(v - median) for v in values])
        case Fn.DOUBLE_EXPONENTIAL:
            return None if len(window) < 2 else _smoothed(values, *parameters)


def exact_variance(values: Sequence[float]) -> float:
    """With no rounding but the last."""
    exact = [Fraction(v) for v in values]
    mean = sum(exact) / len(exact)
    return float(sum((v - mean) ** 2 for v in exact) / len(exact))


def exact_line(window: Samples, zero_ms: int) -> tuple[Fraction, Fraction]:
    """The slope a second and the value at a time, with no rounding."""
    xs = [Fraction(t - zero_ms, 1000) for t, _ in window]
    ys = [Fraction(v) for _, v in window]
    x, y = sum(xs, Fraction()) / len(xs), sum(ys, Fraction()) / len(ys)
    rises = sum(((a - x) * b for a, b in zip(xs, ys, strict=True)), Fraction())
    slope = rises / sum(((a - x) * (a - x) for a in xs), Fraction())
    return slope, y - slope * x


def rounding(function: Fn, window: Samples, zero_ms: int, expected: float, parameters: Sequence[float]) -> float:
    """By how much rounding may move the result where Prometheus computes with values that cancel out in the end.

    Some units in the last place of the largest value: for a slope over the span of the window; for a line, whose
    times are relative to the step, as much more as the square of the step's distance beside that span.
    """
    largest = max((abs(v) for _, v in window), default=0.0)
    if function not in {Fn.DERIV, Fn.PREDICT_LINEAR, Fn.STDVAR, Fn.STDDEV} or not largest < 1e250:
        return 0.0
    if function is Fn.STDDEV:
        return 1e-14 * largest
    if function is Fn.STDVAR:
        return 1e-14 * largest * (math.sqrt(abs(expected)) + 1e-14 * largest)
    span_s = (window[-1][0] - window[0][0]) / 1000
    if function is Fn.DERIV:
        return 1e-14 * largest / span_s
    away_s = abs(parameters[0]) + abs(window[0][0] - zero_ms) / 1000
    return 1e-14 * largest * (1 + away_s / span_s) ** 2


def quantile(phi: float, values: Sequence[float]) -> float:
    """Between the two values next to the rank; NaN comes before all numbers."""
    if math.isnan(phi):
        return math.nan
    if not 0 <= phi <= 1:
        return math.copysign(math.inf, phi)
    ordered = sorted(values, key=lambda v: (not math.isnan(v), 0.0 if math.isnan(v) else v))
    rank = phi * (len(ordered) - 1)
    lower = math.floor(rank)
    weight = rank - lower
    return ordered[lower] * (1 - weight) + ordered[min(lower + 1, len(ordered) - 1)] * weight


def _extrapolated(function: Fn, window: Samples, end_ms: int, range_ms: int) -> float | None:
    if len(window) < 2:
        return None
    (first_ms, first), (last_ms, last) = window[0], window[-1]
    change = last - first
    is_counter = function is not Fn.DELTA
    if is_counter:
        for (_, before), (_, after) in itertools.pairwise(window):
            if after < before:
                change += before
    sampled = (last_ms - first_ms) / 1000
    gap = divide(sampled, len(window) - 1)
    to_start = (first_ms - (end_ms - range_ms)) / 1000
    to_end = (end_ms - last_ms) / 1000
    near = gap * 1.1
    if to_start >= near:
        to_start = gap / 2
    if is_counter and change > 0 and first >= 0:
        to_zero = sampled * divide(first, change)
        to_start = min(to_start, to_zero)
    if to_end >= near:
        to_end = gap / 2
    factor = divide(sampled + to_start + to_end, sampled)
    if function is Fn.RATE:
        factor /= range_ms // 1000 + (range_ms % 1000 * 1_000_000) / 1e9
    return change * factor


def _from_last_two(function: Fn, window: Samples) -> float | None:
    if len(window) < 2 or window[-1][0] == window[-2][0]:
        return None
    (before_ms, before), (last_ms, last) = window[-2:]
    if function is Fn.IDELTA:
        return last - before
    grown = last if last < before else last - before
    return divide(grown, (last_ms - before_ms) / 1000)


def _line(window: Samples, zero_ms: int) -> tuple[float, float]:
    level = window[0][1]
    if all(v == level for _, v in window[1:]):
        return (math.nan, math.nan) if math.isinf(level) else (0.0, level)
    count = float(len(window))
    xs = [(t - zero_ms) / 1e3 for t, _ in window]
    ys = [v for _, v in window]
    x, y = sum(_sum(xs)), sum(_sum(ys))
    xy = sum(_sum([a * b for a, b in zip(xs, ys, strict=True)]))
    xx = sum(_sum([a * a for a in xs]))
    slope = divide(xy - x * y / count, xx - x * x / count)
    return slope, y / count - slope * x / count


def _smoothed(values: Sequence[float], smoothing: float, trending: float) -> float:
    levels = [values[0]]
    trend = values[1] - values[0]
    for value in values[1:]:
        if len(levels) > 1:
            trend = trending * (levels[-1] - levels[-2]) + (1 - trending) * trend
        levels.append(smoothing * value + (1 - smoothing) * (levels[-1] + trend))
    return levels[-1]


def _add(value: float, total: float, lost: float) -> tuple[float, float]:
    new = total + value
    if math.isinf(new):
        return new, 0.0
    larger, smaller = (total, value) if abs(total) >= abs(value) else (value, total)
    return new, lost + ((larger - new) + smaller)


def _sum(values: Sequence[float]) -> tuple[float, float]:
    total = lost = 0.0
    for value in values:
        total, lost = _add(value, total, lost)
    return total, lost


def _mean(values: Sequence[float]) -> float:
    total, lost = values[0], 0.0
    for done, value in enumerate(values[1:], 1):
        new, new_lost = _add(value, total, lost)
        if math.isinf(new):
            mean, lost = total / done, lost / done
            for count, rest in enumerate(values[done:], done + 1):
                share = (count - 1) / count
                mean, lost = _add(rest / count, share * mean, share * lost)
            return mean + lost
        total, lost = new, new_lost
    return total / len(values) + lost / len(values)


def _variance(values: Sequence[float]) -> float:
    mean = mean_lost = squares = squares_lost = 0.0
    for count, value in enumerate(values, 1):
        delta = value - (mean + mean_lost)
        mean, mean_lost = _add(delta / count, mean, mean_lost)
        squares, squares_lost = _add(delta * (value - (mean + mean_lost)), squares, squares_lost)
    return (squares + squares_lost) / len(values)


def _extreme(function: Fn, window: Samples) -> float:
    numbers = [v for _, v in window if not math.isnan(v)]
    if not numbers:
        return math.nan if function in {Fn.MIN, Fn.MAX} else window[-1][0] / 1000
    best = min(numbers) if function in {Fn.MIN, Fn.TS_OF_MIN} else max(numbers)
    if function in {Fn.MIN, Fn.MAX}:
        return best
    return max(t for t, v in window if v == best) / 1000


def divide(a: float, b: float) -> float:
    """As hardware does: by zero too."""
    if b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)
    return a / b
