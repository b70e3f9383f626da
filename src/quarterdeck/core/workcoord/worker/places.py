"""The places of a worker: which attempts run, and which one is next.

A kind is never kept waiting by other kinds alone: each has a place of its own, and what comes on top shares the rest of
the slots (`Load`). In the line of a kind queries take turns, so that a light one does not stand behind thirty works of
a heavy one, and works that are known to be light have their turns first; kinds take turns for a place that any of them
may have. Nothing here is linear in the number of attempts,
except `waiting`.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import TypeAlias

from quarterdeck.core.ids import QueryId
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.load import LightFirst, Load
from quarterdeck.core.workcoord.model import AttemptId
from quarterdeck.core.workcoord.worker.records import WorkerAttempt

_Queries: TypeAlias = OrderedDict[QueryId, OrderedDict[AttemptId, WorkerAttempt]]


class _Line:
    """Of one kind."""

    __slots__ = ("light", "others", "turns")

    def __init__(self) -> None:
        self.light: _Queries = OrderedDict()
        self.others: _Queries = OrderedDict()
        self.turns = LightFirst()

    def __bool__(self) -> bool:
        return bool(self.light or self.others)

    def of(self, attempt: WorkerAttempt) -> _Queries:
        return self.light if attempt.spec.is_light else self.others

    def head(self) -> WorkerAttempt:
        queries = next(queries for queries in self.turns.order(self.light, self.others) if queries)
        return next(iter(next(iter(queries.values())).values()))


class Places:
    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._running = Load()
        self._lines: OrderedDict[WorkKind, _Line] = OrderedDict()
        """Kinds and queries of which nothing waits are not in here."""
        self.queued = 0
        """How many wait."""

    @property
    def busy(self) -> int:
        """How many run, or have not stopped yet."""
        return self._running.total

    def running(self, kind: WorkKind) -> int:
        return self._running.of_kind(kind)

    def waiting(self) -> Iterator[WorkerAttempt]:
        for line in self._lines.values():
            for attempts in (*line.light.values(), *line.others.values()):
                yield from attempts.values()

    def enter(self, attempt: WorkerAttempt) -> bool:
        """Whether it has a place at once; else it stands in line."""
        kind = attempt.spec.kind
        line = self._lines.get(kind)
        if line is None:  # then none of its kind waits, and it pushes in front of nobody
            if self._running.has_room(kind, self._slots):
                self._running.add(kind)
                return True
            line = self._lines[kind] = _Line()
        queries = line.of(attempt)
        attempts = queries.get(attempt.attempt_id.key.query_id)
        if attempts is None:
            attempts = queries[attempt.attempt_id.key.query_id] = OrderedDict()
        attempts[attempt.attempt_id] = attempt
        self.queued += 1
        return False

    def leave_line(self, attempt: WorkerAttempt) -> None:
        """It will not run: canceled, or given back."""
        kind, query_id = attempt.spec.kind, attempt.attempt_id.key.query_id
        line = self._lines[kind]
        queries = line.of(attempt)
        attempts = queries[query_id]
        del attempts[attempt.attempt_id]
        if not attempts:
            del queries[query_id]
            if not line:
                del self._lines[kind]
        self.queued -= 1

    def take_next(self) -> WorkerAttempt | None:
        """Who has a place now and leaves the line for it; None when nobody has."""
        for kind, line in self._lines.items():
            if self._running.has_room(kind, self._slots):
                attempt = line.head()
                line.of(attempt).move_to_end(attempt.attempt_id.key.query_id)
                line.turns.had(is_light=attempt.spec.is_light)
                self._lines.move_to_end(kind)
                self.leave_line(attempt)
                self._running.add(kind)
                return attempt
        return None

    def give_back(self, kind: WorkKind) -> None:
        """What had a place has ended."""
        self._running.remove(kind)
