"""PromQL over samples in memory: how long a query takes, how many samples a second and core that is, and the same
query asked of a real Prometheus on this machine in the same run.

The samples are 6 h of counters, gauges and classic histograms, one in 15 s; queries are ranges of 5 h with a step of
60 s, and instants. Ours is measured from the text of the query to the arrays of the answer; Prometheus from the
request to the last byte of its JSON, over loopback. So where the answer is large (marked with *), part of Prometheus'
time is writing it down: those ratios say less.

    python bench/promql.py [--series 1000 5000] [--only rate] [--no-peer] [--profile 'rate(a[5m])']
"""

import argparse
import cProfile
import http.client
import pstats
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from checks import peers
from quarterdeck.metrics.promql.blocks import SeriesBlock
from quarterdeck.metrics.promql.engine import Engine, EngineOptions
from quarterdeck.metrics.promql.kernels.warm import warm
from quarterdeck.metrics.promql.labels import from_mapping
from quarterdeck.metrics.promql.limits import Limits
from quarterdeck.metrics.promql.memory import MemorySource, Series
from quarterdeck.metrics.promql.source import unlimited
from quarterdeck.metrics.promql.syntax.ast import Matcher
from tests.differential.peer import PrometheusClient, running_prometheus

BASE_MS = 1_700_000_040_000  # on a minute
INTERVAL_MS = 15_000
SAMPLES = 6 * 240
START_MS, END_MS, STEP_MS = BASE_MS + 3_600_000, BASE_MS + 6 * 3_600_000 - 60_000, 60_000
BOUNDS = ("0.005", "0.01", "0.05", "0.1", "0.5", "1", "5", "10", "50", "+Inf")


@dataclass(frozen=True, slots=True)
class Ask:
    """A query to measure; `large` when the answer has a row for each series."""

    text: str
    large: bool = False
    instant: bool = False
    step_ms: int = 60_000

    @property
    def name(self) -> str:
        """How it stands in the table."""
        steps = "" if self.step_ms == STEP_MS else f" (step {self.step_ms / 1000:g} s)"
        return self.text + (" (instant)" if self.instant else "") + steps + (" *" if self.large else "")


