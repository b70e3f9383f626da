"""Whether a result is what a script expects, by the rules of upstream's runner, and if not, how to say so.

Numbers may differ by a millionth of their sum; not-a-number equals not-a-number, but a staleness marker only itself.
Every expected series must be there and no other, under exactly its labels. Each function answers with a complaint, or
None when all is well.
"""

import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from quarterdeck.metrics.promql.blocks import F64, Objects, SeriesBlock, is_stale
from quarterdeck.metrics.promql.histograms.layout import Layout
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.labels import Labels, show
from quarterdeck.metrics.promql.result import Scalar, String, Value, Vector
from tests.conformance.histogram_text import HistogramText, show_histogram
from tests.conformance.json_answers import ShownHistogram
from tests.conformance.notation import Mark, Point
from tests.conformance.script import (
    Expected,
    ExpectedFailure,
    ExpectedScalar,
    ExpectedSeries,
    ExpectedString,
    Notices,
    Steps,
)

_TOLERANCE: Final = 1e-6
_SMALLEST_NORMAL: Final = sys.float_info.min
_SHOWN_POINTS: Final = 12

Samples: TypeAlias = list[tuple[int, object]]
"""Times and what is there: a float, `Mark.STALE`, or a `NativeHistogram`."""


def almost_equal(one: float, other: float) -> bool:
    """Whether two numbers are the same for a script.

    >>> almost_equal(1.0, 1.000001), almost_equal(1.0, 1.00001), almost_equal(float("nan"), float("nan"))
    (True, False, True)
    """
    if one == other or (one != one and other != other):
        return True
    total, difference = abs(one) + abs(other), abs(one - other)
    if one == 0 or other == 0 or total < _SMALLEST_NORMAL:
        return difference < _TOLERANCE * _SMALLEST_NORMAL
    return difference / min(total, sys.float_info.max) < _TOLERANCE


def compare(expected: Expected, value: Value, steps: Steps | None) -> str | None:
    """A result against what is expected of it; `steps` are the times of a range's values."""
    match value:
        case Scalar():
            if not isinstance(expected, ExpectedScalar):
                return f"this is a scalar, expected was {_kind(expected)}"
            return None if almost_equal(value.value, expected.value) else f"{value.value:g} is not {expected.value:g}"
        case String():
            if not isinstance(expected, ExpectedString):
                return f"this is a string, expected was {_kind(expected)}"
            return None if value.value == expected.value else f"{value.value!r} is not {expected.value!r}"
        case Vector():
            if not isinstance(expected, ExpectedSeries):
                return f"this is a vector, expected was {_kind(expected)}"
            return _compare_vector(expected, value)
        case SeriesBlock():
            if not isinstance(expected, ExpectedSeries):
                return f"this is a range vector, expected was {_kind(expected)}"
            if expected.ordered:
                return "this is a range vector, which has no order"
            if steps is None:
                return "this is a range vector, expected was a vector"
            return compare_sorted(value) or _compare_block(expected, value, steps)


def compare_sorted(block: SeriesBlock) -> str | None:
    """Whether the series come sorted by their labels."""
    for before, after in pairwise(block.axis.shown):
        if after < before:
            return f"{show(after)} comes after {show(before)}: series must be sorted by labels"
    return None


def compare_notices(kind: str, expected: Notices, actual: Sequence[str]) -> str | None:
    """The warnings or infos of a result against what is expected of them."""
    if expected.none and actual:
        return f"there is the {kind} {actual[0]!r}, expected was none"
    if not expected.wordings:
        return None
    if not actual:
        return f"there is no {kind}, expected was: {expected.wordings[0]}"
    for wording in expected.wordings:
        if not any(wording.fits(text) for text in actual):
            return f"no {kind} reads: {wording}; there are {list(actual)}"
    for text in actual:
        if not any(wording.fits(text) for wording in expected.wordings):
            return f"the {kind} {text!r} was not expected"
    return None


def rows(block: SeriesBlock) -> Iterator[tuple[Labels, Samples]]:
    """The series of a block and their samples."""
    points = _points(block.values, block.histograms)
    samples = list(zip(block.timestamps.tolist(), points, strict=True))
    for labels, (low, high) in zip(block.axis.shown, pairwise(block.offsets.tolist()), strict=True):
        yield labels, samples[low:high]


def describe(value: Value) -> Iterator[str]:
    """A result in lines, for a report."""
    match value:
        case Scalar():
            yield f"{value.value!r}"
        case String():
            yield f"{value.value!r}"
        case Vector():
            for labels, point in zip(value.labels, _points(value.values, value.histograms), strict=True):
                yield f"{show(labels)} {_show(point)}"
        case SeriesBlock():
            for labels, samples in rows(value):
                shown = " ".join(f"{_show(point)}@{time / 1000:g}s" for time, point in samples[:_SHOWN_POINTS])
                yield f"{show(labels)} {shown}" + _more(len(samples))


def describe_expected(expected: Expected) -> Iterator[str]:
    """What was expected in lines, for a report."""
    match expected:
        case ExpectedScalar():
            yield f"{expected.value!r}"
        case ExpectedString():
            yield f"{expected.value!r}"
        case ExpectedFailure():
            yield f"an error: {expected.wording}"
        case ExpectedSeries():
            for labels, points in expected.series:
                yield f"{show(labels)} {' '.join(map(_show, points[:_SHOWN_POINTS]))}" + _more(len(points))


