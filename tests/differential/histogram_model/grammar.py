"""Random queries over the random series: every function and operator that has to do with histograms, one in another.

What may change with the last digit of a float (comparisons, `changes`, values as labels) is asked of exact values
only: samples, their sums and multiples.
"""

import math

from hypothesis import strategies as st

from tests.differential.histogram_model.data import METRICS, WITH_FLOATS
from tests.differential.histogram_model.expressions import (
    OF_FLOATS,
    OF_HISTOGRAMS,
    Aggregated,
    Binary,
    Mapped,
    Negated,
    OverTime,
    RangeOf,
    Select,
    Shares,
    Subquery,
    Vector,
    WithNumber,
)
from tests.differential.histogram_model.extended import ANCHORED, RATES
from tests.differential.histogram_model.groups import PLAIN
from tests.differential.histogram_model.operators import ARITHMETIC, COMPARISONS, SETS, TRIMS, Matching
from tests.differential.histogram_model.samples import NAME, Wanted
from tests.differential.histogram_model.windows import FUNCTIONS

NUMBERS = (0.0, 1.0, 2.0, -2.0, 0.5, -1.0, 3.0, 4.0, math.inf, -math.inf, math.nan)
SCALES = (2.0, -1.0, 0.5, 4.0)
QUANTILES = (0.0, 0.25, 0.5, 0.9, 1.0, -0.5, 1.5, math.nan)
EDGES = (-math.inf, -4.0, -2.0, -0.75, 0.0, 0.1, 0.75, 1.0, 2.0, 3.0, 5.0, 100.0, math.inf, math.nan)
RANGES_MS = (60_000, 90_000, 180_000, 300_000)
GROUPINGS = ((), ("g",), ("i",), ("g", "i"))
MATCHINGS = (
    *[Matching()] * 4,
    Matching(on=True, names=("i",)),
    Matching(on=True, names=("g", "i")),
    Matching(names=("g",)),
    Matching(on=True, names=("g",), many="left"),
    Matching(on=True, names=("i",), many="right"),
)
OF_EXACT = frozenset({"changes", "resets", "ts_of_min_over_time", "ts_of_max_over_time"})
EXACT_WINDOWS = ("sum_over_time", "last_over_time", "first_over_time", "count_over_time", "present_over_time")

metrics = st.sampled_from(METRICS).map(lambda name: (Wanted(NAME, name),))
selects = st.builds(
    Select,
    metrics,
    st.sampled_from((0, 0, 0, 30_000, 120_000, -30_000)),
    st.sampled_from((None, None, None, None, 400_000)),
)
ranges = st.builds(RangeOf, selects, st.sampled_from(RANGES_MS))
exact_overs = st.builds(OverTime, st.sampled_from(EXACT_WINDOWS), ranges)


@st.composite
def exact_vectors(draw: st.DrawFn, depth: int = 2) -> Vector:
    """Values without rounding."""
    kind = draw(st.integers(0, 9)) if depth else 0
    match kind:
        case 0 | 1 | 2:
            return draw(selects)
        case 3:
            return draw(exact_overs)
        case 4:
            op = draw(st.sampled_from(("sum", "count", "group", "min", "max")))
            return Aggregated(op, draw(exact_vectors(depth - 1)), draw(st.sampled_from(GROUPINGS)), draw(st.booleans()))
        case 5:
            return WithNumber("*", draw(exact_vectors(depth - 1)), draw(st.sampled_from(SCALES)), draw(st.booleans()))
        case 6:
            return Negated(draw(exact_vectors(depth - 1)))
        case 7:
            function = draw(st.sampled_from(("histogram_count", "histogram_sum", "timestamp")))
            return Mapped(function, draw(exact_vectors(depth - 1)))
        case _:
            op = draw(st.sampled_from(("+", "-", *SETS)))
            return draw(_binaries(op, exact_vectors(depth - 1)))


@st.composite
def _binaries(draw: st.DrawFn, op: str, side: st.SearchStrategy[Vector], is_bool: bool = False) -> Binary:
    matching = draw(st.sampled_from(MATCHINGS))
    if op in SETS and matching.many:
        matching = Matching()
    if op == "or" and matching.on:
        # Series that differ in nothing but the name must not come together: the names may go.
        matching = Matching()
    return Binary(op, draw(side), draw(side), matching, is_bool)


@st.composite
def _compared(draw: st.DrawFn, depth: int) -> Vector:
    op = draw(st.sampled_from(COMPARISONS))
    is_bool = draw(st.booleans())
    if draw(st.booleans()):
        return draw(_binaries(op, exact_vectors(depth), is_bool))
    return WithNumber(op, draw(exact_vectors(depth)), draw(st.sampled_from(NUMBERS)), draw(st.booleans()), is_bool)