ASKS = (
    # What the project is measured by.
    Ask("sum by (job) (rate(a[5m]))"),
    Ask("rate(a[5m])", large=True),
    Ask("sum by (job) (increase(a[1h]))"),
    Ask("topk(5, rate(a[5m]))"),
    Ask("avg by (job) (quantile_over_time(0.9, a[30m]))"),
    Ask("sum(a)"),
    # Those of other engines.
    Ask("a", large=True),
    Ask("a", large=True, instant=True),
    Ask("rate(a[1m])", large=True),
    Ask("sum(rate(a{l='7'}[1m]))", step_ms=1_800),  # one series, 10,000 steps
    Ask("sum(rate(a{l=~'1?.'}[1m]))", step_ms=18_000),  # some twenty series, 1,000 steps
    Ask("count(rate(sparse[1m]))"),
    Ask("sum(double_exponential_smoothing(a[10m], 0.3, 0.3))"),
    Ask("sum(changes(a[1h]))"),
    Ask("sum(rate(a[1h]))"),
    Ask("absent_over_time(a[1h])"),
    Ask("sum(-a)"),
    Ask("sum(a - b)"),
    Ask("count(a and b{l=~'.*[0-4]$'})"),
    Ask("count(a or b{l=~'.*[0-4]$'})"),
    Ask("count(a unless b{l=~'.*[0-4]$'})"),
    Ask("sum(abs(a))"),
    Ask("count(label_replace(a, 'l2', '$1', 'l', '(.*)'))"),
    Ask("count(label_join(a, 'l2', '-', 'l', 'l'))"),
    Ask("sum without (l) (h)"),
    Ask("sum by (le) (h)"),
    Ask("count(count_values('value', h))"),
    Ask("topk(1, a)"),
    Ask("topk(5, a)"),
    Ask("sum(rate(a[1m]) + rate(b[1m]))"),
    Ask("sum without (l) (rate(a[1m])) / sum without (l) (rate(b[1m]))"),
    Ask("sum(histogram_quantile(0.9, rate(h[5m])))"),
    Ask("sum(a * on(job) group_left count by (job) (b))"),
    Ask("sum(max by (instance) (a) / on(instance) max by (instance) (b))", step_ms=3_600),  # 5,000 steps
    Ask('count({__name__!=""})'),
    Ask("sum(timestamp(a))"),
    Ask("sum(sum_over_time(rate(a[1m])[10m:1m]))"),
    Ask("sum(quantile by (job) (scalar(min(a)), a))"),
    Ask("sum(a * 10)"),
    Ask("count(a > 10)"),
    Ask("sum(a offset 5m)"),
    Ask("sum(a @ 1700010000)"),
    Ask("sum(clamp(rate(a[5m]), 5, 10))"),
    Ask("sort(sum by (l) (a))", large=True, instant=True),
    Ask("absent(a)"),
    *(
        Ask(f"sum({function}_over_time(a[{window}]))")
        for window in ("5m", "1h", "6h")
        for function in ("count", "sum", "avg", "min", "max", "stddev")
    ),
    Ask("sum(deriv(a[10m]))"),
    Ask("sum(predict_linear(a[1h], 600))"),
    Ask("sum(resets(a[1h]))"),
    Ask("sum(irate(a[5m]))"),
)


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured of one query."""

    ask: Ask
    our_s: float
    cpu_s: float
    samples: int
    peer_s: float | None

    @property
    def per_core(self) -> float:
        """Samples in a second of one core."""
        return self.samples / self.cpu_s


def make_series(count: int, seed: int = 1) -> list[Series]:
    """Counters `a`, gauges `b` and buckets `h`, as many of each, and some sparse counters."""
    rng = np.random.default_rng(seed)
    made: list[Series] = []
    times = BASE_MS + np.arange(SAMPLES, dtype=np.int64) * INTERVAL_MS

    def add(labels: dict[str, str], phase_ms: int, values: np.ndarray, every: int = 1) -> None:
        made.append(Series(from_mapping(labels), (times + phase_ms)[::every], values[::every].astype(np.float64)))

    for i in range(count):
        known = {"l": str(i), "job": f"job-{i % 10}", "instance": f"host-{i % 50}:9100"}
        phase = int(rng.integers(0, INTERVAL_MS - 1)) | 1
        add({"__name__": "a", **known}, phase, np.cumsum(rng.integers(0, 20, SAMPLES)))
        add({"__name__": "b", **known}, phase, rng.normal(100, 30, SAMPLES))
        if i % 10 == 0:
            add({"__name__": "sparse", **known}, phase, np.cumsum(rng.integers(0, 20, SAMPLES)), every=20)
            observed = np.cumsum(rng.integers(0, 5, (len(BOUNDS), SAMPLES)), axis=0).cumsum(axis=1)
            for bound, counts in zip(BOUNDS, observed, strict=True):
                add({"__name__": "h", "le": bound, **known}, phase, counts)
    return made


class Counting:
    """A source that says how many samples were read."""

    def __init__(self, inner: MemorySource) -> None:
        self.inner = inner
        self.samples = 0

    def select(
        self,
        matchers: Sequence[Matcher],
        start_ms: int,
        end_ms: int,
        need: Callable[[int], None] = unlimited,
    ) -> SeriesBlock:
        block = self.inner.select(matchers, start_ms, end_ms, need)
        self.samples += len(block.values)
        return block


def measure_ours(engine: Engine, source: Counting, ask: Ask, seconds: float) -> tuple[float, float, int]:
    """The median time, the processor's time of one run, and the samples read."""

    def once() -> None:
        if ask.instant:
            engine.instant([source], ask.text, END_MS)
        else:
            engine.range([source], ask.text, START_MS, END_MS, ask.step_ms)

    once()
    walls: list[float] = []
    cpus: list[float] = []
    begun = time.perf_counter()
    while len(walls) < 3 or (time.perf_counter() - begun < seconds and len(walls) < 15):
        source.samples = 0
        wall, cpu = time.perf_counter(), time.process_time()
        once()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return statistics.median(walls), statistics.median(cpus), source.samples


