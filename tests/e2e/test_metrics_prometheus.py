"""Random queries asked of a coordinator with three workers have the same answers as in a real Prometheus, both asked
over HTTP.

A fixed seed here; `make fuzz WAY=--http SEED=... COUNT=...` asks others.
"""

from collections.abc import Iterator
from contextlib import closing

import pytest

from checks.peers import PROMETHEUS, PeerMissingError, fetch
from quarterdeck.metrics.promql.memory import Series
from tests.differential import dataset
from tests.differential.cases import Case, Peer, cases
from tests.differential.crew import CrewCandidate
from tests.differential.duel import Duel
from tests.differential.fuzz import report
from tests.differential.peer import PrometheusClient, running_prometheus
from tests.differential.selectors import FIRST_S
from tests.e2e.metrics_crew import MetricsCrew

pytestmark = pytest.mark.xdist_group("e2e-promql")

SEED = 11
PORTIONS = 5
PORTION = 100
TENANT = "duel"


@pytest.fixture(scope="module")
def samples(promql_crew: MetricsCrew) -> tuple[Series, ...]:
    series = dataset.make(SEED)
    promql_crew.load(TENANT, series)
    return series


@pytest.fixture(scope="module")
def peer(samples: tuple[Series, ...]) -> Iterator[Peer]:
    try:
        program = fetch(PROMETHEUS)
    except PeerMissingError as error:
        pytest.skip(str(error))
    with running_prometheus(program) as port, closing(PrometheusClient(port)) as client:
        client.write(samples)
        yield Peer(client)


@pytest.fixture(scope="module")
def candidate(samples: tuple[Series, ...], promql_crew: MetricsCrew) -> Iterator[CrewCandidate]:
    with closing(promql_crew.client()) as client, closing(CrewCandidate(samples, client, TENANT)) as candidate:
        # No test is to be blamed for the connection, and for what an engine starts once for the process.
        case = Case("sum(rate(http_requests_total[5m]))", FIRST_S, FIRST_S + 60, 30)
        _ = candidate.answer(case), list(candidate.nudged_answers(case))
        yield candidate


@pytest.mark.parametrize("portion", range(PORTIONS))
def test_a_crew_answers_random_queries_as_prometheus_does(candidate: CrewCandidate, peer: Peer, portion: int) -> None:
    both = Duel(candidate, peer)
    findings = list[str]()
    for case in list(cases(SEED, (portion + 1) * PORTION))[portion * PORTION :]:
        finding = both.check(case)
        if finding is not None:
            findings.append(f"{report(finding)}\nsmallest {report(both.smallest(finding))}")
    assert not findings, "\n\n".join(findings)
    assert both.asked["answered"] > PORTION // 2
