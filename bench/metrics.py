"""Metrics end to end: `quarterdeck up` with two workers beside a real Prometheus and a real VictoriaMetrics, over the
same samples, asked over HTTP in the same run.

All three run, and one at a time is asked; the others are idle. A time is from the request to the last byte of the JSON.
Cold is the first answer after a start, with the files in the page cache: a heavy query has a start of its own, the
light ones are asked in turn after one start. Warm ones follow each other, each some seconds later in time and, where it
is about one series, about another one. VictoriaMetrics keeps no answers (-search.disableCache, nocache=1). Answers are
compared with those of the peers.

    python bench/metrics.py [--quick] [--series 5000] [--scale] [--no-peers] [--fresh]
"""

import argparse
import itertools
import signal
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench import metrics_asks as asks
from bench import metrics_data as data
from bench import metrics_servers as servers
from bench.metrics_asks import Ask
from bench.metrics_client import Crowd, ask_at_once, ask_in_turn, ask_once
from bench.metrics_servers import Memory, Server
from checks import peers

HEAVY_TARGET = 2.0
LIGHT_TARGET_MS = 15.0
SAME = 1e-9
SCALE_SERIES = 50_000
SCALE_TARGET = 1.2
"""Ten times the series may take so many times ten times the time."""
AT_ONCE = 50
OURS, PROMETHEUS, VICTORIA = "Quarterdeck", "Prometheus", "VictoriaMetrics"


@dataclass(frozen=True, slots=True)
class Effort:
    """How often what is asked."""

    heavy: int
    light: int
    crowd: int
    limit_s: float
    """No question is repeated for longer by one server."""
    cold: bool


THOROUGH = Effort(7, 200, 1000, 20.0, cold=True)
QUICK = Effort(3, 50, 200, 5.0, cold=False)


@dataclass(slots=True)
class Figures:
    """What one server took for one question, and what it answered first."""

    cold_s: float | None = None
    warm_s: list[float] = field(default_factory=list[float])
    answer: bytes = b""

    def quantile_ms(self, share: float) -> float:
        return _quantile_ms(self.warm_s, share)


@dataclass(slots=True)
class Results:
    """All that was measured with one number of series."""

    figures: dict[tuple[Ask, str], Figures] = field(default_factory=dict[tuple[Ask, str], Figures])
    crowds: dict[str, Crowd] = field(default_factory=dict[str, Crowd])
    memory: dict[str, tuple[Memory, Memory]] = field(default_factory=dict[str, tuple[Memory, Memory]])

    def of(self, ask: Ask, server: str) -> Figures:
        return self.figures.setdefault((ask, server), Figures())


# Measuring


def measure(count: int, crew: Sequence[Server], effort: Effort) -> Results:
    """Everything, with these servers."""
    results = Results()
    if effort.cold:
        _measure_cold(results, count, crew)
    with servers.running(crew):
        before = {server.name: server.memory() for server in crew}
        for ask, server in itertools.product((*asks.HEAVY, *asks.LIGHT), crew):
            _measure_warm(results.of(ask, server.name), ask, count, server, effort)
        for server in crew:
            paths = [ask.path(count, number) for number, ask in _numbered(itertools.cycle(asks.CROWD), effort.crowd)]
            results.crowds[server.name] = ask_at_once(server.port, paths, AT_ONCE)
            _tick()
        results.memory = {server.name: (before[server.name], server.memory()) for server in crew}
    print(file=sys.stderr)
    return results


def _measure_cold(results: Results, count: int, crew: Sequence[Server]) -> None:
    rounds = [*((ask,) for ask in asks.HEAVY), asks.LIGHT]
    for some in rounds:
        with servers.running(crew):
            for ask, server in itertools.product(some, crew):
                results.of(ask, server.name).cold_s = ask_once(server.port, ask.path(count, 0)).took_s
        _tick()


def _measure_warm(figures: Figures, ask: Ask, count: int, server: Server, effort: Effort) -> None:
    figures.answer = ask_once(server.port, ask.path(count, 0)).body
    most = effort.heavy if ask.heavy else effort.light
    figures.warm_s = ask_in_turn(server.port, lambda number: ask.path(count, number + 1), most, effort.limit_s)
    _tick()


def _numbered(some: Iterable[Ask], most: int) -> Iterable[tuple[int, Ask]]:
    return itertools.islice(enumerate(some), most)


def _tick() -> None:
    print(".", end="", flush=True, file=sys.stderr)


# Telling


def report(results: Results, names: Sequence[str]) -> None:
    """All tables."""
    peer_names = [name for name in names if name != OURS]
    for title, some in (("heavy: 5 h at step 60 s", asks.HEAVY), ("light", asks.LIGHT)):
        print(f"\n{title}; ms: cold, warm p50, warm p99 of each; then how many times ours (p50) it takes\n")
        print(
            f"{'query':48}"
            + "".join(f"{name:>27}" for name in names)
            + "".join(f"{name[:10]:>12}" for name in peer_names)
        )
        for ask in some:
            _report_ask(results, ask, names, peer_names)
    _report_answers(results, peer_names)
    _report_crowds(results, names)
    print(f"\n{'memory, MiB, all processes':28} {'at start':>10} {'at end':>10} {'peak':>10}")
    for name, (before, after) in results.memory.items():
        figures = (before.resident_bytes, after.resident_bytes, after.peak_bytes)
        print(f"{name:28} " + " ".join(f"{number / 2**20:10,.0f}" for number in figures))


