"""Compares our answers to random queries with a real Prometheus'.

Run `python -m tests.differential.fuzz --seed 7 --count 5000`. It prints every difference with both answers and the
smallest part of the query that shows it, and exits with 1 if there was any. The seed makes the samples and the queries.
"""

import argparse
import sys
import warnings
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from checks.peers import PROMETHEUS, PeerMissingError, fetch
from quarterdeck.core.tenants import DEFAULT_TENANT
from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql.memory import Series
from tests.differential import answers, dataset
from tests.differential.answers import Answer, Crash, Failure, Table
from tests.differential.cases import Candidate, Case, Peer, cases
from tests.differential.crew import CrewCandidate
from tests.differential.duel import Duel, missing_samples
from tests.differential.known import KNOWN, Finding
from tests.differential.peer import PrometheusClient, running_prometheus
from tests.e2e.metrics_crew import MetricsCrew

_SHOWN_SERIES = 6
_SHOWN_POINTS = 4
_DIFFERENCES_AT_MOST = 50


@contextmanager
def duel(program: Path, seed: int, shards: int, over_http: bool) -> Generator[Duel]:
    """A Prometheus that holds the samples of a seed, and our engine, or a crew, over the same."""
    series = dataset.make(seed)
    with running_prometheus(program) as port, closing(PrometheusClient(port)) as client:
        client.write(series)
        peer = Peer(client)
        missing = missing_samples(series, peer)
        if missing:
            raise RuntimeError("Prometheus does not hold what was written:\n" + "\n".join(missing))
        with _crew_candidate(series) if over_http else closing(Candidate(series, shards)) as candidate:
            yield Duel(candidate, peer)


@contextmanager
def _crew_candidate(series: tuple[Series, ...]) -> Generator[Candidate]:
    with TemporaryDirectory(prefix="quarterdeck-crew-") as name, MetricsCrew(Path(name)) as crew:
        crew.load(DEFAULT_TENANT, series)
        with closing(crew.client()) as client, closing(CrewCandidate(series, client)) as candidate:
            yield candidate


def report(finding: Finding) -> str:
    """A finding in words."""
    return (
        f"query: {finding.case}\n{finding.difference.text}\n"
        f"ours:   {_shown(finding.our)}\ntheirs: {_shown(finding.their)}"
    )


def _shown(answer: Answer) -> str:
    match answer:
        case Failure(text=text) | Crash(text=text):
            return f"error: {text}"
        case answers.Text(value=text):
            return repr(text)
        case Table(kind=kind, series=series):
            lines = [f"{kind} of {len(series)} series"]
            for labels, points in list(series.items())[:_SHOWN_SERIES]:
                shown = ", ".join(f"{value!r}@{time // 1000}" for time, value in list(points.items())[:_SHOWN_POINTS])
                lines.append(f"  {lb.show(labels)} {shown}{', …' if len(points) > _SHOWN_POINTS else ''}")
            return "\n".join(lines + (["  …"] if len(series) > _SHOWN_SERIES else []))


def _run(arguments: argparse.Namespace, program: Path, console: Console) -> int:
    differences = shown = 0
    crashes = set[str]()  # each is shown once
    opened = duel(program, arguments.seed, arguments.shards, arguments.http)
    with opened as both, Progress(console=console) as progress:
        bar = progress.add_task(f"seed {arguments.seed}", total=arguments.count)
        for case in cases(arguments.seed, arguments.count):
            finding = both.check(case)
            progress.advance(bar)
            if finding is None:
                continue
            differences += 1
            if isinstance(finding.our, Crash):
                if finding.our.text in crashes:
                    continue
                crashes.add(finding.our.text)
            shown += 1
            smallest = both.smallest(finding)
            progress.console.print(Text(f"\n[{shown}] {report(finding)}"))
            if smallest is not finding:
                progress.console.print(Text(f"smallest {report(smallest)}"))
            if shown >= arguments.most:
                progress.console.print(f"stopped after {shown} differences")
                break
    console.print(f"asked: {_counts(both.asked)}; explained: {_counts(both.excused)}; differences: {differences}")
    return 1 if differences else 0


def _counts(counter: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counter.items())) or "none"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="makes samples and queries (default 1)")
    parser.add_argument("--count", type=int, default=5000, help="how many queries (default 5000)")
    parser.add_argument("--shards", type=int, default=1, help="into how many sources our samples are cut (default 1)")
    parser.add_argument(
        "--http", action="store_true", help="ask a coordinator with three workers over HTTP, not the engine itself"
    )
    parser.add_argument(
        "--most", type=int, default=_DIFFERENCES_AT_MOST, help="stop after so many differences (default 50)"
    )
    parser.add_argument("--query", help="ask only this query, at --at or over --range")
    parser.add_argument("--at", type=int, help="the time of --query, in seconds")
    parser.add_argument("--range", type=int, nargs=3, metavar=("START", "END", "STEP"), help="the range of --query")
    parser.add_argument("--known", action="store_true", help="list the known differences between the versions and stop")
    arguments = parser.parse_args()
    warnings.simplefilter("error")  # as in the tests: a warning of our engine is a fault
    console = Console(highlight=False, soft_wrap=True)
    if arguments.known:
        for known in KNOWN:
            console.print(Text(f"{known.name}\n  {known.reason}\n  {known.handling}"))
        return 0
    try:
        program = fetch(PROMETHEUS)
    except PeerMissingError as error:
        console.print(Text(str(error)))
        return 2
    if arguments.query is not None:
        return _ask(arguments, program, console)
    return _run(arguments, program, console)


def _ask(arguments: argparse.Namespace, program: Path, console: Console) -> int:
    start, end, step = arguments.range or (arguments.at, arguments.at, 0)
    with duel(program, arguments.seed, arguments.shards, arguments.http) as both:
        finding = both.check(Case(arguments.query, start, end, step))
    console.print(Text("no difference" if finding is None else report(finding)))
    return 0 if finding is None else 1


if __name__ == "__main__":
    sys.exit(main())
