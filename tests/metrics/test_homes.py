"""Where works are at home: the same for everybody who sees the same workers, and few move when one of them goes."""

from collections import Counter

import pytest

from quarterdeck.core.ids import WorkerId
from quarterdeck.core.placement.rendezvous import Rendezvous
from quarterdeck.metrics.model import Segment
from quarterdeck.metrics.planning import WORK_ROWS, Selection, divide
from quarterdeck.metrics.promql.syntax.ast import Matcher, MatchOp
from quarterdeck.metrics.segments.label_index import LabelIndex
from quarterdeck.metrics.universe import Universe
from quarterdeck.stores.objects import ObjectRef

SHARDS = 16
TENANTS = 64
FOUR = tuple(WorkerId(f"worker-{number}") for number in range(4))
UP = Selection((Matcher("__name__", MatchOp.EQUAL, "up"),), 0, 1000)
INDEX = LabelIndex.of([(("__name__", "up"),)], [WORK_ROWS]).encoded()


def segment(number: int) -> Segment:
    file = ObjectRef(f"/lake/{number}.parquet", 1000, "")
    return Segment(number, number % SHARDS, SHARDS, file, "xxh3_128:0", 0, 1000, WORK_ROWS, 1, INDEX)


UNIVERSE = Universe(1, tuple(segment(number) for number in range(SHARDS)))


def homes(*workers: WorkerId) -> dict[str, WorkerId | None]:
    """The worker of every work of every tenant."""
    placement = Rendezvous()
    for worker in workers:
        placement.add(worker, 1)
    works = divide(UNIVERSE, [UP]).works
    assert len(works) == SHARDS
    keys = [f"tenant-{tenant}/{work.home}" for tenant in range(TENANTS) for work in works]
    assert len(set(keys)) == TENANTS * SHARDS
    return {key: placement.choose(key) for key in keys}


def test_the_homes_of_works_are_spread_evenly_over_the_workers() -> None:
    counts = Counter(homes(*FOUR).values())
    assert counts.keys() == set(FOUR)
    assert all(count / (TENANTS * SHARDS) == pytest.approx(1 / 4, abs=0.05) for count in counts.values())


def test_homes_do_not_depend_on_the_order_in_which_workers_came() -> None:
    assert homes(*reversed(FOUR)) == homes(*FOUR)


@pytest.mark.parametrize("gone", FOUR)
def test_removing_one_of_four_workers_moves_about_a_quarter_of_the_works_and_no_other(gone: WorkerId) -> None:
    before, after = homes(*FOUR), homes(*(worker for worker in FOUR if worker != gone))
    moved = {key for key in before if before[key] != after[key]}
    assert moved == {key for key, worker in before.items() if worker == gone}
    assert len(moved) / len(before) == pytest.approx(1 / 4, abs=0.05)
