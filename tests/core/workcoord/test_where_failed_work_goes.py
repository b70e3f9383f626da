"""Where a work goes that failed somewhere: to others first, and no work behind it waits for that."""

from quarterdeck.core.ids import SessionId, WorkerId
from quarterdeck.core.workcoord.coordinator import effects as ce
from quarterdeck.core.workcoord.coordinator import events as cv
from quarterdeck.core.workcoord.coordinator.records import Work
from quarterdeck.core.workcoord.coordinator.tables import WorkerState, WorkState
from quarterdeck.core.workcoord.messages import (
    CreditChanged,
    WorkFailed,
)
from tests.core.workcoord.harness import (
    PASSING,
    Bridge,
    leaf,
    of,
)

W, S = WorkState, WorkerState


def _waits_where_it_failed(bridge: Bridge) -> tuple[SessionId, Work]:
    first = bridge.joins("w1", credit=1)
    work = bridge.submit(leaf("a"))
    bridge.accepts(work)
    bridge.says(first, CreditChanged(0), WorkFailed(work.current_id, PASSING))
    assert (work.state, work.avoid) == (W.PENDING, ("w1",))
    return first, work


def test_a_work_that_waits_where_it_failed_goes_to_another_that_comes() -> None:
    bridge = Bridge()
    _, work = _waits_where_it_failed(bridge)
    second = bridge.joins("w2", credit=1)
    assert bridge.session_of(work) == second


def test_a_work_that_waits_where_it_failed_moves_on_when_its_turn_comes_and_there_is_another() -> None:
    bridge = Bridge()
    first, work = _waits_where_it_failed(bridge)
    second = bridge.joins("w2", credit=0)
    bridge.says(first, CreditChanged(1))
    assert work.state is W.PENDING  # w1 has credit, but it is not for this one
    bridge.says(second, CreditChanged(1))
    assert bridge.session_of(work) == second


def test_a_work_that_failed_on_the_only_worker_goes_there_again() -> None:
    bridge = Bridge()
    first, work = _waits_where_it_failed(bridge)
    bridge.says(first, CreditChanged(1))
    assert bridge.session_of(work) == first


def _fails_where_it_is(bridge: Bridge, work: Work) -> str:
    worker = bridge.worker_of(work)
    bridge.accepts(work)
    bridge.says(bridge.session_of(work), WorkFailed(work.current_id, PASSING))
    return worker


def test_a_work_tries_every_worker_before_it_tries_one_again() -> None:
    bridge = Bridge(max_failures=20)
    workers = {f"w{n}" for n in range(5)}
    for worker in sorted(workers):
        bridge.joins(worker)
    work = bridge.submit(leaf("a"))
    assert {_fails_where_it_is(bridge, work) for _ in range(5)} == workers
    for _ in range(10):  # it failed everywhere: at least not where it failed last
        last = _fails_where_it_is(bridge, work)
        assert bridge.worker_of(work) != last


def test_a_work_that_failed_everywhere_waits_for_any_but_where_it_failed_last() -> None:
    bridge = Bridge()
    sessions = {worker: bridge.joins(worker, credit=1) for worker in ("w1", "w2")}
    work = bridge.submit(leaf("a"))
    first = _fails_where_it_is(bridge, work)
    second = bridge.worker_of(work)
    bridge.says(sessions[first], CreditChanged(0))
    _fails_where_it_is(bridge, work)
    assert work.state is W.PENDING
    bridge.says(sessions[second], CreditChanged(2))
    assert work.state is W.PENDING
    bridge.says(sessions[first], CreditChanged(1))
    assert bridge.worker_of(work) == first


def test_a_work_that_failed_does_not_wait_for_its_new_home_while_another_worker_is_idle() -> None:
    bridge = Bridge()
    for worker in ("w1", "w2", "w3"):
        bridge.joins(worker, credit=1)
    work = bridge.submit(leaf("x"))
    second = _second_home(bridge, work)
    keeper = next(name for n in range(100) if _home_of(bridge, name := f"k{n}") == second)
    busy = bridge.submit(leaf("busy", affinity=keeper))
    assert bridge.worker_of(busy) == second
    failed_on = _fails_where_it_is(bridge, work)
    assert bridge.worker_of(work) not in (failed_on, second)


