"""How the samples are split over shards and the steps into blocks changes no answer, whatever the query."""

from collections.abc import Iterator

import pytest

from quarterdeck.metrics.promql.engine import Engine, EngineOptions
from quarterdeck.metrics.promql.limits import Limits
from tests.differential import dataset
from tests.differential.answers import Crash, compare
from tests.differential.cases import Candidate, cases

SEED = 3


@pytest.fixture(scope="module")
def whole() -> Iterator[Candidate]:
    candidate = Candidate(dataset.make(SEED), shards=1)
    yield candidate
    candidate.close()


@pytest.fixture(scope="module")
def cut() -> Iterator[Candidate]:
    engine = Engine(EngineOptions(limits=Limits(block_cells=150)), threads=1)
    candidate = Candidate(dataset.make(SEED), shards=3, engine=engine)
    yield candidate
    candidate.close()


@pytest.mark.parametrize("portion", range(4))
def test_shards_and_small_blocks_change_no_answer(portion: int, whole: Candidate, cut: Candidate) -> None:
    for case in cases(1000 + portion, 100):
        one, other = whole.answer(case), cut.answer(case)
        assert not isinstance(one, Crash), (case, one)
        assert compare(one, other) is None, (str(case), one, other)
