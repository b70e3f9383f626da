"""Histograms for properties: small whole counts, so that sums are exact."""

import math

from hypothesis import strategies as st

from quarterdeck.metrics.promql.histograms.bounds import CUSTOM
from quarterdeck.metrics.promql.histograms.buckets import Buckets
from quarterdeck.metrics.promql.histograms.hints import ResetHint
from quarterdeck.metrics.promql.histograms.native import NativeHistogram

COUNTS = st.integers(0, 1000).map(float)
THRESHOLDS = st.sampled_from((0.0, 0.001, 0.5, 0.6, 3.0))
BOUNDS = st.lists(st.integers(-5, 20).map(float), unique=True, max_size=6).map(lambda found: tuple(sorted(found)))


def buckets(low: int, high: int) -> st.SearchStrategy[Buckets]:
    """Buckets with numbers from `low` to `high`."""
    return st.dictionaries(st.integers(low, high), COUNTS, max_size=6).map(lambda found: tuple(sorted(found.items())))


@st.composite
def exponential(draw: st.DrawFn, low: int = -4, high: int = 8) -> NativeHistogram:
    """A histogram with a schema from `low` to `high`, whose count is that of its buckets."""
    schema = draw(st.integers(low, high))
    threshold = draw(THRESHOLDS)
    zero = draw(COUNTS)
    # Nothing lies within the zero bucket: that is what a histogram of observations looks like.
    first, last = (2 * 2**schema + 1, 1000 * 2**schema) if schema >= 0 else (3, 1000 >> -schema)
    positive, negative = (draw(buckets(first, last)) for _ in range(2))
    count = zero + sum(count for side in (positive, negative) for _, count in side)
    return NativeHistogram(
        schema, threshold, zero, count, draw(COUNTS), positive, negative, hint=draw(st.sampled_from(ResetHint))
    )


@st.composite
def custom(draw: st.DrawFn) -> NativeHistogram:
    """A histogram with custom bounds whose count is that of its buckets."""
    bounds = draw(BOUNDS)
    positive = draw(buckets(0, len(bounds)))
    count = sum(count for _, count in positive)
    return NativeHistogram(
        CUSTOM,
        count=count,
        total=draw(COUNTS),
        positive=positive,
        custom_bounds=bounds,
        hint=draw(st.sampled_from(ResetHint)),
    )


def in_buckets(histogram: NativeHistogram) -> float:
    """How many observations are in any bucket."""
    return histogram.zero_count + sum(count for side in (histogram.positive, histogram.negative) for _, count in side)


ANY_COUNTS = st.one_of(
    st.sampled_from((0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1.7e308, 5e-324)), st.floats()
)
ANY_VALUES = st.one_of(st.sampled_from((0.0, -0.0, 1.0, -1.0, 2.0, math.inf, -math.inf, math.nan)), st.floats())


@st.composite
def anything(draw: st.DrawFn) -> NativeHistogram:
    """What no observations could have made: counts of all kinds that need not add up, and buckets anywhere."""
    counts = st.dictionaries(st.integers(-20_000, 20_000), ANY_COUNTS, max_size=4)
    bounds = tuple(sorted(draw(st.lists(st.floats(allow_nan=False, allow_infinity=False), unique=True, max_size=4))))
    schema = draw(st.one_of(st.just(CUSTOM), st.integers(-4, 8)))
    hint, count, total = draw(st.sampled_from(ResetHint)), draw(ANY_COUNTS), draw(ANY_COUNTS)
    if schema == CUSTOM:
        found = draw(st.dictionaries(st.integers(0, len(bounds)), ANY_COUNTS, max_size=4))
        return NativeHistogram(
            schema, count=count, total=total, positive=tuple(sorted(found.items())), custom_bounds=bounds, hint=hint
        )
    threshold = draw(st.one_of(THRESHOLDS, st.floats(0, allow_nan=False, allow_infinity=False)))
    positive, negative = (tuple(sorted(draw(counts).items())) for _ in range(2))
    return NativeHistogram(schema, threshold, draw(ANY_COUNTS), count, total, positive, negative, hint=hint)