def _report_ask(results: Results, ask: Ask, names: Sequence[str], peer_names: Sequence[str]) -> None:
    line = f"{ask.name:48}"
    for name in names:
        figures = results.of(ask, name)
        cold = "-" if figures.cold_s is None else _ms(figures.cold_s * 1000)
        line += f"{cold:>9}{_ms(figures.quantile_ms(0.5)):>9}{_ms(figures.quantile_ms(0.99)):>9}"
    ours_ms = results.of(ask, OURS).quantile_ms(0.5)
    ratios = {name: results.of(ask, name).quantile_ms(0.5) / ours_ms for name in peer_names}
    line += "".join(f"{ratio:12.2f}" for ratio in ratios.values())
    if not ask.heavy:
        line += _target(ours_ms < LIGHT_TARGET_MS, f"{LIGHT_TARGET_MS:g} ms")
    elif PROMETHEUS in ratios:
        line += _target(ratios[PROMETHEUS] >= HEAVY_TARGET, f"{HEAVY_TARGET:g} times Prometheus")
    print(line)


def _report_answers(results: Results, peer_names: Sequence[str]) -> None:
    for name in peer_names:
        compared = [
            (asks.difference(results.of(ask, OURS).answer, results.of(ask, name).answer), ask)
            for ask in (*asks.HEAVY, *asks.LIGHT)
            if name != VICTORIA or ask.victoria_agrees
        ]
        others = [f"{ask.name} ({apart:.1g})" for apart, ask in compared if apart > SAME]
        largest = max((apart for apart, _ in compared if apart <= SAME), default=0.0)
        told = f"{len(compared) - len(others)} of {len(compared)} answers are those of {name}"
        print(
            f"\n{told}, values within {largest:.1g} of each other" + (f"; not: {', '.join(others)}" if others else "")
        )


def _report_crowds(results: Results, names: Sequence[str]) -> None:
    print(f"\n{f'{AT_ONCE} at once, light queries':28} {'queries/s':>10} {'p50 ms':>10} {'p99 ms':>10} {'errors':>8}")
    for name in names:
        crowd = results.crowds[name]
        p50_ms, p99_ms = _quantile_ms(crowd.each_s, 0.5), _quantile_ms(crowd.each_s, 0.99)
        rate, errors = len(crowd.each_s) / crowd.took_s, crowd.errors.total()
        line = f"{name:28} {rate:10,.0f} {p50_ms:10.1f} {p99_ms:10.1f} {errors:8}"
        print(line + (_target(not crowd.errors, "no errors") if name == OURS else ""))
        for error, times in crowd.errors.most_common(3):
            print(f"    {times} times: {error}")


def report_scaling(small: Results, small_count: int, large: Results, large_count: int) -> None:
    """How the time of each heavy query grows with the number of series."""
    growth = large_count / small_count
    print(f"\n{'heavy, warm p50, ms':48}{small_count:>10,}{large_count:>10,}{'times':>8}")
    for ask in asks.HEAVY:
        small_ms, large_ms = small.of(ask, OURS).quantile_ms(0.5), large.of(ask, OURS).quantile_ms(0.5)
        times = large_ms / small_ms
        target = _target(times <= SCALE_TARGET * growth, f"about {growth:g} times")
        print(f"{ask.name:48}{small_ms:10.1f}{large_ms:10.1f}{times:8.1f}{target}")


def _target(reached: bool, text: str) -> str:
    return f"   {'reached' if reached else 'MISSED'}: {text}"


def _quantile_ms(each_s: Sequence[float], share: float) -> float:
    if not each_s:
        return float("nan")
    return (
        statistics.median(each_s) * 1000
        if share == 0.5
        else sorted(each_s)[int(share * (len(each_s) - 1) + 0.5)] * 1000
    )


def _ms(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"


# Running


def run(count: int, with_peers: bool, effort: Effort) -> Results:
    """Measures and tells about so many series."""
    ours, imported = servers.quarterdeck(count)
    samples, source_bytes = count * data.SAMPLES, data.parquet_file(count).stat().st_size
    print(f"\n{count:,} series, 6 h at 15 s: {samples:,} samples, {source_bytes / 2**20:.0f} MiB of Parquet")
    rate = f"{samples / imported.took_s / 1e6:.2f} million samples/s"
    print(f"imported in {imported.took_s:.1f} s with the start of the program, {rate}: {imported.told}")
    crew = [ours]
    if with_peers:
        crew += _peers(count)
    results = measure(count, crew, effort)
    report(results, [server.name for server in crew])
    return results


def _peers(count: int) -> list[Server]:
    found: list[Server] = []
    for peer, make in ((peers.PROMETHEUS, servers.prometheus), (peers.VICTORIA_METRICS, servers.victoria_metrics)):
        program = peers.find(peer)
        if program is None:
            print(f"no {peer.program} here: `make peers` fetches one; measuring without it")
            continue
        began_s = time.perf_counter()
        found.append(make(program, count))
        if (took_s := time.perf_counter() - began_s) > 1:
            print(
                f"{peer.program} filled in {took_s:.0f} s, from Python by remote write; that is kept", file=sys.stderr
            )
    return found


def _leave(number: int, frame: FrameType | None) -> None:
    """As if somebody had pressed Ctrl-C: the servers end too."""
    del number, frame
    raise KeyboardInterrupt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=5_000)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, and no cold starts")
    parser.add_argument("--scale", action="store_true", help=f"ours also with {SCALE_SERIES:,} series, and the factor")
    parser.add_argument("--no-peers", action="store_true", help="measure ours alone")
    parser.add_argument("--fresh", action="store_true", help="make the samples and the peers' stores anew")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _leave)
    if options.fresh:
        for count in (options.series, SCALE_SERIES):
            data.forget(count)
    effort = QUICK if options.quick else THOROUGH
    small = run(options.series, not options.no_peers, effort)
    if options.scale:
        large = run(SCALE_SERIES, False, QUICK)
        report_scaling(small, options.series, large, SCALE_SERIES)


if __name__ == "__main__":
    main()
