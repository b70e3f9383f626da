"""What is always true of a worker's records between two steps. Linear in everything: for tests and simulation."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from quarterdeck.core.invariants import Claim
from quarterdeck.core.workcoord.worker.tables import AttemptState

if TYPE_CHECKING:
    from quarterdeck.core.workcoord.worker.machine import WorkerMachine

_WITHOUT_SESSION = (AttemptState.STOPPING, AttemptState.LINGERING)


def claims(machine: "WorkerMachine") -> Iterator[Claim]:
    info = machine.config.info
    attempts, sessions = list(machine.attempts()), list(machine.sessions())
    in_slots = sum(attempt.in_slot for attempt in attempts)
    yield machine.busy_slots == in_slots, "%s slots are said to be busy, %s are", (machine.busy_slots, in_slots)
    most = info.slots + len(info.kinds) - 1
    yield in_slots <= most, "%s attempts run where %s may", (in_slots, most)
    waiting = list(machine.places.waiting())
    queued = sum(attempt.state is AttemptState.QUEUED for attempt in attempts)
    yield len(waiting) == machine.queued == queued, "%s attempts stand in line, %s wait", (len(waiting), queued)
    for attempt in waiting:
        kind = attempt.spec.kind
        yield machine.places.running(kind) > 0, "%s waits, and no %s runs", (attempt.attempt_id, kind)
    room = max(info.slots + info.queue_places, len(sessions))
    granted = sum(session.granted for session in sessions)
    yield granted <= room, "a credit of %s was given for a room of %s", (granted, room)
    for session in sessions:
        counted = len(session.attempts)
        name, said = session.session_id, session.outstanding
        yield said == counted, "session %s counts %s attempts, not %s", (name, said, counted)
    live = {session.session_id for session in sessions}
    for attempt in attempts:
        gone = attempt.bound_to not in live
        about = (attempt.attempt_id, attempt.state)
        yield not gone or attempt.state in _WITHOUT_SESSION, "%s is %s for a session that is gone", about
        yield attempt.state is not AttemptState.ENDED, "%s is %s and still here", about
