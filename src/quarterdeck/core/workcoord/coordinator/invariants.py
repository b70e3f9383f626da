"""What is always true of a coordinator's records between two steps. Linear in everything: for tests and simulation."""

from collections.abc import Iterator

from quarterdeck.core.workcoord.coordinator.ledger import Ledger
from quarterdeck.core.workcoord.coordinator.records import Attempt, Query, Session, Work
from quarterdeck.core.workcoord.coordinator.roster import Roster
from quarterdeck.core.workcoord.coordinator.tables import WORK_TABLE, WorkerState, WorkState

_ON_A_WORKER = (WorkState.ASSIGNED, WorkState.ACCEPTED, WorkState.READY, WorkState.SERVING)


def claims(ledger: Ledger, roster: Roster) -> Iterator[tuple[bool, str]]:
    """Claims about the whole, each with whether it holds."""
    queries = list(ledger.queries())
    pending = sum(work.state is WorkState.PENDING for query in queries for work in query.works.values())
    yield ledger.dispatch.pending == pending, f"{ledger.dispatch.pending} works are said to wait, {pending} do"
    out_of_reach = list(ledger.unreachable())
    for query in queries:
        yield from _of_query(query)
        for work in query.works.values():
            yield from _of_work(work, out_of_reach)
    for session in roster.sessions():
        yield from _of_session(session)
    in_rotation = {s.session_id for s in roster.sessions() if s.state is WorkerState.ACCEPTING}
    for lane in ledger.dispatch.lanes():
        wrong = {s.session_id for s in lane.members.values()} - in_rotation
        yield not wrong, f"lane {lane.key} would give work to {wrong}, which take none"


def _of_query(query: Query) -> Iterator[tuple[bool, str]]:
    unfinished = sum(work.state not in WORK_TABLE.terminal for work in query.works.values())
    yield (
        query.unfinished == unfinished,
        f"query {query.query_id} counts {query.unfinished} works left, not {unfinished}",
    )
    yield not query.ended, f"query {query.query_id} has ended and is still here"
    yield bool(unfinished) or not query.sealed, f"query {query.query_id} is finished and has not ended"
    yield len(query.live) == sum(work.current is not None for work in query.works.values()), "an attempt is lost"


def _of_work(work: Work, out_of_reach: list[Attempt]) -> Iterator[tuple[bool, str]]:
    attempt, state, key = work.current, work.state, work.key
    session = attempt.session if attempt is not None else None
    waits = bool(work.ticket)
    yield (state is WorkState.PENDING) == waits, f"{key} is {state}, its place in line is {work.ticket}"
    yield (state in _ON_A_WORKER) == (session is not None), f"{key} is {state} on {session}"
    yield session is None or session.attempts.get(work.current_id) is attempt, f"{key}: its session does not know it"
    yield (state is WorkState.UNREACHABLE) == (attempt in out_of_reach), f"{key} is {state}, out of reach or not"
    fetched = work.current_id in work.query.fetches
    yield state is not WorkState.READY or fetched, f"{key} is ready and nobody fetches it"


def _of_session(session: Session) -> Iterator[tuple[bool, str]]:
    outstanding = sum(a.takes_credit for a in session.attempts.values()) + sum(session.closing.values())
    name = f"session {session.session_id}"
    yield session.outstanding == outstanding, f"{name} counts {session.outstanding} outstanding, not {outstanding}"
    yield not session.attempts.keys() & session.closing.keys(), f"{name} has an attempt both current and closing"
    yield session.state is not WorkerState.ABSENT, f"{name} is of a worker that is gone"
    yield (
        bool(session.lanes) == (session.state is WorkerState.ACCEPTING),
        f"{name} is {session.state} in rotation or not",
    )
