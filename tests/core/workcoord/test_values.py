"""The small parts both machines stand on: values that refuse nonsense, tables that draw themselves, invariants."""

from enum import StrEnum
from types import MappingProxyType

import pytest

from quarterdeck.core.ids import CoordinatorId
from quarterdeck.core.invariants import InvariantError, insist
from quarterdeck.core.transitions import IllegalTransitionError, TransitionTable
from quarterdeck.core.workcoord.coordinator import CoordinatorConfig
from quarterdeck.core.workcoord.coordinator.tables import (
    REASSIGNMENTS,
    WORK_TABLE,
    WORKER_TABLE,
    ReassignmentReason,
    WorkState,
    WorkTrigger,
)
from quarterdeck.core.workcoord.kinds import work_kind
from quarterdeck.core.workcoord.liveness import PeerWatch, Silence
from quarterdeck.core.workcoord.model import LivenessPolicy, WorkerStatus
from quarterdeck.core.workcoord.worker.tables import ATTEMPT_TABLE
from tests.core.workcoord.harness import LEAF, Bridge, Mate, leaf


def test_a_work_may_be_tried_at_least_once() -> None:
    assert CoordinatorConfig(CoordinatorId("c1"), max_failures=1).max_failures == 1
    with pytest.raises(ValueError, match="max_failures is 0"):
        CoordinatorConfig(CoordinatorId("c1"), max_failures=0)


@pytest.mark.parametrize("name", ["leaf", "a", "log-scan_2", "x" * 32])
def test_a_kind_of_work_has_a_plain_name(name: str) -> None:
    assert work_kind(name) == name


@pytest.mark.parametrize("name", ["", "Leaf", "2nd", "-leaf", "le af", "leaf\n", "läuft", "x" * 33, "x" * 10_000])
def test_what_is_no_plain_name_is_no_kind_of_work(name: str) -> None:
    with pytest.raises(ValueError, match="names no kind of work") as caught:
        work_kind(name)
    assert len(str(caught.value)) < 200


def test_a_draining_worker_accepts_no_work() -> None:
    assert WorkerStatus(accepting_work=False, draining=True).draining
    with pytest.raises(ValueError, match="a draining worker accepts no work"):
        WorkerStatus(accepting_work=True, draining=True)


def test_a_liveness_policy_warns_before_it_gives_up() -> None:
    policy = LivenessPolicy(interval_s=0.5, warn_after_missed=3, lost_after_missed=5)
    assert (policy.warn_after_s, policy.lost_after_s) == (1.5, 2.5)
    assert LivenessPolicy(warn_after_missed=1, lost_after_missed=2).warn_after_s == 1
    for warn, lost in ((0, 3), (3, 3), (4, 3)):
        with pytest.raises(ValueError, match="before it is lost"):
            LivenessPolicy(warn_after_missed=warn, lost_after_missed=lost)
    for interval_s in (0.0, -1.0):
        with pytest.raises(ValueError, match="interval_s is"):
            LivenessPolicy(interval_s=interval_s)


def test_a_peer_is_noticed_once_and_then_lost() -> None:
    watch = PeerWatch.begin(LivenessPolicy(), now=10)
    assert watch.next_look(0) == 11
    assert not watch.take_beat(10.9)
    assert watch.take_beat(11)
    assert watch.next_beat == 12
    assert watch.judge(11.9, 0) is Silence.NORMAL
    assert watch.next_look(0) == 12
    assert watch.judge(12, 0) is Silence.NOTABLE
    assert watch.judge(12.5, 0) is Silence.NORMAL
    assert watch.judge(13, 0) is Silence.LOST
    assert watch.judge(13, 11) is Silence.NORMAL  # we were not there ourselves until 11
    assert watch.silence_s(13, 11) == 2
    assert watch.silence_s(13, 0) == 3
    watch.heard(13)
    assert watch.judge(15, 0) is Silence.NOTABLE


def test_a_peer_that_spoke_between_two_beats_is_looked_at_between_two_beats() -> None:
    watch = PeerWatch.begin(LivenessPolicy(), now=0)
    watch.heard(0.5)
    for now in (1, 2):
        assert watch.take_beat(now)
    assert watch.next_look(0) == 2.5
    assert watch.judge(2.5, 0) is Silence.NOTABLE
    assert watch.take_beat(3)
    assert watch.next_look(0) == 3.5


@pytest.mark.parametrize("table", [WORK_TABLE, WORKER_TABLE, ATTEMPT_TABLE], ids=lambda table: table.name)
def test_a_table_is_whole(table: TransitionTable[StrEnum, StrEnum]) -> None:
    """Every state can be reached, every state that is no end can be left, and no end can."""
    sources, targets = {state for state, _, _ in table}, {target for _, _, target in table}
    states = set(type(table.initial))
    assert targets | {table.initial} == states
    assert sources == states - table.terminal
    assert {trigger for _, trigger, _ in table} == set(type(next(iter(table))[1]))


def test_a_move_that_is_not_in_the_table_is_a_bug_of_ours() -> None:
    assert WORK_TABLE.next(WorkState.PENDING, WorkTrigger.ASSIGN) is WorkState.ASSIGNED
    assert not WORK_TABLE.allows(WorkState.DONE, WorkTrigger.CANCEL)
    with pytest.raises(IllegalTransitionError, match="work: no move from done on cancel"):
        WORK_TABLE.next(WorkState.DONE, WorkTrigger.CANCEL)


def test_every_way_back_to_the_start_has_a_reason_of_its_own() -> None:
    back = {trigger for (_, trigger), to in WORK_TABLE.moves.items() if to is WorkState.PENDING}
    assert set(REASSIGNMENTS) == back
    assert sorted(REASSIGNMENTS.values()) == sorted(ReassignmentReason)


class Light(StrEnum):
    RED = "red"
    GREEN = "green"
    OUT = "out"


class Change(StrEnum):
    GO = "go"
    HURRY = "hurry"
    BREAK = "break"


def test_a_table_draws_itself() -> None:
    table = TransitionTable(
        name="light",
        initial=Light.RED,
        terminal=frozenset({Light.OUT}),
        moves=MappingProxyType(
            {
                (Light.RED, Change.GO): Light.GREEN,
                (Light.RED, Change.HURRY): Light.GREEN,
                (Light.GREEN, Change.BREAK): Light.OUT,
            }
        ),
    )
    assert table.mermaid() == (
        "stateDiagram-v2\n    [*] --> RED\n    RED --> GREEN: go, hurry\n    GREEN --> OUT: break\n    OUT --> [*]"
    )


def test_every_broken_claim_is_named() -> None:
    insist([(True, "all is well", ())])
    with pytest.raises(InvariantError) as raised:
        insist([(False, "%s was %s", ("one", 1)), (True, "two", ()), (False, "three", ())])
    assert str(raised.value) == "one was 1; three"


def test_a_coordinators_records_that_contradict_each_other_are_found() -> None:
    bridge = Bridge()
    session = bridge.joins()
    bridge.submit(leaf())
    bridge.session(session).load.add(LEAF)
    with pytest.raises(InvariantError, match="session s1 counts 2 attempts, not 1"):
        bridge.machine.check_invariants()


def test_a_workers_records_that_contradict_each_other_are_found() -> None:
    mate = Mate()
    session = mate.opens()
    mate.assigned(leaf(), session)
    mate.session(session).load.add(LEAF)
    with pytest.raises(InvariantError, match="session s1 counts 2 attempts, not 1"):
        mate.machine.check_invariants()
