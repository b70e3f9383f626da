"""What the simulation of recruiting has found, each as the smallest scenario that showed it."""

from unittest.mock import patch

from quarterdeck.search import worker_routes
from quarterdeck.search.world.faults import Wedge
from quarterdeck.search.world.scenario import Scenario, SearchLoad, WorkerLoad
from quarterdeck.search.world.world import play

HANGS_BEFORE_THE_END = Scenario(
    seed=227,
    recruiters=1,
    workers=(WorkerLoad("node0"),),
    roots=1,
    poll_s=4.0,
    searches=(SearchLoad(8.0, "s0", (1.4,), max_workers=1),),
    faults=(Wedge(8.5, "s0"),),
)


def test_a_root_that_hangs_with_nothing_but_the_end_to_take_does_not_keep_its_connection_for_ever() -> None:
    assert play(HANGS_BEFORE_THE_END).violation is None
    with patch.object(worker_routes, "_END_S", 1000.0):
        violation = play(HANGS_BEFORE_THE_END).violation
    assert violation is not None
    assert "w0 still serves a root" in violation
