"""Prometheus' own test scripts, and ours, against a coordinator and three workers over HTTP.

`make test` asks a sample of every script as it stands, and some of its instant evals pinned with `@` and as range
queries too. `make soak` asks all evals in all of these ways. Against the engine alone `make test` asks them all.
Whatever a script has loaded is a tenant of its own.
"""

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from queue import SimpleQueue

import numpy as np
import pytest

from quarterdeck.metrics.promql.memory import Series
from tests.conformance import files
from tests.conformance.runner import Outcome, Verdict, Ways, judged, stages
from tests.conformance.script import Eval, Script
from tests.differential.peer import PrometheusClient
from tests.e2e.metrics_crew import CrewOracle, MetricsCrew

pytestmark = pytest.mark.xdist_group("e2e-promql")

CONNECTIONS = 6
SAMPLE = 6
"""The first of so many evals of a script is in the sample; each of them is asked as it stands."""
ONE_IN = 3
"""One in so many of the sample is asked in other ways as well."""
OWN = sorted(files.OWN_FOLDER.glob("*.test"))
each_of_prometheus = pytest.mark.parametrize("name", [*files.STABLE, *files.EXPERIMENTAL])
each_of_our_own = pytest.mark.parametrize("path", OWN, ids=[path.stem for path in OWN])


def run(script: Script, crew: MetricsCrew, owner: str, sample: int = 1, one_in: int = 1) -> list[Outcome]:
    """The first of each `sample` evals of a script, several at a time. One in `one_in` of them is asked in all ways."""
    wanted = script.evals[::sample]
    pinned = {command.line for command in wanted[::one_in]}
    lines = {command.line for command in wanted}
    asked: list[tuple[str, Eval]] = []
    for number, stage in enumerate(stages(script, lambda command: command.line in lines)):
        tenant = f"{owner} {script.file} {number}"
        crew.load(tenant, stage.series)
        asked += [(tenant, command) for command in stage.evals]
    with ExitStack() as stack:
        clients: SimpleQueue[PrometheusClient] = SimpleQueue()
        for _ in range(CONNECTIONS):
            clients.put(stack.enter_context(closing(crew.client())))

        def ask(one: tuple[str, Eval]) -> Outcome:
            tenant, command = one
            client = clients.get()
            try:
                ways = Ways.SOME if command.line in pinned else Ways.PLAIN
                return judged(script.file, command, CrewOracle(client, tenant), ways)
            finally:
                clients.put(client)

        with ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="ask") as pool:
            return list(pool.map(ask, asked))


def complaints(outcomes: list[Outcome]) -> Iterator[str]:
    failed = [outcome.why for outcome in outcomes if outcome.verdict is Verdict.FAILED]
    if failed:
        yield f"{len(failed)} of {len(outcomes)} evals do not pass:"
        yield from failed[:10]


def of_prometheus(name: str) -> Script:
    path = files.folder() / name
    if not path.is_file():
        pytest.skip(f"{path} is not there: set {files.VARIABLE} to the folder of Prometheus' test scripts")
    return files.read(path)


@each_of_prometheus
def test_a_crew_answers_a_sample_of_every_script_of_prometheus_over_http(promql_crew: MetricsCrew, name: str) -> None:
    script = of_prometheus(name)
    outcomes = run(script, promql_crew, "prometheus", SAMPLE, ONE_IN)
    assert not list(complaints(outcomes)), "\n\n".join(complaints(outcomes))
    assert len(outcomes) == math.ceil(len(script.evals) / SAMPLE) > 0


@each_of_our_own
def test_a_crew_answers_a_sample_of_every_script_of_our_own_over_http(promql_crew: MetricsCrew, path: Path) -> None:
    script = files.read(path)
    outcomes = run(script, promql_crew, "own", SAMPLE, ONE_IN)
    assert not list(complaints(outcomes)), "\n\n".join(complaints(outcomes))
    assert len(outcomes) == math.ceil(len(script.evals) / SAMPLE) > 0


@pytest.mark.soak
@each_of_prometheus
def test_a_crew_answers_every_eval_of_prometheus_in_every_way(promql_crew: MetricsCrew, name: str) -> None:
    script = of_prometheus(name)
    outcomes = run(script, promql_crew, "prometheus in every way")
    assert not list(complaints(outcomes)), "\n\n".join(complaints(outcomes))
    assert len(outcomes) == len(script.evals)


@pytest.mark.soak
@each_of_our_own
def test_a_crew_answers_every_eval_of_our_own_in_every_way(promql_crew: MetricsCrew, path: Path) -> None:
    script = files.read(path)
    outcomes = run(script, promql_crew, "own in every way")
    assert not list(complaints(outcomes)), "\n\n".join(complaints(outcomes))
    assert len(outcomes) == len(script.evals)


def test_these_queries_are_divided_among_all_workers(promql_crew: MetricsCrew) -> None:
    """Else the tests above would prove little."""
    workers: set[str] = set()
    for tenant in ("divided 1", "divided 2", "divided 3"):
        promql_crew.load(tenant, counters(40))
        with closing(promql_crew.client()) as client:
            query = {"query": "sum(bilge_pumps)", "time": "60", "explain": "analyze"}
            reply = client.ask("query", query, tenant)
        assert reply["data"]["result"] == [{"metric": {}, "value": [60, "820"]}]
        [leaf] = reply["data"]["explain"]["leaves"]
        assert [work["shards"] for work in leaf["works"]] == [[0], [1], [2], [3]]
        assert [work["segments"] for work in leaf["works"]] == [2, 2, 2, 2]
        workers |= {attempt["worker_id"] for work in leaf["works"] for attempt in work["attempts"]}
    assert workers == {"w0", "w1", "w2"}


def test_one_crew_answers_for_all_tenants_and_each_sees_its_own_samples(promql_crew: MetricsCrew) -> None:
    promql_crew.load("port side", counters(2))
    promql_crew.load("starboard", counters(3))
    with closing(promql_crew.client()) as client:
        for tenant, count in (("port side", 2), ("starboard", 3), ("nobody", 0)):
            reply = client.ask("query", {"query": "bilge_pumps", "time": "60"}, tenant)
            assert len(reply["data"]["result"]) == count
            assert len(client.ask("series", {"match[]": "bilge_pumps"}, tenant)["data"]) == count


def counters(count: int) -> list[Series]:
    """That are 1, 2, 3 and so on after a minute, and were 0 before."""
    times = np.array([0, 60_000], np.int64)
    return [
        Series((("__name__", "bilge_pumps"), ("number", str(number))), times, np.array([0.0, number]))
        for number in range(1, count + 1)
    ]
