"""Random queries have the same answers as in a real Prometheus.

A fixed seed here; `make fuzz SEED=... COUNT=...` asks others. The differences between the peer's version and ours are
listed in `known.py`.
"""

from collections.abc import Iterator
from contextlib import closing

import pytest

from checks.peers import PROMETHEUS, PeerMissingError, fetch
from quarterdeck.metrics.promql.memory import Series
from tests.differential import dataset
from tests.differential.answers import Failure, Table
from tests.differential.cases import Candidate, Case, Peer, cases
from tests.differential.duel import Duel, missing_samples
from tests.differential.fuzz import report
from tests.differential.peer import PrometheusClient, running_prometheus
from tests.differential.selectors import FIRST_S

pytestmark = pytest.mark.xdist_group("prometheus")  # one of them is started, not one in each process

SEED = 1
PORTIONS = 40
PORTION = 50


@pytest.fixture(scope="module")
def samples() -> tuple[Series, ...]:
    return dataset.make(SEED)


@pytest.fixture(scope="module")
def port(samples: tuple[Series, ...]) -> Iterator[int]:
    try:
        program = fetch(PROMETHEUS)
    except PeerMissingError as error:
        pytest.skip(str(error))
    with running_prometheus(program) as number:
        with closing(PrometheusClient(number)) as client:
            client.write(samples)
        yield number


@pytest.fixture(scope="module")
def candidates(samples: tuple[Series, ...]) -> Iterator[dict[int, Candidate]]:
    made = {shards: Candidate(samples, shards) for shards in (1, 2, 7)}
    for one in made.values():  # what an engine starts once for the process, no test is to be blamed for
        one.answer(Case("sum(rate(http_requests_total[5m]))", FIRST_S, FIRST_S + 60, 30))
    yield made
    for one in made.values():
        one.close()


@pytest.fixture(scope="module")
def portions() -> list[list[Case]]:
    """All cases of the seed, made once."""
    made = list(cases(SEED, PORTIONS * PORTION))
    return [made[start : start + PORTION] for start in range(0, len(made), PORTION)]


@pytest.fixture
def peer(port: int) -> Iterator[Peer]:
    with closing(PrometheusClient(port)) as client:
        yield Peer(client)


def test_prometheus_holds_every_sample_that_was_written(samples: tuple[Series, ...], peer: Peer) -> None:
    assert missing_samples(samples, peer) == []


def test_most_random_queries_have_an_answer_and_some_fail(peer: Peer) -> None:
    given = [peer.answer(case) for case in cases(SEED, 400)]
    assert sum(isinstance(one, Table) and bool(one.series) for one in given) > 260
    assert sum(isinstance(one, Failure) for one in given) > 10


@pytest.mark.parametrize("portion", range(PORTIONS))
def test_random_queries_are_answered_as_prometheus_answers_them(
    candidates: dict[int, Candidate], portions: list[list[Case]], peer: Peer, portion: int
) -> None:
    shards = (1, 1, 2, 7)[portion % 4]
    both = Duel(candidates[shards], peer)
    findings = list[str]()
    for case in portions[portion]:
        finding = both.check(case)
        if finding is not None:
            findings.append(f"{report(finding)}\nsmallest {report(both.smallest(finding))}")
    assert not findings, f"{shards} shards:\n" + "\n\n".join(findings)
