"""Dividing a worker's room among its sessions, so that it never has to reject for lack of it.

A session's credit is a limit on the attempts outstanding on it. A coordinator that was told a lower limit may not have
heard of it yet, so a session counts with the highest limit it could still believe in (its exposure), until it confirms
the lower one; only then is the difference given to others. Every session has at least one: a crew with more
coordinators than a worker has room for still makes progress.
"""

from collections.abc import Iterable, Iterator

from quarterdeck.core.workcoord.worker.records import WorkerSession


def divide(room: int, sessions: Iterable[WorkerSession]) -> Iterator[tuple[WorkerSession, int]]:
    """The sessions whose credit is to change now, with the new one. The caller announces and records each."""
    sessions = list(sessions)
    if not sessions:
        return
    room = max(room, len(sessions))
    each, extra = divmod(room, len(sessions))
    unclaimed = room - sum(session.exposure for session in sessions)
    for place, session in enumerate(sessions):
        share = each + (1 if place < extra else 0)
        if session.granted > share:
            yield session, share
        elif session.granted < share:
            raised = min(share, session.exposure + max(0, unclaimed))
            if raised > session.granted:
                unclaimed -= max(0, raised - session.exposure)
                yield session, raised
