"""Random series for the model: every schema, custom buckets, floats among histograms, gaps, ends, odd sums and counts.

Numbers of observations are small multiples of a quarter, so that sums are exact in whichever order they are made.
Buckets end at powers of two or between; zero thresholds are such ends, or lie within a bucket.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

from tests.differential.histogram_model.arithmetic import plus
from tests.differential.histogram_model.histogram import (
    CUSTOM,
    GAUGE,
    NOT_RESET,
    RESET,
    UNKNOWN,
    Histogram,
    exponential_end,
)
from tests.differential.histogram_model.samples import NAME, Labels, Point, Times, Value, World

METRICS = ("counter", "gauge", "custom", "mixed", "blend", "floats_total")
"""Counters and gauges of exponential buckets; custom buckets; with floats among them; everything at once; floats."""
WITH_FLOATS = frozenset({"mixed", "blend", "floats_total"})
THRESHOLDS = (0.0, 0.0, 0.0, 0.25, 0.5, 1.0, 0.3, 2.0)
BOUNDS = (
    (1.0, 2.0, 4.0),
    (1.0, 2.0, 4.0),
    (1.0, 4.0, 8.0),
    (2.0, 3.0),
    (-2.0, 0.0, 2.0),
    (-4.0, -2.0),
    (-1.0, 5.0),
    (),
)
SPAN_MS = 900_000


def world(seed: int) -> World:
    """The same for the same seed."""
    random = Random(f"world {seed}")
    series = dict(_series(random, metric, i) for metric in METRICS for i in range(random.randint(1, 3)))
    start_ms = random.randint(300, 600) * 1000
    step_ms = random.choice((20_000, 45_000, 60_000))
    return World(series, Times(start_ms, start_ms + 4 * step_ms, step_ms))


def _series(random: Random, metric: str, place: int) -> tuple[Labels, tuple[Point, ...]]:
    labels = tuple(sorted({NAME: metric, "g": random.choice("ab"), "i": str(place)}.items()))
    points: list[Point] = []
    values = _values(random, metric, place)
    time_ms = random.randint(0, 60_000)
    usual_ms = random.choice((30_000, 60_000))
    while time_ms < SPAN_MS:
        if random.random() < 0.05:
            points.append(Point(time_ms, None))
            time_ms += random.choice((usual_ms, 300_000))
        else:
            points.append(Point(time_ms, next(values)))
        time_ms += usual_ms if random.random() < 0.8 else random.choice((1_000, 15_000, 90_000))
    return labels, tuple(points)


def _values(random: Random, metric: str, place: int) -> Iterator[Value]:
    """The samples of a series, one after the other."""
    make = _kind(random, metric)
    before: Histogram | None = None
    floated = float(random.randint(0, 20))
    while True:
        # A fraction of its own for each series, so that no two have the same value.
        floated = floated + random.randint(0, 5) if random.random() < 0.85 else float(random.randint(0, 3))
        if metric in WITH_FLOATS and (metric == "floats_total" or random.random() < 0.3):
            yield floated + place / 8
            continue
        if metric == "blend" and random.random() < 0.2:
            make, before = _kind(random, metric), None
        found = make()
        if before is not None and metric != "gauge" and random.random() < 0.8:
            grown = plus(replace(before, hint=UNKNOWN), replace(found, hint=UNKNOWN)).histogram
            found = replace(grown, hint=random.choice((UNKNOWN, UNKNOWN, NOT_RESET)))
        elif metric != "gauge":
            found = replace(found, hint=random.choice((UNKNOWN, UNKNOWN, UNKNOWN, NOT_RESET, RESET)))
        if random.random() < (0.6 if metric == "gauge" else 0.03):
            found = replace(found, hint=GAUGE)
        before = None if math.isnan(found.sum) else found
        yield found


def _kind(random: Random, metric: str) -> Callable[[], Histogram]:
    """What makes the histograms of a series: mostly of one layout."""
    if metric == "custom" or (metric == "blend" and random.random() < 0.5):
        usual = random.choice(BOUNDS)
        return lambda: custom(random, usual if random.random() < 0.85 else random.choice(BOUNDS))
    schema, threshold = random.randint(-4, 8), random.choice(THRESHOLDS)

    def make() -> Histogram:
        here = schema if random.random() < 0.9 else random.randint(-4, 8)
        return exponential(random, here, threshold if random.random() < 0.9 else random.choice(THRESHOLDS))

    return make


def exponential(random: Random, schema: int, threshold: float) -> Histogram:
    """Nothing lies wholly within the zero bucket."""
    low, high = (-3 * 2**schema, 5 * 2**schema) if schema >= 0 else (-2, 3)

    def side(likely: float) -> dict[int, float]:
        if random.random() > likely:
            return {}
        places = random.sample(range(low, high), random.randint(0, min(4, high - low)))
        return {i: _count(random) for i in places if exponential_end(i, schema) > threshold}

    zero = _count(random) if random.random() < 0.5 else 0.0
    return _filled(random, Histogram(schema, threshold, zero, 0.0, 0.0, side(0.8), side(0.4)))


def custom(random: Random, bounds: tuple[float, ...]) -> Histogram:
    """With given bounds."""
    places = [i for i in range(len(bounds) + 1) if random.random() < 0.6]
    return _filled(random, Histogram(CUSTOM, positive={i: _count(random) for i in places}, bounds=bounds))


def _count(random: Random) -> float:
    return random.choice((0.0, 1.0, 2.0, 3.0, 5.0, 0.25, 12.0))


def _filled(random: Random, histogram: Histogram) -> Histogram:
    """With a count and a sum; some have seen what is no number, some are infinite, some do not add up."""
    counted = histogram.zero_count + sum(histogram.positive.values()) + sum(histogram.negative.values())
    kind = random.random()
    if kind < 0.04:
        return replace(histogram, count=counted + random.choice((0.0, 1.0, 4.0)), sum=math.nan)
    if kind < 0.06:
        return replace(histogram, count=counted, sum=random.choice((math.inf, -math.inf)))
    if kind < 0.08:
        return replace(histogram, count=counted + 2.0, sum=1.0)
    return replace(histogram, count=counted, sum=random.randint(-40, 200) / 4)
