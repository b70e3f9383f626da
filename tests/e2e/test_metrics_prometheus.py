"""Random queries asked of a coordinator with three workers have the same answers as in a real Prometheus, both asked
over HTTP.

A fixed seed here; `make fuzz WAY=--http SEED=... COUNT=...` asks others.
"""

from collections.abc import Iterator
from contextlib import closing

import pytest

from quarterdeck.metrics.promql.memory import Series
from tests.differential.cases import Case, Peer, cases
from tests.differential.crew import CrewCandidate
from tests.differential.duel import Duel
from tests.differential.fuzz import report
from tests.differential.peer import PrometheusClient
from tests.differential.selectors import FIRST_S
from tests.e2e.metrics_crew import MetricsCrew

pytestmark = pytest.mark.xdist_group("e2e-promql")

SEED = 11
PORTIONS = 5
PORTION = 100


@pytest.fixture(scope="module")
def peer(prometheus: str) -> Iterator[Peer]:
    with closing(PrometheusClient(int(prometheus.rpartition(":")[2]))) as client:
        peer = Peer(client)
        peer.answer(Case("1", FIRST_S, FIRST_S, 0))  # no test is to be blamed for the connection
        yield peer


@pytest.fixture(scope="module")
def candidate(promql_samples: tuple[Series, ...], promql_crew: MetricsCrew) -> Iterator[CrewCandidate]:
    with closing(promql_crew.client()) as client, closing(CrewCandidate(promql_samples, client)) as candidate:
        # Nor for that, nor for what an engine starts once for the process.
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