def _second_home(bridge: Bridge, work: Work) -> str:
    placement = work.lane.placement(work.spec.placement)
    return str(placement.choose(work.spec.affinity_key, [WorkerId(bridge.worker_of(work))]))


def _home_of(bridge: Bridge, affinity: str) -> str:
    lane = bridge.machine.ledger.dispatch.lane_for(leaf("any"))
    return str(lane.placement(leaf("any").placement).choose(affinity, []))


def test_a_choosy_work_is_found_behind_one_that_is_choosy_about_just_this_worker() -> None:
    bridge = Bridge()
    one, two = bridge.joins("w1", credit=1), bridge.joins("w2", credit=1)
    works = [
        bridge.submit(leaf("a", affinity=_affine(bridge, "w1"))),
        bridge.submit(leaf("b", affinity=_affine(bridge, "w2"))),
    ]
    for session, work in zip((one, two), works, strict=True):
        bridge.accepts(work)
        bridge.says(session, CreditChanged(0))
    for session, work in zip((one, two), works, strict=True):
        bridge.says(session, WorkFailed(work.current_id, PASSING))
    assert [work.state for work in works] == [W.PENDING, W.PENDING]
    bridge.says(one, CreditChanged(1))
    assert bridge.session_of(works[1]) == one
    assert works[0].state is W.PENDING


def _affine(bridge: Bridge, worker: str) -> str:
    return next(name for n in range(100) if _home_of(bridge, name := f"k{n}") == worker)


def test_a_work_that_has_ended_is_not_taken_again_and_only_its_name_is_kept() -> None:
    bridge = Bridge()
    bridge.joins("w1")
    work = bridge.submit(leaf("a"), leaf("b"))
    query = work.query
    bridge.done(work)
    assert list(query.works) == [leaf("b").key]
    (refused,) = of(ce.RefuseWork, bridge.step(cv.WorkSubmitted(leaf("a"))))
    assert refused.reason == "it was submitted before"


def test_a_work_that_came_back_is_the_next_of_its_query() -> None:
    bridge = Bridge()
    lost = bridge.joins("w1", credit=1)
    specs = [leaf(f"{n}") for n in range(9)]
    first = bridge.submit(*specs)
    other = bridge.joins("w2", credit=1)
    bridge.advance(0.2)
    assert bridge.session_of(first) == lost
    bridge.loses(lost)
    assert first.state is W.PENDING
    (running,) = [work for spec in specs if (work := bridge.work(spec.key)).current is not None]
    bridge.done(running)
    assert bridge.session_of(first) == other


def test_a_choosy_work_keeps_no_worker_from_what_comes_after_it() -> None:
    bridge = Bridge()
    first, work = _waits_where_it_failed(bridge)
    bridge.joins("w2", credit=0)
    bridge.says(first, CreditChanged(2))
    other = bridge.submit(leaf("b", affinity="b"))
    bridge.advance(0.2)
    assert bridge.session_of(other) == first
    assert work.state is W.PENDING


def test_choosy_works_wait_at_home_too_whoever_is_before_them() -> None:
    bridge = Bridge()
    first, second = bridge.joins("w1", credit=1), bridge.joins("w2", credit=1)
    works = [bridge.submit(leaf(name, affinity=name)) for name in "abcdefgh"]
    on_first = next(work for work in works if work.current and bridge.session_of(work) == first)
    on_second = next(work for work in works if work.current and bridge.session_of(work) == second)
    for work in works:
        if work not in (on_first, on_second):
            bridge.cancel_work(work)
    for session, work in ((first, on_first), (second, on_second)):
        bridge.accepts(work)
        bridge.says(session, CreditChanged(0))
    bridge.says(first, WorkFailed(on_first.current_id, PASSING))  # waits for w2, first of the choosy
    bridge.says(second, WorkFailed(on_second.current_id, PASSING))  # waits for w1
    bridge.says(first, CreditChanged(1))
    assert bridge.session_of(on_second) == first
    assert on_first.state is W.PENDING