def measure_peer(port: int, ask: Ask, seconds: float) -> float:
    """The median time of Prometheus' answers, to their last byte."""
    text = ask.text.replace("double_exponential_smoothing", "holt_winters")
    if ask.instant:
        path = "/api/v1/query?" + urlencode({"query": text, "time": END_MS / 1000})
    else:
        times = {"start": START_MS / 1000, "end": END_MS / 1000, "step": ask.step_ms / 1000}
        path = "/api/v1/query_range?" + urlencode({"query": text, **times})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    walls: list[float] = []
    begun = time.perf_counter()
    while len(walls) < 2 or (time.perf_counter() - begun < seconds and len(walls) < 7):
        wall = time.perf_counter()
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise RuntimeError(f"Prometheus answered {response.status} to {text}: {body[:300]!r}")
        walls.append(time.perf_counter() - wall)
    connection.close()
    return statistics.median(walls)


def report(series: int, figures: list[Figure]) -> None:
    """The table, and a line about the whole."""
    print(f"\n{series:,} series of each kind, 6 h at 15 s; 5 h at step 60 s; times are medians\n")
    print(f"{'query':62} {'ms':>8} {'M samples/s/core':>17} {'Prometheus ms':>14} {'times':>7}")
    for figure in figures:
        peer = f"{figure.peer_s * 1000:14.1f} {figure.peer_s / figure.our_s:7.1f}" if figure.peer_s is not None else ""
        print(f"{figure.ask.name:62} {figure.our_s * 1000:8.1f} {figure.per_core / 1e6:17.1f} {peer}")
    ratios = [figure.peer_s / figure.our_s for figure in figures if figure.peer_s is not None and not figure.ask.large]
    if ratios:
        middle = statistics.median(ratios)
        print(f"\nfaster than Prometheus by (not counting *): least {min(ratios):.1f}, median {middle:.1f}")
    slowest = sorted(figures, key=lambda figure: -figure.our_s)[:5]
    print("slowest five:", "; ".join(f"{figure.ask.name} {figure.our_s * 1000:.0f} ms" for figure in slowest))


def run(series: int, asks: tuple[Ask, ...], with_peer: bool, seconds: float) -> None:
    """Measure all queries over so many series."""
    samples = make_series(series)
    source = Counting(MemorySource.of(samples))
    program = peers.find(peers.PROMETHEUS) if with_peer else None
    if with_peer and program is None:
        print("no Prometheus here: `make peers` fetches one; measuring ours alone")
    options = EngineOptions(limits=Limits(memory_bytes=8 << 30))

    def all_figures(peer: Callable[[Ask], float | None]) -> list[Figure]:
        figures: list[Figure] = []
        with Engine(options) as engine:
            for ask in asks:
                their = peer(ask)
                figures.append(Figure(ask, *measure_ours(engine, source, ask, seconds), their))
                print(".", end="", flush=True, file=sys.stderr)
        return figures

    if program is None:
        report(series, all_figures(lambda _: None))
        return
    with running_prometheus(program) as port:
        begun = time.perf_counter()
        with closing(PrometheusClient(port)) as client:
            client.write(samples)
        written = sum(len(one.values) for one in samples)
        print(f"{written:,} samples written to Prometheus in {time.perf_counter() - begun:.0f} s", file=sys.stderr)
        report(series, all_figures(lambda ask: measure_peer(port, ask, seconds)))


def profile(series: int, text: str) -> None:
    """Where the time of one query goes."""
    source = MemorySource.of(make_series(series))
    with Engine(threads=1) as engine:
        engine.range([source], text, START_MS, END_MS, STEP_MS)
        profiler = cProfile.Profile()
        profiler.enable()
        engine.range([source], text, START_MS, END_MS, STEP_MS)
        profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(15)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--only", default="", help="only queries with this in their text")
    parser.add_argument("--no-peer", action="store_true", help="do not start a Prometheus")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long to repeat each query")
    parser.add_argument("--profile", metavar="QUERY", help="show where the time of this query goes, and nothing else")
    options = parser.parse_args()
    warm()
    if options.profile:
        profile(options.series[-1], options.profile)
        return
    asks = tuple(ask for ask in ASKS if options.only in ask.text)
    for series in options.series:
        run(series, asks, not options.no_peer, options.seconds)


if __name__ == "__main__":
    main()