@st.composite
def _over_time(draw: st.DrawFn, depth: int) -> OverTime:
    function = draw(st.sampled_from(sorted({*FUNCTIONS, "absent_over_time"})))
    window: RangeOf | Subquery = draw(ranges)
    if draw(st.integers(0, 3)) == 0:
        inner = exact_vectors(depth - 1) if function in OF_EXACT else vectors(depth - 1)
        steps = st.sampled_from((20_000, 30_000, 60_000))
        window = Subquery(
            draw(inner), draw(st.sampled_from(RANGES_MS)), draw(steps), draw(st.sampled_from((0, 45_000)))
        )
    if function in ANCHORED and draw(st.integers(0, 3)) == 0:
        extension = draw(st.sampled_from(("anchored", "smoothed") if function in RATES else ("anchored",)))
        window = RangeOf(Select(draw(metrics)), draw(st.sampled_from(RANGES_MS)), extension)
    match function:
        case "quantile_over_time":
            return OverTime(function, window, before=(draw(st.sampled_from(QUANTILES)),))
        case "predict_linear":
            return OverTime(function, window, after=(60.0,))
        case "double_exponential_smoothing":
            return OverTime(function, window, after=(0.5, 0.25))
        case _:
            return OverTime(function, window)


@st.composite
def _aggregated(draw: st.DrawFn, depth: int) -> Aggregated:
    op = draw(st.sampled_from((*PLAIN, "sum", "avg", "quantile", "limitk", "topk", "bottomk", "count_values")))
    names, without = draw(st.sampled_from(GROUPINGS)), draw(st.booleans())
    match op:
        case "quantile":
            return Aggregated(op, draw(vectors(depth - 1)), names, without, draw(st.sampled_from(QUANTILES)))
        case "count_values":
            return Aggregated(op, draw(exact_vectors(depth - 1)), names, without, "v")
        case "topk" | "bottomk":
            # Of values that are never the same: which of two is chosen is anybody's guess.
            metric = draw(st.sampled_from(sorted(WITH_FLOATS)))
            return Aggregated(
                op, Select((Wanted(NAME, metric),)), names, without, draw(st.sampled_from((0.0, 1.0, 2.0)))
            )
        case "limitk":
            return Aggregated(op, draw(selects), names, without, draw(st.sampled_from((0.0, 1.0, 2.0))))
        case _:
            return Aggregated(op, draw(vectors(depth - 1)), names, without)


@st.composite
def _shares(draw: st.DrawFn, depth: int) -> Shares:
    function = draw(st.sampled_from(("histogram_quantile", "histogram_quantiles", "histogram_fraction")))
    edges = st.sampled_from(EDGES)
    match function:
        case "histogram_quantile":
            arguments = (draw(st.sampled_from(QUANTILES)),)
        case "histogram_quantiles":
            arguments = tuple(draw(st.lists(st.sampled_from(QUANTILES[:-1]), min_size=1, max_size=3, unique=True)))
        case _:
            arguments = (draw(edges), draw(edges))
    return Shares(function, draw(vectors(depth - 1)), arguments)


@st.composite
def vectors(draw: st.DrawFn, depth: int = 3) -> Vector:
    """Any values."""
    if depth <= 0:
        return draw(selects)
    inner = vectors(depth - 1)
    match draw(st.integers(0, 13)):
        case 0:
            return draw(selects)
        case 1 | 2 | 3:
            return draw(_over_time(depth))
        case 4 | 5:
            return draw(_aggregated(depth))
        case 6 | 7:
            return Mapped(draw(st.sampled_from(sorted(OF_HISTOGRAMS))), draw(inner))
        case 8:
            return draw(_shares(depth))
        case 9:
            return draw(_compared(depth - 1))
        case 10:
            return draw(_binaries(draw(st.sampled_from((*ARITHMETIC, *TRIMS, "+", "-", *SETS))), inner))
        case 11:
            op = draw(st.sampled_from((*ARITHMETIC, *TRIMS, *TRIMS)))
            return WithNumber(op, draw(inner), draw(st.sampled_from(NUMBERS)), draw(st.integers(0, 4)) == 0)
        case 12:
            return Negated(draw(inner))
        case _:
            return draw(_mapped(inner))


@st.composite
def _mapped(draw: st.DrawFn, inner: st.SearchStrategy[Vector]) -> Mapped:
    function = draw(st.sampled_from((*OF_FLOATS, "clamp", "clamp_min", "clamp_max", "timestamp", "absent")))
    match function:
        case "clamp":
            return Mapped(function, draw(inner), (1.0, 10.0))
        case "clamp_min" | "clamp_max":
            return Mapped(function, draw(inner), (5.0,))
        case "ceil" | "floor" | "sgn" | "round":
            return Mapped(function, draw(exact_vectors(1)))
        case "absent":
            return Mapped(function, WithNumber("*", draw(inner), 1.0))
        case _:
            return Mapped(function, draw(inner))
