"""Two coordinators and three workers, with a network that delivers, delays and breaks as it likes, at random.

After every step the records of all machines agree with themselves, no machine has found fault with an honest peer, and
no result was delivered twice. In the end the world is healed, and then every query ends and nothing is left behind.
"""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from quarterdeck.core.ids import QueryId
from quarterdeck.core.workcoord.coordinator import events as cv
from quarterdeck.core.workcoord.worker import events as wv
from tests.core.workcoord.crew import Crew, Line, Ship, Shore
from tests.core.workcoord.harness import LEAF, SCAN, leaf

ANY = st.integers(0, 1_000_000)
"""Picks one of what there is at that moment."""


class Walk(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.crew = Crew(coordinators=2, workers=3)
        self.names = 0
        for ship in self.crew.ships:
            for shore in self.crew.shores:
                self.crew.connect(ship, shore)

    # Whoever asks

    @rule(at=st.integers(0, 1), wait_limit_s=st.sampled_from([None, None, 5.0]))
    def open_query(self, at: int, wait_limit_s: float | None) -> None:
        shore = self.crew.shores[at]
        self.names += 1
        query_id = QueryId(f"q{self.names}")
        shore.open_queries.add(query_id)
        self.crew.tell(shore, cv.QueryOpened(query_id, wait_limit_s))
        self._submit(shore, query_id, 2)

    @precondition(lambda self: any(shore.open_queries for shore in self.crew.shores))
    @rule(pick=ANY, count=ANY)
    def submit(self, pick: int, count: int) -> None:
        shore, query_id = self._query(pick)
        self._submit(shore, query_id, 1 + count % 4)

    @precondition(lambda self: any(shore.open_queries for shore in self.crew.shores))
    @rule(pick=ANY, what=st.sampled_from(["seal", "cancel work", "cancel work", "cancel"]))
    def end_query(self, pick: int, what: str) -> None:
        shore, query_id = self._query(pick)
        query = shore.machine.ledger.query(query_id)
        if what == "seal":
            self.crew.tell(shore, cv.QuerySealed(query_id))
        elif what == "cancel":
            self.crew.tell(shore, cv.QueryCancelRequested(query_id, "no longer needed"))
        elif query is not None and query.works:
            keys = list(query.works)
            self.crew.tell(shore, cv.WorkCancelRequested(keys[pick % len(keys)]))

    # The network

    @precondition(lambda self: self._moving())
    @rule(picks=st.lists(ANY, min_size=1, max_size=12))
    def deliver(self, picks: list[int]) -> None:
        for pick in picks:
            moving = self._moving()
            if moving:
                line, to_worker = moving[pick % len(moving)]
                self._deliver(line, to_worker=to_worker)

    @precondition(lambda self: self._moving())
    @rule()
    def deliver_all(self) -> None:
        self.crew.deliver_all()

    @precondition(lambda self: self._unconnected())
    @rule(pick=ANY)
    def connect(self, pick: int) -> None:
        pairs = self._unconnected()
        self.crew.connect(*pairs[pick % len(pairs)])

    # Executions and fetches

    @precondition(lambda self: any(ship.executions for ship in self.crew.ships))
    @rule(pick=ANY, how=st.sampled_from([*["succeed"] * 6, *["stop"] * 2, "fail", "fail for good"]))
    def execution_ends(self, pick: int, how: str) -> None:
        running = [(ship, attempt) for ship in self.crew.ships for attempt in ship.executions]
        ship, attempt = running[pick % len(running)]
        if not ship.gone:
            self.crew.execution_ends(ship, attempt, how)

    @precondition(lambda self: any(shore.fetches for shore in self.crew.shores))
    @rule(pick=ANY, well=st.sampled_from([True, True, False]))
    def fetch_ends(self, pick: int, well: bool) -> None:
        under_way = [(shore, attempt) for shore in self.crew.shores for attempt in shore.fetches]
        shore, attempt = under_way[pick % len(under_way)]
        self.crew.fetch_ends(shore, attempt, well=well)

    @rule(pick=ANY)
    def evict(self, pick: int) -> None:
        attempts = [(ship, each.attempt_id) for ship in self._ships() for each in ship.machine.attempts()]
        if attempts:
            ship, attempt = attempts[pick % len(attempts)]
            self.crew.order(ship, wv.ResultEvicted(attempt))

    @rule(picks=st.lists(ANY, min_size=1, max_size=8))
    def work_on(self, picks: list[int]) -> None:
        """The network is quick for once, and some work gets done."""
        for pick in picks:
            self.crew.deliver_all()
            if any(shore.fetches for shore in self.crew.shores) and pick % 3:
                self.fetch_ends(pick, well=True)
            elif any(ship.executions for ship in self.crew.ships):
                self.execution_ends(pick, "succeed")

    # Processes and time

    @rule(place=st.integers(0, 2), what=st.sampled_from(["pause", "accept", "accept", "press"]))
    def change_status(self, place: int, what: str) -> None:
        ship = self.crew.ships[place]
        if ship.gone:
            return
        if what == "press":
            self.crew.order(ship, wv.PressureRose(3.0))
        else:
            self.crew.order(ship, wv.AcceptingChanged(accepting=what == "accept"))

    @rule(seconds=st.sampled_from([0.05, 0.05, 0.2, 1.0, 15.0]))
    def let_time_pass(self, seconds: float) -> None:
        self.crew.advance(seconds, delivering=True)

    @rule(
        what=st.sampled_from(["cut", "cut", "silence", "silence", "sleep", "drain", "request drain", "restart"]),
        pick=ANY,
    )
    def misfortune(self, what: str, pick: int) -> None:
        crew, place = self.crew, pick % 3
        ship = crew.ships[place]
        match what:
            case "cut":
                lines = self._whole_lines()
                if lines:
                    lines[pick % len(lines)].cut()
            case "silence":  # nothing arrives
                crew.advance([0.2, 2.2, 3.1][place], delivering=False)
            case "sleep":  # nobody runs, and all timers come late
                crew.now += [0.5, 2.0, 30.0][place]
                crew.wake()
            case "drain" if not ship.gone:
                crew.order(ship, wv.DrainRequested())
            case "request drain":
                for shore in crew.shores:
                    crew.tell(shore, cv.DrainRequested(ship.machine.config.info.worker_id))
            case "restart":
                crew.restart(place)
            case _:
                pass

    # What always holds

    @invariant()
    def coordinators_keep_to_what_workers_granted(self) -> None:
        for ship in self._ships():
            sessions = list(ship.machine.sessions())
            assert sum(session.load.charged for session in sessions) <= max(4, len(sessions))
            for session in sessions:
                assert session.load.charged <= session.exposure

    def teardown(self) -> None:
        crew = self.crew
        crew.deliver_all()  # what asks for a drain is among it
        for ship in self._ships():
            crew.order(ship, wv.AcceptingChanged(accepting=True))
        for shore in crew.shores:
            for query_id in list(shore.open_queries):
                crew.tell(shore, cv.QuerySealed(query_id))
        for _ in range(60 + 6 * self.names):  # a walk may have submitted much and worked on nothing
            self._heal_a_little()
            if not any(shore.open_queries or shore.fetches for shore in crew.shores):
                break
        self._heal_a_little()
        crew.advance(3, delivering=True)  # throttles end, artifacts expire
        self._assert_nothing_is_left()
        assert [list(ship.machine.attempts()) for ship in crew.ships] == [[], [], []]

    def _heal_a_little(self) -> None:
        crew = self.crew
        for place, ship in enumerate(crew.ships):
            if ship.gone or ship.machine.status.draining:
                crew.restart(place)
        for pair in self._unconnected():
            crew.connect(*pair)
        crew.deliver_all()
        for ship in crew.ships:
            for attempt in list(ship.executions):
                crew.execution_ends(ship, attempt, "stop" if ship.executions[attempt] else "succeed")
        for shore in crew.shores:
            for attempt in list(shore.fetches):
                crew.fetch_ends(shore, attempt, well=True)
        crew.advance(0.5, delivering=True)

    def _assert_nothing_is_left(self) -> None:
        for shore in self.crew.shores:
            machine = shore.machine
            assert shore.open_queries == set()
            assert list(machine.ledger.queries()) == []
            assert (machine.pending, shore.fetches) == (0, {})
            sessions = list(machine.roster.sessions())
            assert len(sessions) == 3
            for session in sessions:
                assert (session.state, session.outstanding) == ("accepting", 0)
                assert (session.attempts, session.closing) == ({}, {})
            for lane in machine.ledger.dispatch.lanes():
                assert lane.pending == {}
        for ship in self.crew.ships:
            assert ship.executions == {}
            assert (ship.machine.busy_slots, ship.machine.queued) == (0, 0)
            granted = [session.granted for session in ship.machine.sessions()]
            assert granted == [2, 2]

    # Inside

    def _ships(self) -> list[Ship]:
        return [ship for ship in self.crew.ships if not ship.gone]

    def _query(self, pick: int) -> tuple[Shore, QueryId]:
        queries = [(shore, query_id) for shore in self.crew.shores for query_id in sorted(shore.open_queries)]
        return queries[pick % len(queries)]

    def _submit(self, shore: Shore, query_id: QueryId, count: int) -> None:
        self.names += 1
        for number in range(count):
            kind = SCAN if number == 3 else LEAF
            name, leaves_nothing = f"work{self.names}-{number}", number == 1
            spec = leaf(name, query_id, affinity=f"{number}", kind=kind, leaves_nothing=leaves_nothing)
            self.crew.tell(shore, cv.WorkSubmitted(spec))

    def _moving(self) -> list[tuple[Line, bool]]:
        lines = self.crew.lines.values()
        moving = [(line, True) for line in lines if line.to_worker]
        return moving + [(line, False) for line in lines if line.to_coordinator]

    def _deliver(self, line: Line, *, to_worker: bool) -> None:
        if to_worker:
            self.crew.deliver_to_worker(line)
        else:
            self.crew.deliver_to_coordinator(line)

    def _whole_lines(self) -> list[Line]:
        return [line for line in self.crew.lines.values() if not line.closed_by]

    def _unconnected(self) -> list[tuple[Ship, Shore]]:
        pairs = [(ship, shore) for ship in self._ships() for shore in self.crew.shores]
        return [pair for pair in pairs if self.crew.may_connect(*pair)]


FAST = settings(
    derandomize=True,
    max_examples=150,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
LONG = settings(FAST, derandomize=False, max_examples=5_000, stateful_step_count=150)


def test_honest_machines_agree_whatever_the_network_does() -> None:
    run_state_machine_as_test(Walk, settings=FAST)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_honest_machines_agree_whatever_the_network_does_for_long() -> None:
    run_state_machine_as_test(Walk, settings=LONG)
