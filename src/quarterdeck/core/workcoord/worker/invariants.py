"""What is always true of a worker's records between two steps. Linear in everything: for tests and the simulator."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from quarterdeck.core.workcoord.worker.tables import AttemptState

if TYPE_CHECKING:
    from quarterdeck.core.workcoord.worker.machine import WorkerMachine

_STOPPABLE = (AttemptState.STOPPING, AttemptState.LINGERING)


def claims(machine: "WorkerMachine") -> Iterator[tuple[bool, str]]:
    """Claims about the whole, each with whether it holds."""
    info = machine.config.info
    attempts, sessions = list(machine.attempts()), list(machine.sessions())
    in_slots = sum(attempt.in_slot for attempt in attempts)
    yield machine.busy_slots == in_slots, f"{machine.busy_slots} slots are said to be busy, {in_slots} are"
    yield in_slots <= info.slots, f"{in_slots} attempts run in {info.slots} slots"
    room = max(info.slots + info.queue_places, len(sessions))
    granted = sum(session.granted for session in sessions)
    yield granted <= room, f"a credit of {granted} was given for a room of {room}"
    for session in sessions:
        outstanding = sum(attempt.takes_credit for attempt in session.attempts.values())
        name = f"session {session.session_id}"
        yield session.outstanding == outstanding, f"{name} counts {session.outstanding} outstanding, not {outstanding}"
        yield outstanding <= session.exposure, f"{name} has {outstanding} attempts beyond its credit"
    live = {session.session_id for session in sessions}
    for attempt in attempts:
        gone = attempt.bound_to is not None and attempt.bound_to not in live
        name = f"{attempt.attempt_id} is {attempt.state}"
        yield not gone or attempt.state in _STOPPABLE, f"{name} for a session that is gone"
        yield attempt.state is not AttemptState.ENDED, f"{name} and still here"
