"""Everything breaks at random for minutes, under load: answers are right or errors told, and in the end all heals."""

import contextlib
import heapq
import http.client
import itertools
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.e2e.conftest import in_rotation
from tests.e2e.crew import PATIENCE_S, Coordinator, Crew, Member, MemberT, Worker, until
from tests.e2e.door import RefusedError, Scan
from tests.e2e.lake import ALL, Lake, burning, same, truth
from tests.e2e.proxy import Proxy

pytestmark = [pytest.mark.soak, pytest.mark.timeout(0), pytest.mark.xdist_group("e2e-chaos")]

CHAOS_S = float(os.environ.get("QUARTERDECK_CHAOS_S", "300"))
SEED = int(os.environ.get("QUARTERDECK_CHAOS_SEED", str(random.SystemRandom().randrange(2**32))))
WORKERS = 4
CLIENTS = 4
ENDS = {0, 130, -signal.SIGKILL, -signal.SIGTERM}
"""How a process may end that was told to stop: in order, in a hurry, killed meanwhile, or before it heard signals."""
TOLD = (RefusedError, OSError, http.client.HTTPException)
"""How a client learns that there is no answer: an error, no connection, or one that is cut in the middle."""


@dataclass(frozen=True, slots=True)
class Place:
    """A worker, and the networks around it."""

    worker: Worker
    lines: tuple[Proxy, ...]
    """To each coordinator."""
    results: Proxy
    """From each coordinator."""


@dataclass(slots=True)
class Sea:
    chance: random.Random
    coordinators: list[Coordinator]
    places: list[Place]
    happened: Counter[str] = field(default_factory=Counter[str])
    answers: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])
    reached: set[int] = field(default_factory=set[int])
    """Processes whose results can be fetched."""
    mending: list[tuple[float, int, Callable[[], object]]] = field(default_factory=list[Any])
    """What will be mended, and when; the number tells apart what is due at the same time."""

    # Disasters: each mends later what it broke, while the next ones happen

    def kill_a_worker(self) -> None:
        worker = self._running(place.worker for place in self.places)
        worker.kill()
        self._later(0.0, 3.0, lambda: revive(worker))

    def stop_a_worker_for_a_while(self) -> None:
        worker = self._running(place.worker for place in self.places)
        worker.send(signal.SIGSTOP)
        self._later(0.1, 6.0, lambda: worker.send(signal.SIGCONT))

    def drain_a_worker(self) -> None:
        worker = self._running(place.worker for place in self.places)
        worker.send(signal.SIGTERM)
        self._expect_end(worker)

    def ask_a_worker_to_drain(self) -> None:
        worker = self._running(place.worker for place in self.places)
        coordinator = self.chance.choice(self.coordinators)
        with contextlib.suppress(*TOLD):
            if coordinator.is_up and worker.is_up:
                coordinator.door.ask("POST", f"/v1/crew/{worker.name}/drain")
                worker.send(signal.SIGCONT)
                until(lambda: not worker.is_running or worker.log.find("draining, as a coordinator asked"), "it heard")
                self._expect_end(worker)

    def cut_a_line(self) -> None:
        self._line().cut()

    def close_a_line_for_a_while(self) -> None:
        line = self._line()
        line.refuse()
        line.cut()
        self._later(0.1, 4.0, line.restore)

    def stall_a_line_for_a_while(self) -> None:
        line = self._line()
        line.stall()
        self._later(0.1, 5.0, line.restore)

    def stall_results_for_a_while(self) -> None:
        results = self.chance.choice(self.places).results
        results.stall()
        self._later(0.1, 4.0, results.restore)

    def damage_results_for_a_while(self) -> None:
        results = self.chance.choice(self.places).results
        results.damage()
        self._later(0.1, 2.0, results.restore)

    def kill_a_coordinator(self) -> None:
        coordinator = self._running(self.coordinators)
        coordinator.kill()
        self._later(0.0, 2.0, lambda: revive(coordinator))

    def stop_a_coordinator(self) -> None:
        coordinator = self._running(self.coordinators)
        coordinator.send(signal.SIGTERM)
        self._expect_end(coordinator)

    def mend(self, *, everything: bool = False) -> None:
        """What is due, or all there is."""
        while self.mending and (everything or self.mending[0][0] <= time.monotonic()):
            heapq.heappop(self.mending)[2]()
        for place in self.places:
            if place.worker.is_up and place.worker.pid not in self.reached:
                place.results.lead_to(place.worker.http)
                self.reached.add(place.worker.pid)

    def heal(self) -> None:
        self.mend(everything=True)
        for place in self.places:
            for proxy in (*place.lines, place.results):
                proxy.restore()
        workers = [place.worker for place in self.places]
        for member in (*self.coordinators, *workers):
            revive(member)
        for coordinator in self.coordinators:
            in_rotation(coordinator, workers)
        self.mend()

    def _running(self, members: "Iterable[MemberT]") -> "MemberT":
        """One of those that run; if none does, one that is started now."""
        everybody = list(members)
        return revive(self.chance.choice([member for member in everybody if member.is_running] or everybody))

    def _line(self) -> Proxy:
        return self.chance.choice(self.chance.choice(self.places).lines)

    def _expect_end(self, member: Member) -> None:
        """It was told to stop. Later it has done so in order, unless something killed it, and is started again."""
        process = member.process

        def insist() -> None:
            process.send_signal(signal.SIGCONT)
            code = process.wait(PATIENCE_S)
            assert code in ENDS, f"{member.name} was told to stop, and ended with {code}"
            revive(member)

        self._later(0.5, 4.0, insist)

    def _later(self, least_s: float, most_s: float, mend: Callable[[], object]) -> None:
        due_s = time.monotonic() + self.chance.uniform(least_s, most_s)
        heapq.heappush(self.mending, (due_s, next(_numbers), mend))


