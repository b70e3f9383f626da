"""The clock, the ids and the chance of a real process."""

import time
import uuid

from quarterdeck.core.ids import CandidateId, QueryId, SessionId


class MonotonicClock:
    """Seconds since the machine started, which no administrator can step."""

    def now(self) -> float:
        return time.monotonic()


class RandomIds:
    """Ids that nobody else makes."""

    def session_id(self) -> SessionId:
        return SessionId(uuid.uuid4().hex)

    def candidate_id(self) -> CandidateId:
        return CandidateId(uuid.uuid4().hex)

    def query_id(self) -> QueryId:
        return QueryId(uuid.uuid4().hex)

    def reservation_id(self) -> str:
        return uuid.uuid4().hex


def wall_us() -> int:
    """The time of day in microseconds since 1970, as this machine believes."""
    return time.time_ns() // 1000