def _compare_vector(expected: ExpectedSeries, vector: Vector) -> str | None:
    wanted = dict(expected.series)
    places = {labels: place for place, (labels, _) in enumerate(expected.series)}
    actual = _points(vector.values, vector.histograms)
    for place, (labels, point) in enumerate(zip(vector.labels, actual, strict=True)):
        if labels not in wanted:
            return f"{show(labels)} was not expected, it has {_show(point)}"
        if expected.ordered and places[labels] != place:
            return f"{show(labels)} is at place {place + 1}, expected was place {places[labels] + 1}"
        if not _same(wanted[labels][0], point):
            return f"{show(labels)} has {_show(point)}, expected was {_show(wanted[labels][0])}"
    return _compare_presence(expected, vector.labels)


def _compare_block(expected: ExpectedSeries, block: SeriesBlock, steps: Steps) -> str | None:
    wanted = dict(expected.series)
    for labels, samples in rows(block):
        if labels not in wanted:
            return f"{show(labels)} was not expected, it has {len(samples)} samples"
        points = wanted[labels]
        # Of steps that stand still there is one.
        if len(points) > 1 and (not steps.step_ms or steps.start_ms + (len(points) - 1) * steps.step_ms > steps.end_ms):
            return f"{show(labels)} is expected to have {len(points)} values, and there are not as many steps"
        if complaint := _compare_samples(points, samples, steps):
            return f"{show(labels)} {complaint}"
    return _compare_presence(expected, block.axis.shown)


def _compare_samples(points: Sequence[Point], samples: Samples, steps: Steps) -> str | None:
    wanted = {
        steps.start_ms + place * steps.step_ms: point for place, point in enumerate(points) if point is not Mark.OMITTED
    }
    for time, point in samples:
        if time not in wanted:
            return f"has {_show(point)} at {time / 1000:g}s, expected was nothing"
        if not _same(wanted[time], point):
            return f"has {_show(point)} at {time / 1000:g}s, expected was {_show(wanted[time])}"
    missing = sorted(wanted.keys() - {time for time, _ in samples})
    return f"has nothing at {missing[0] / 1000:g}s, expected was {_show(wanted[missing[0]])}" if missing else None


def _compare_presence(expected: ExpectedSeries, labels: Sequence[Labels]) -> str | None:
    there = set(labels)
    if len(there) < len(labels):
        return "some series is there twice"
    missing = [wanted for wanted, _ in expected.series if wanted not in there]
    return f"{show(missing[0])} is missing" if missing else None


def _same(expected: Point, actual: object) -> bool:
    if isinstance(expected, float) and isinstance(actual, float):
        return almost_equal(expected, actual)
    if isinstance(expected, HistogramText) and isinstance(actual, NativeHistogram):
        return _same_histogram(expected, actual)
    if isinstance(expected, HistogramText) and isinstance(actual, ShownHistogram):
        return _same_shown(ShownHistogram.of(expected.histogram), actual)
    return expected == actual


def _same_histogram(expected: HistogramText, actual: NativeHistogram) -> bool:
    """Empty buckets do not matter; the counter reset hint does if the script names one."""
    wanted, came = expected.histogram.compact(), actual.compact()
    if expected.has_hint and wanted.hint is not came.hint:
        return False
    sides = ((wanted.positive, came.positive), (wanted.negative, came.negative))
    return (
        Layout.of(wanted) == Layout.of(came)
        and all([index for index, _ in one] == [index for index, _ in other] for one, other in sides)
        and all(almost_equal(one, other) for one, other in zip(_numbers(wanted), _numbers(came), strict=True))
    )


def _same_shown(wanted: ShownHistogram, came: ShownHistogram) -> bool:
    return (
        almost_equal(wanted.count, came.count)
        and almost_equal(wanted.total, came.total)
        and [bucket.rule for bucket in wanted.buckets] == [bucket.rule for bucket in came.buckets]
        and all(
            almost_equal(one.lower, other.lower)
            and almost_equal(one.upper, other.upper)
            and almost_equal(one.count, other.count)
            for one, other in zip(wanted.buckets, came.buckets, strict=True)
        )
    )


def _numbers(histogram: NativeHistogram) -> Iterator[float]:
    yield from (histogram.count, histogram.total, histogram.zero_count)
    for side in (histogram.positive, histogram.negative):
        yield from (count for _, count in side)


def _points(values: F64, histograms: Objects | None) -> list[object]:
    """What is there, sample by sample."""
    out: list[object] = list(values.tolist())
    for place in is_stale(values).nonzero()[0].tolist():
        out[place] = Mark.STALE
    if histograms is not None:
        for place, histogram in enumerate(histograms.tolist()):
            if histogram is not None:
                out[place] = histogram
    return out


def _show(point: object) -> str:
    match point:
        case float():
            return f"{point:.10g}"
        case Mark():
            return point.value
        case NativeHistogram():
            return show_histogram(point)
        case _:
            return str(point)


def _more(count: int) -> str:
    return f" and {count - _SHOWN_POINTS} more" if count > _SHOWN_POINTS else ""


def _kind(expected: Expected) -> str:
    match expected:
        case ExpectedScalar():
            return "a scalar"
        case ExpectedString():
            return "a string"
        case ExpectedSeries():
            return "series"
        case ExpectedFailure():
            return "an error"
