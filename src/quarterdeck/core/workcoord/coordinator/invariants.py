"""What is always true of a coordinator's records between two steps. Linear in everything: for tests and simulation."""

from collections.abc import Iterator

from quarterdeck.core.invariants import Claim
from quarterdeck.core.workcoord.coordinator.ledger import Ledger
from quarterdeck.core.workcoord.coordinator.records import Query, Session, Work
from quarterdeck.core.workcoord.coordinator.roster import Roster
from quarterdeck.core.workcoord.coordinator.tables import WORK_TABLE, WorkerState, WorkState

_ON_A_WORKER = (WorkState.ASSIGNED, WorkState.ACCEPTED, WorkState.READY)


def claims(ledger: Ledger, roster: Roster) -> Iterator[Claim]:
    queries = list(ledger.queries())
    pending = sum(work.state is WorkState.PENDING for query in queries for work in query.works.values())
    said = ledger.dispatch.pending
    yield said == pending, "%s works are said to wait, %s do", (said, pending)
    for query in queries:
        yield from _of_query(query)
        for work in query.works.values():
            yield from _of_work(work)
    for session in roster.sessions():
        yield from _of_session(session)
    in_rotation = {s.session_id for s in roster.sessions() if s.state is WorkerState.ACCEPTING}
    for lane in ledger.dispatch.lanes():
        wrong = {s.session_id for s in lane.members.values()} - in_rotation
        yield not wrong, "lane %s would give work to %s, which take none", (lane.key, wrong)


def _of_query(query: Query) -> Iterator[Claim]:
    name = query.query_id
    unfinished = sum(work.state not in WORK_TABLE.terminal for work in query.works.values())
    current = sum(work.current is not None for work in query.works.values())
    yield query.unfinished == unfinished, "query %s counts %s works left, not %s", (name, query.unfinished, unfinished)
    yield not query.ended, "query %s has ended and is still here", (name,)
    yield bool(unfinished) or not query.sealed, "query %s is finished and has not ended", (name,)
    accused = query.accused
    is_there = accused is None or (accused.key in query.works and bool(accused.deaths) and not query.has_result)
    yield is_there, "query %s waits for an accused work that is not, or not any more", (name,)
    yield len(query.live) == current, "query %s knows %s attempts, its works %s", (name, len(query.live), current)


def _of_work(work: Work) -> Iterator[Claim]:
    attempt, state, key = work.current, work.state, work.key
    known = attempt is None or attempt.session.attempts.get(work.current_id) is attempt
    fetched = work.current_id in work.query.fetches
    yield (
        (state is WorkState.PENDING) == bool(work.lines),
        "%s is %s and stands in %s lines",
        (key, state, len(work.lines)),
    )
    yield (state in _ON_A_WORKER) == (attempt is not None), "%s is %s, on a session or not", (key, state)
    yield known, "%s is on a session that does not know it", (key,)
    yield state is not WorkState.READY or fetched, "%s is ready and nobody fetches it", (key,)
    leaves_nothing = work.spec.leaves_nothing
    yield not (leaves_nothing and state is WorkState.READY), "%s leaves nothing and is to be fetched", (key,)


def _of_session(session: Session) -> Iterator[Claim]:
    name = session.session_id
    counted = len(session.attempts) + len(session.closing)
    suspects = [a for a in session.attempts.values() if a.work.deaths]
    both = session.attempts.keys() & session.closing.keys()
    in_rotation = session.state is WorkerState.ACCEPTING
    yield session.outstanding == counted, "session %s counts %s attempts, not %s", (name, session.outstanding, counted)
    yield not both, "session %s has attempts both current and closing: %s", (name, both)
    yield session.state is not WorkerState.ABSENT, "session %s is of a worker that is gone", (name,)
    yield len(suspects) < 2, "session %s has %s suspects side by side", (name, len(suspects))
    yield session.suspect in (*suspects, None), "session %s remembers a suspect that it does not have", (name,)
    is_held_back = session.state is WorkerState.PAUSED and session.status.accepting_work
    yield not is_held_back, "session %s accepts work and is paused", (name,)
    yield not session.lanes or in_rotation, "session %s is %s and in rotation", (name, session.state)
