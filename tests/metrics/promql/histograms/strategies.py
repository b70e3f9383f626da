"""Histograms for properties: small whole counts, so that sums are exact."""

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
