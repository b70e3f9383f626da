"""The samples of a comparison, made from a seed: counters, gauges, histograms, gaps, ends, odd values.

Rules that keep known differences between the versions out (see `known.py`):
- Samples lie at milliseconds that end in 7 and queries at whole seconds, so that none is on a window's edge.
- Within a series without gaps, samples are 15 s ± 0.3 s apart: less than the tenth by which extrapolation tells a
  regular gap from the start of a series.
- A counter that starts anew after a gap starts at 0 or at many times its usual increase.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Final

import numpy as np

from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql.blocks import F64, I64, STALE_BITS
from quarterdeck.metrics.promql.memory import Series

BASE_MS: Final = 1_700_000_000_000 - 1_700_000_000_000 % 3_600_000
SPAN_MS: Final = 180 * 60_000
INTERVAL_MS: Final = 15_000
_JITTER_MS: Final = 300

_INSTANCES: Final = ("a:80", "b:80", "c:81")
_BOUNDS: Final = ("0.005", "0.1", "0.5", "1", "2.5", "+Inf")
STALE: Final = float(np.array([STALE_BITS], np.uint64).view(np.float64)[0])


@dataclass(frozen=True, slots=True)
class Metric:
    """What the makers of queries know of a metric."""

    name: str
    labels: tuple[str, ...]
    counter: bool = False
    dense: bool = False
    """Every series has a sample every 15 s from the first to the last moment."""
    distinct: bool = False
    """No two series ever have the same value, and none is not-a-number."""
    finite: bool = True
    """No value is infinite, not-a-number or so large that its square is."""


METRICS: Final = (
    Metric("http_requests_total", ("job", "instance", "group", "env"), counter=True, dense=True, distinct=True),
    Metric("errors_total", ("job", "instance"), counter=True, distinct=True),
    Metric("temperature", ("job", "instance", "group"), dense=True, distinct=True),
    Metric("queue_depth", ("job", "instance"), dense=True),
    Metric("odd", ("job", "instance", "kind"), dense=True, finite=False),
    Metric("sparse", ("job", "instance"), distinct=True),
    Metric("latency_seconds_bucket", ("job", "instance", "le"), counter=True, dense=True),
    Metric("latency_seconds_sum", ("job", "instance"), counter=True, dense=True, distinct=True),
    Metric("latency_seconds_count", ("job", "instance"), counter=True, dense=True),
    Metric("limits", ("job",), dense=True),
    Metric("build_info", ("job", "instance", "version"), dense=True),
    Metric("extreme", ("job", "scale"), dense=True, distinct=True, finite=False),
    Metric("started_seconds", ("job", "instance"), dense=True, distinct=True),
)
LABEL_VALUES: Final = {
    "job": ("api", "db"),
    "instance": _INSTANCES,
    "group": ("canary", "production"),
    "env": ("test", "live"),
    "kind": ("nan", "inf", "minus", "mixed", "zero"),
    "le": _BOUNDS,
    "version": ("1.0", "1.1", "2.0"),
    "scale": ("tiny", "huge", "small", "large"),
}
_EXACT: Final = frozenset({"queue_depth", "limits", "build_info", "odd"})


def make(seed: int) -> tuple[Series, ...]:
    """The data set of a seed: the same for the same seed."""
    return tuple(_Maker(Random(f"dataset {seed}")).series())


def nudged(dataset: tuple[Series, ...], relative: float, seed: int) -> tuple[Series, ...]:
    """The same samples with each series times its own factor near 1.

    Series of small whole numbers stay as they are: that they equal each other is part of what is compared.
    """
    random = Random(f"nudge {seed}")
    return tuple(
        one
        if lb.get(one.labels, lb.METRIC_NAME) in _EXACT
        else replace(one, values=_scaled(one.values, 1.0 + random.uniform(-relative, relative)))
        for one in dataset
    )


def _scaled(values: F64, factor: float) -> F64:
    out = values.copy()
    return np.multiply(values, factor, out=out, where=np.isfinite(values))


class _Maker:
    def __init__(self, random: Random) -> None:
        self._random = random

    def series(self) -> Iterator[Series]:
        yield from self._requests()
        yield from self._errors()
        yield from self._gauges()
        yield from self._latencies()
        yield from self._constants()

    def _times(self, keep: tuple[tuple[float, float], ...] = ((0.0, 1.0),)) -> I64:
        """Scrape times with a phase of their own, within the given parts of the span."""
        random = self._random
        phase = random.randrange(INTERVAL_MS)
        times = [
            (BASE_MS + at + random.randint(-_JITTER_MS // 2, _JITTER_MS // 2)) // 10 * 10 + 7
            for at in range(phase, SPAN_MS, INTERVAL_MS)
            if any(low <= at / SPAN_MS < high for low, high in keep)
        ]
        return np.array(times, np.int64)

    def _made(self, name: str, labels: dict[str, str], times: I64, values: list[float]) -> Series:
        return Series(lb.from_mapping({lb.METRIC_NAME: name, **labels}), times, np.array(values, np.float64))

    def _counter(self, count: int, start: float, increase: float, resets: float, to_zero: bool) -> list[float]:
        """`resets` is how likely one is at a sample."""
        random = self._random
        value, values = start, list[float]()
        for _ in range(count):
            if random.random() < resets:
                value = 0.0 if to_zero and random.random() < 0.5 else value / 2
            elif random.random() < 0.85:
                value += random.uniform(0, increase)
            values.append(value)
        return values

    def _requests(self) -> Iterator[Series]:
        for job in ("api", "db"):
            for instance in _INSTANCES:
                for group in ("canary", "production"):
                    labels = {"job": job, "instance": instance, "group": group}
                    if self._random.random() < 0.6:
                        labels["env"] = self._random.choice(("test", "live"))
                    times = self._times()
                    start = self._random.uniform(1e4, 2e4)
                    values = self._counter(len(times), start, self._random.choice((3.5, 40.25)), 0.02, to_zero=True)
                    yield self._made("http_requests_total", labels, times, values)

    def _errors(self) -> Iterator[Series]:
        random = self._random
        lives = (
            ((0.0, 1.0),),
            ((0.55, 1.0),),
            ((0.0, 0.7),),
            ((0.0, 0.6), (0.63, 1.0)),
            ((0.1, 0.5), (0.57, 0.9)),
            ((0.0, 0.65), (0.8, 1.0)),
        )
        names = [(job, instance) for job in ("api", "db") for instance in _INSTANCES]
        for (job, instance), life in zip(names, lives, strict=True):
            times = self._times(life)
            values = self._counter(len(times), random.uniform(2e3, 3e3), 7.25, 0.01, to_zero=False)
            yield _with_markers(self._made("errors_total", {"job": job, "instance": instance}, times, values))

    def _gauges(self) -> Iterator[Series]:
        random = self._random
        for job, instance, group in (
            *((job, instance, "canary") for job in ("api", "db") for instance in _INSTANCES),
            ("api", "a:80", "production"),
            ("db", "b:80", "production"),
        ):
            labels = {"job": job, "instance": instance, "group": group}
            times = self._times()
            yield self._made("temperature", labels, times, [random.gauss(5, 30) for _ in times])
        for job in ("api", "db"):
            for instance in _INSTANCES:
                labels = {"job": job, "instance": instance}
                times = self._times()
                values = [float(random.randint(0, 9)) for _ in times]  # whole, and never averaging to almost 0
                yield self._made("queue_depth", labels, times, values)
                times = self._times(_islands(random))
                yield _with_markers(
                    self._made("sparse", labels, times, [random.gauss(0, 1e3) for _ in times]), random.random() < 0.5
                )
        for kind in LABEL_VALUES["kind"]:
            times = self._times()
            labels = {"job": random.choice(("api", "db")), "instance": random.choice(_INSTANCES), "kind": kind}
            yield self._made("odd", labels, times, [_odd(random, kind) for _ in times])

    def _latencies(self) -> Iterator[Series]:
        random = self._random
        for job in ("api", "db"):
            for instance in _INSTANCES[:2]:
                labels = {"job": job, "instance": instance}
                times = self._times()
                totals = [random.uniform(1e3, 2e3) * (place + 1) for place in range(len(_BOUNDS))]
                totals = [float(round(total)) for total in totals]
                rows: list[list[float]] = [[] for _ in _BOUNDS]
                sums, total = list[float](), 1e4
                for _ in times:
                    seen = random.choices(range(len(_BOUNDS)), weights=(1, 5, 9, 5, 2, 1), k=random.randint(0, 6))
                    for place in seen:
                        for above in range(place, len(_BOUNDS)):
                            totals[above] += 1.0
                        total += random.expovariate(1.0)
                    for row, value in zip(rows, totals, strict=True):
                        row.append(value)
                    sums.append(total)
                if (job, instance) == ("db", "b:80"):  # not monotonic: a bucket that lost some
                    rows[2] = [value - 2500.0 for value in rows[2]]
                for bound, row in zip(_BOUNDS, rows, strict=True):
                    yield self._made("latency_seconds_bucket", {**labels, "le": bound}, times, row)
                yield self._made("latency_seconds_sum", labels, times, sums)
                yield self._made("latency_seconds_count", labels, times, rows[-1])

    def _constants(self) -> Iterator[Series]:
        random = self._random
        for job, limit in (("api", 100.0), ("db", 12.5)):
            times = self._times()
            yield self._made("limits", {"job": job}, times, [limit for _ in times])
            for instance in _INSTANCES:
                labels = {"job": job, "instance": instance}
                times = self._times()
                version = {**labels, "version": random.choice(LABEL_VALUES["version"])}
                yield self._made("build_info", version, times, [1.0 for _ in times])
                started = float(random.randrange(BASE_MS // 1000 - 400 * 86_400, BASE_MS // 1000))
                yield self._made("started_seconds", labels, times, [started for _ in times])
        for scale, low, high in (("tiny", -300, -290), ("huge", 290, 300), ("small", -9, -6), ("large", 14, 16)):
            times = self._times()
            labels = {"job": random.choice(("api", "db")), "scale": scale}
            values = [math.pow(10, random.uniform(low, high)) for _ in times]
            yield self._made("extreme", labels, times, values)


def _islands(random: Random) -> tuple[tuple[float, float], ...]:
    """Stretches of one to six minutes with holes of two to twelve between them."""
    parts, at = list[tuple[float, float]](), random.uniform(0, 0.05)
    while at < 1.0:
        end = at + random.uniform(60_000, 360_000) / SPAN_MS
        parts.append((at, end))
        at = end + random.uniform(120_000, 720_000) / SPAN_MS
    return tuple(parts)


def _odd(random: Random, kind: str) -> float:
    plain = random.gauss(0, 10)
    if kind == "zero":
        return random.choice((0.0, 1.0))  # no -0.0, see known.py
    if random.random() < 0.6:
        return plain
    if kind == "mixed":
        return random.choice((math.nan, math.inf, -math.inf))
    return {"nan": math.nan, "inf": math.inf, "minus": -math.inf}[kind]


def _with_markers(series: Series, wanted: bool = True) -> Series:
    """The series with a staleness marker an interval after each of its stretches, as a scraper writes them."""
    if not wanted:
        return series
    times, values = series.timestamps, series.values
    last = np.flatnonzero(np.diff(times, append=times[-1] + SPAN_MS) > 3 * INTERVAL_MS)
    times = np.insert(times, last + 1, times[last] + INTERVAL_MS)
    return replace(series, timestamps=times, values=np.insert(values, last + 1, STALE))
