"""Somebody who asks light things one after the other while others attack, and what the processes take meanwhile."""

import http.client
import statistics
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

import psutil

from tests.e2e.crew import PATIENCE_S, Document, Member, until
from tests.e2e.door import Door, RefusedError, Scan, Served
from tests.e2e.lake import Lake, same, truth
from tests.e2e.log_lines import Logs, search
from tests.e2e.promql import answer
from tests.e2e.samples import Samples

MB: Final = 1024 * 1024
NEAR_MB: Final = 100
CALM_ROUNDS: Final = 8
"""Of all questions, before the attack."""
LEAST_ROUNDS: Final = 12
"""Beside an attack that can go on for so long."""
SLOW_S: Final = 1.0
SLOWEST_S: Final = 5.0
"""Of a few dozen answers the 99th percentile is the slowest one, which a test beside this one may have held up for a
moment. One that an attack holds up takes as long as the attack."""
SLOWER: Final = 10
_PAUSE_S: Final = 0.02
_SCANNED: Final = 4


@dataclass(frozen=True, slots=True)
class Question:
    name: str
    ask: Callable[[], Any]
    is_right: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Reached:
    """By where it always is, whether it runs or not: nobody waits here for one that is being started."""

    door: Door


def light_query(coordinator: Served, samples: Samples) -> Question:
    wanted = samples.ask("sum by (job) (rate($m[5m]))")
    expected = samples.truth(wanted)

    def ask() -> list[Document]:
        reply = answer(coordinator.door, wanted)
        if reply.status != http.client.OK:
            raise RefusedError(reply.status, reply.body)
        return reply.result

    return Question("query", ask, lambda found: found == expected)


def light_scan(coordinator: Served, lake: Lake) -> Question:
    sql, files = "SELECT id, host, value FROM files WHERE id % 3 = 0", lake.files[:_SCANNED]
    expected = truth(sql, files)
    return Question("scan", lambda: coordinator.door.scan(Scan(sql, files)).table, lambda found: same(found, expected))


def light_search(coordinator: Served, logs: Logs) -> Question:
    expected = logs.truth("SELECT count(*) AS count FROM logs WHERE level = 'error'")
    return Question(
        "search",
        lambda: search(coordinator, "level=error | count()", [logs.source]).rows,
        lambda found: found == expected,
    )


@dataclass(slots=True)
class Told:
    """What became of the questions."""

    took_s: list[float] = field(default_factory=list[float])
    errors: list[str] = field(default_factory=list[str])
    wrong: list[str] = field(default_factory=list[str])

    @property
    def median_s(self) -> float:
        return statistics.median(self.took_s) if self.took_s else 0.0

    @property
    def p99_s(self) -> float:
        return sorted(self.took_s)[int(0.99 * len(self.took_s))] if self.took_s else 0.0


class Innocent:
    """Use it as a context. First it asks while nothing else happens; then the block is the attack. At its end all
    answers were right, none was refused, and none took long."""

    def __init__(self, questions: Sequence[Question], *, may_fail: tuple[type[Exception], ...] = ()) -> None:
        """Where processes are killed too, a question may be answered with one of these errors; then it is only counted,
        and nothing is said of how long answers take."""
        self._questions = questions
        self._may_fail = may_fail
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask_on, name="innocent")
        self._rounds = 0
        self.before = Told()
        self.during = Told()

    def still(self) -> Generator[None]:
        """For an attack that is over in no time: again and again, at least once, until enough was asked beside it."""
        yield
        while self._rounds < LEAST_ROUNDS and self._thread.is_alive():
            yield

    def __enter__(self) -> Self:
        for _ in range(CALM_ROUNDS):
            self._round(self.before)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(PATIENCE_S)
        print(
            f"innocent: {len(self.during.took_s)} answers, p99 {self.during.p99_s:.3f} s beside the attack and "
            f"{self.before.p99_s:.3f} s before it, {len(self.during.errors)} errors"
        )
        if error is None:
            self._insist()

    def _insist(self) -> None:
        assert not self._thread.is_alive(), "a question has no answer"
        assert not self.before.wrong + self.during.wrong
        assert not self.before.errors, self.before.errors[:5]
        assert self.during.took_s, "it was asked beside the attack"
        if not self._may_fail:
            assert not self.during.errors, self.during.errors[:5]
            # A second, on a machine that has time. One that is busy with other tests is slow for everybody: there the
            # attack may not make it much slower than it was for the same questions right before.
            for what, now_s, before_s, slow_s in (
                ("half of the answers", self.during.median_s, self.before.median_s, SLOW_S),
                ("the slowest answers", self.during.p99_s, self.before.p99_s, SLOWEST_S),
            ):
                most_s = max(slow_s, SLOWER * before_s)
                assert now_s <= most_s, f"{what} took {now_s:.2f} s, and {before_s:.2f} s before the attack"

    def _ask_on(self) -> None:
        """At least once around."""
        while True:
            self._round(self.during)
            self._rounds += 1
            if self._over.wait(_PAUSE_S):
                return

    def _round(self, told: Told) -> None:
        for question in self._questions:
            began_s = time.monotonic()
            try:
                found = question.ask()
            except Exception as error:  # noqa: BLE001 - told at the end
                if not isinstance(error, self._may_fail):
                    told.wrong.append(f"{question.name}: {error!r}")
                told.errors.append(f"{question.name}: {error!r}")
                self._over.wait(_PAUSE_S)
                continue
            told.took_s.append(time.monotonic() - began_s)
            if not question.is_right(found):
                told.wrong.append(f"{question.name}: {found!r}"[:2000])


class Memory:
    """What processes took at one moment, each with its engines."""

    def __init__(self, members: Iterable[Member]) -> None:
        self._members = list(members)
        self.before = {member.name: _taken_bytes(member) for member in self._members}

    def wait_back(self) -> None:
        """They are as large as they were, or nearly: what is free is given back when nothing runs."""
        for member in self._members:
            most = self.before[member.name] + NEAR_MB * MB
            until(
                lambda member=member, most=most: _taken_bytes(member) < most,
                f"{member.name} is as small as before, {self.before[member.name] // MB} MB: "
                f"it has {_taken_bytes(member) // MB} MB",
            )

    def told(self) -> str:
        return ", ".join(
            f"{member.name} {self.before[member.name] // MB} -> {_taken_bytes(member) // MB} MB"
            for member in self._members
        )


def _taken_bytes(member: Member) -> int:
    """The process, and what its engines have of their own: they are forks, and share the rest."""
    taken = member.figures.memory_info().rss
    for child in member.figures.children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # engines come and go
            taken += child.memory_full_info().uss
    return taken
