"""The small parts both machines stand on: values that refuse nonsense, tables that draw themselves, invariants."""

from enum import StrEnum
from types import MappingProxyType

import pytest

from quarterdeck.core.ids import WorkerId
from quarterdeck.core.workcoord.coordinator.tables import WORK_TABLE, WORKER_TABLE, WorkState, WorkTrigger
from quarterdeck.core.workcoord.invariants import InvariantError, insist
from quarterdeck.core.workcoord.liveness import PeerWatch, Silence
from quarterdeck.core.workcoord.model import (
    Binding,
    LivenessPolicy,
    WorkerStatus,
    WorkKind,
    WorkPolicy,
    WorkSpec,
)
from quarterdeck.core.workcoord.policies import POLICY_OF_KIND
from quarterdeck.core.workcoord.table import IllegalTransitionError, TransitionTable
from quarterdeck.core.workcoord.worker.tables import ATTEMPT_TABLE
from tests.core.workcoord.harness import Bridge, Mate, key, leaf


def test_a_policy_allows_at_least_one_failure() -> None:
    assert WorkPolicy(Binding.SESSION, 1).max_failures == 1
    with pytest.raises(ValueError, match="max_failures is 0"):
        WorkPolicy(Binding.SESSION, 0)


@pytest.mark.parametrize("trait", [{"held": True}, {"pinned": True}, {"resident": True}, {"lease_s": 0.0}])
def test_only_durable_work_outlives_its_session(trait: dict[str, bool]) -> None:
    WorkPolicy(Binding.DURABLE, 1, **trait)
    with pytest.raises(ValueError, match="its session is its life"):
        WorkPolicy(Binding.SESSION, 1, **trait)


def test_a_pinned_work_names_its_worker_and_only_a_pinned_one_does() -> None:
    pinned, free = POLICY_OF_KIND[WorkKind.FRAGMENT], POLICY_OF_KIND[WorkKind.LEAF]
    assert WorkSpec(key(), WorkKind.FRAGMENT, pinned, pinned_to=WorkerId("w1")).pinned_to == "w1"
    with pytest.raises(ValueError, match="work a: a pinned work names its worker"):
        WorkSpec(key(), WorkKind.FRAGMENT, pinned)
    with pytest.raises(ValueError, match="only a pinned one does"):
        WorkSpec(key(), WorkKind.LEAF, free, pinned_to=WorkerId("w1"))


def test_every_kind_of_work_has_a_policy() -> None:
    assert set(POLICY_OF_KIND) == set(WorkKind)
    bound = {kind for kind, policy in POLICY_OF_KIND.items() if policy.binding is Binding.SESSION}
    assert bound == {WorkKind.LEAF, WorkKind.SEARCH}
    epoch, fragment = POLICY_OF_KIND[WorkKind.EPOCH], POLICY_OF_KIND[WorkKind.FRAGMENT]
    assert (epoch.held, epoch.pinned, epoch.resident, epoch.lease_s) == (True, False, False, 10.0)
    assert (fragment.held, fragment.pinned, fragment.resident, fragment.lease_s) == (False, True, True, None)
    assert {kind: policy.max_failures for kind, policy in POLICY_OF_KIND.items()} == {
        WorkKind.LEAF: 4,
        WorkKind.SEARCH: 4,
        WorkKind.EPOCH: 8,
        WorkKind.FRAGMENT: 8,
    }


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
    bridge.session(session).load.add(WorkKind.LEAF)
    with pytest.raises(InvariantError, match="session s1 counts 2 attempts, not 1"):
        bridge.machine.check_invariants()


def test_a_workers_records_that_contradict_each_other_are_found() -> None:
    mate = Mate()
    session = mate.opens()
    mate.assigned(leaf(), session)
    mate.session(session).load.add(WorkKind.LEAF)
    with pytest.raises(InvariantError, match="session s1 counts 2 attempts, not 1"):
        mate.machine.check_invariants()