_numbers = itertools.count()


def revive(member: "MemberT") -> "MemberT":
    """Starts it, unless it runs."""
    return member if member.is_running else member.start()


@pytest.fixture
def sea(crew: Crew) -> Iterator[Sea]:
    print(f"QUARTERDECK_CHAOS_SEED={SEED}")
    coordinators = [crew.coordinator(f"c{number}", fetch_stall_timeout_s=3) for number in range(2)]
    with contextlib.ExitStack() as proxies:
        places: list[Place] = []
        for number in range(WORKERS):
            lines = tuple(proxies.enter_context(Proxy(coordinator.control)) for coordinator in coordinators)
            results = proxies.enter_context(Proxy())
            join = [line.address for line in lines]
            worker = crew.worker(f"w{number}", join=join, advertise_url=results.url, queue_places=8, artifact_ttl_s=20)
            places.append(Place(worker, lines, results))
        for coordinator in coordinators:
            coordinator.stay()
        yield Sea(random.Random(SEED), coordinators, places)


def ask_on(sea: Sea, lake: Lake, truths: dict[tuple[str, int], Any], over: threading.Event, seed: int) -> None:
    """One client: asks either coordinator, one query after the other, and compares."""
    chance = random.Random(seed)
    while not over.is_set():
        (sql, files), expected = chance.choice(list(truths.items()))
        coordinator = chance.choice(sea.coordinators)
        try:
            answer = coordinator.door.scan(Scan(sql, lake.files[:files], timeout_s=30))
        except TOLD as error:
            sea.answers[type(error).__name__] += 1
            over.wait(0.05)  # a coordinator that is away is not asked a thousand times a second
            continue
        except AssertionError:
            continue  # the coordinator is being started
        if same(answer.table, expected):
            sea.answers["right"] += 1
        else:
            sea.wrong.append(f"{sql} over {files} files at {coordinator.name}: query {answer.query_id}")


def test_under_random_disasters_every_answer_is_right_or_an_error_and_at_the_end_all_heals(
    sea: Sea, lake: Lake
) -> None:
    truths = {
        (sql, files): truth(sql, lake.files[:files]) for sql in (ALL, burning(0.2), burning(2)) for files in (1, 8, 64)
    }
    sea.heal()
    over = threading.Event()
    clients = [
        threading.Thread(target=ask_on, args=(sea, lake, truths, over, SEED + number), name=f"client {number}")
        for number in range(CLIENTS)
    ]
    for client in clients:
        client.start()
    try:
        create_havoc(sea)
    finally:
        over.set()
        for client in clients:
            client.join()
    print(f"disasters: {dict(sea.happened)}; answers: {dict(sea.answers)}")
    assert not sea.wrong
    assert sea.answers["right"] > CHAOS_S / 20, "clients got through"

    sea.heal()
    for coordinator in sea.coordinators:
        assert same(coordinator.door.scan(Scan(ALL, [lake.source])).table, lake.truth(ALL))
    insist_nothing_left(sea)


def create_havoc(sea: Sea) -> None:
    disasters: list[Callable[[], None]] = [
        sea.kill_a_worker,
        sea.stop_a_worker_for_a_while,
        sea.drain_a_worker,
        sea.ask_a_worker_to_drain,
        sea.cut_a_line,
        sea.close_a_line_for_a_while,
        sea.stall_a_line_for_a_while,
        sea.stall_results_for_a_while,
        sea.damage_results_for_a_while,
        sea.kill_a_coordinator,
        sea.stop_a_coordinator,
    ]
    ends_at_s = time.monotonic() + CHAOS_S
    while time.monotonic() < ends_at_s:
        disaster = sea.chance.choice(disasters)
        disaster()
        sea.happened[disaster.__name__] += 1
        next_s = time.monotonic() + sea.chance.uniform(0.5, 4.0)
        while time.monotonic() < next_s:
            sea.mend()
            time.sleep(0.02)


def insist_nothing_left(sea: Sea) -> None:
    for coordinator in sea.coordinators:
        until(lambda c=coordinator: not c.running(), "no query runs")
        until(
            lambda c=coordinator: all(worker["in_flight"] == 0 for worker in c.workers().values()),
            "no work is in flight",
        )
        until(lambda c=coordinator: not list((c.folder / "spool").iterdir()), "no fetched result is left")
    for place in sea.places:
        until(lambda w=place.worker: w.busy == w.queued == 0, "no worker does anything")
        until(lambda w=place.worker: not w.artifact_files, "no artifact is left")
        until(lambda w=place.worker: w.door.metric("quarterdeck_worker_artifacts") == 0, "nor in memory")
