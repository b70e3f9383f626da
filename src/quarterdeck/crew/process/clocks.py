"""The clock, the ids and the chance of a real process."""

import time
import uuid

from quarterdeck.core.ids import QueryId, SessionId


class MonotonicClock:
    """Seconds since the machine started, which no administrator can step."""

    def now(self) -> float:
        return time.monotonic()


class RandomIds:
    """Ids that nobody else makes."""

    def session_id(self) -> SessionId:
        return SessionId(uuid.uuid4().hex)

    def query_id(self) -> QueryId:
        return QueryId(uuid.uuid4().hex)
