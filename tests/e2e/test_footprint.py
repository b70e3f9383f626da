"""What processes take: next to nothing when idle, and a bounded amount of memory whatever is asked of them."""

import asyncio
import contextlib
import re
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pytest
from pyarrow import compute  # pyright: ignore[reportMissingTypeStubs]

from quarterdeck.core.workcoord.messages import CreditChanged, Register, Registered, WorkerBeat
from quarterdeck.core.workcoord.model import WorkerStatus
from tests.e2e.crew import Coordinator, Crew, Member, Worker, until
from tests.e2e.door import Scan
from tests.e2e.impostors import dialled, worker_info
from tests.e2e.lake import Lake, multiplied, truth

pytestmark = pytest.mark.xdist_group("e2e-footprint")

_SLEPT: Final = re.compile(r"^voluntary_ctxt_switches:\s+(\d+)", re.MULTILINE)
_arrow: Final[Any] = pyarrow
_compute: Final[Any] = compute

MB: Final = 1024 * 1024
BEFORE_A_QUERY_MB: Final = 140
RISE_MB: Final = 300
IDLE_WAKES: Final = 600
"""A second. Whoever asks every millisecond whether there is something to do adds a thousand."""
IDLE_SHARE: Final = 0.05
"""Of a core. A loop that never sleeps takes all of it."""
IDLE_S: Final = 5.0
QUEUED: Final = 10_000
CUT_OFF_WITHIN_S: Final = 10.0
"""Well before a write that stands still would end the session."""
_LOW_BITS: Final = _arrow.scalar(0xFFFF, _arrow.uint64())
ACCEPTING: Final = WorkerStatus(accepting_work=True)


def random_rows(count: int) -> str:
    """Rows of 16 bytes that cannot be compressed."""
    return f"SELECT hash(i) AS a, hash(i + 1) AS b FROM range({count}) t(i)"


class Ship:
    """A coordinator and a worker with one session, and what they take when idle."""

    def __init__(self, coordinator: Coordinator, worker: Worker) -> None:
        self.coordinator = coordinator
        self.worker = worker
        self.members: Sequence[Member] = (coordinator, worker)
        self.idle_bytes = {member.name: member.figures.memory_info().rss for member in self.members}


@pytest.fixture(scope="module")
def ship(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ship]:
    with Crew(tmp_path_factory.mktemp("ship")) as crew:
        coordinator = crew.coordinator(window_works=QUEUED, scan__scans_at_once=1000)
        worker = crew.worker("alone", join=[coordinator.control])
        coordinator.wait_for(worker)
        yield Ship(coordinator, worker)


class MemoryWatch:
    """Looks at the memory of processes all the while, and insists that it has not risen too much."""

    def __init__(self, ship: Ship) -> None:
        self._ship = ship
        self._most_bytes = dict(ship.idle_bytes)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="watch memory")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        if error is None:
            rise = {name: (most - self._ship.idle_bytes[name]) / MB for name, most in self._most_bytes.items()}
            print(f"memory rose by { ({name: f'{mb:.0f} MB' for name, mb in rise.items()}) }")
            assert max(rise.values()) <= RISE_MB, rise

    def _look(self) -> None:
        while not self._over.wait(0.02):
            for member in self._ship.members:
                now = member.figures.memory_info().rss
                self._most_bytes[member.name] = max(now, self._most_bytes[member.name])


def wait_quiet(ship: Ship) -> None:
    """Nothing is left of what was asked."""
    until(lambda: not ship.coordinator.running(), "no query runs")
    until(lambda: ship.worker.busy == ship.worker.queued == 0, "the worker has nothing to do")
    until(lambda: not list((ship.coordinator.folder / "spool").iterdir()), "no fetched result is left")
    until(lambda: not ship.worker.artifact_files, "no artifact is left")


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="code that was used to start is kept in memory")
def test_a_process_takes_at_most_140_mb_before_its_first_query(ship: Ship) -> None:
    """Also a coordinator that has only just made its database."""
    taken = {name: size_bytes / MB for name, size_bytes in ship.idle_bytes.items()}
    print(f"before a query: { ({name: f'{mb:.0f} MB' for name, mb in taken.items()}) }")
    assert max(taken.values()) <= BEFORE_A_QUERY_MB, taken


def wakes(member: Member) -> int:
    """How often its threads went to sleep, in all its life."""
    found = 0
    for task in Path(f"/proc/{member.pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            found += int(_SLEPT.findall((task / "status").read_text())[0])
    return found


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the system tells nobody of its threads")
def test_an_idle_crew_wakes_rarely_and_takes_next_to_nothing(ship: Ship) -> None:
    """On a quiet machine some 260 times a second and 0.8 % of a core. A busy one takes more time for the same."""
    before = {member.name: (wakes(member), sum(member.figures.cpu_times()[:2])) for member in ship.members}
    began_s = time.monotonic()
    time.sleep(IDLE_S)
    took_s = time.monotonic() - began_s
    for member in ship.members:
        woke, used_s = before[member.name]
        rate, share = (wakes(member) - woke) / took_s, (sum(member.figures.cpu_times()[:2]) - used_s) / took_s
        print(f"idle: {member.name} woke {rate:.0f} times a second and took {share:.2%} of a core")
        assert rate < IDLE_WAKES, member.name
        assert share < IDLE_SHARE, member.name


def test_a_client_that_reads_slowly_costs_no_memory(ship: Ship, lake: Lake) -> None:
    files = lake.files[:56]
    scan = Scan(random_rows(500_000), files)
    with MemoryWatch(ship), ship.coordinator.door.begun(scan) as connection:
        response = connection.getresponse()
        query = ship.coordinator.query(str(response.headers["x-query-id"]))
        while query["delivered"] != len(files):
            assert query["state"] in {"running", "succeeded"}
            assert response.read(10)
            time.sleep(0.05)
            query = ship.coordinator.query(str(query["query_id"]))
        assert query["artifact_bytes"] > 400 * MB
    wait_quiet(ship)


def wait_cut_off(coordinator: Coordinator) -> None:
    until(lambda: "deaf" not in coordinator.workers(), "it is cut off for what it did not read", CUT_OFF_WITHIN_S)


async def stand_deaf(ship: Ship, tenant: str, lake: Lake) -> None:
    """A worker that takes everything and reads nothing, while clients ask for more than its connection holds."""
    coordinator = ship.coordinator
    scan = Scan(f"SELECT 1 /* {'x' * 95_000} */", lake.files[:16], tenant)
    with contextlib.ExitStack() as clients:
        async with dialled(coordinator.control, "deaf") as deaf:
            await deaf.say(Register(worker_info("deaf", tenant=tenant, places=100_000), ACCEPTING))
            deaf.session_id = (await deaf.hear_a(Registered)).session_id
            await deaf.say(WorkerBeat(ACCEPTING), CreditChanged(100_000))
            beats = asyncio.create_task(deaf.keep_saying(WorkerBeat(ACCEPTING)))
            for _ in range(240):
                if "deaf" not in await asyncio.to_thread(coordinator.workers):
                    break
                await asyncio.to_thread(lambda: clients.enter_context(coordinator.door.begun(scan)))
            await asyncio.to_thread(wait_cut_off, coordinator)
            beats.cancel()
            await asyncio.wait((beats,))


def test_a_worker_that_never_reads_is_cut_off_before_it_costs_memory(ship: Ship, lake: Lake, tenant: str) -> None:
    disconnects = "quarterdeck_coordinator_disconnects_total"
    before = ship.coordinator.door.metric(disconnects, "not_reading")
    with MemoryWatch(ship):
        asyncio.run(stand_deaf(ship, tenant, lake))
    assert ship.coordinator.door.metric(disconnects, "not_reading") == before + 1
    wait_quiet(ship)


@pytest.mark.parametrize("rows", [13_000_000, pytest.param(66_000_000, marks=pytest.mark.soak)], ids=["200MB", "1GB"])
def test_a_large_result_passes_through_without_being_held(ship: Ship, rows: int) -> None:
    total = found = 0
    with MemoryWatch(ship), ship.coordinator.door.begun(Scan(random_rows(rows))) as connection:
        response = connection.getresponse()
        query_id = str(response.headers["x-query-id"])
        for batch in _arrow.ipc.open_stream(response):
            found += batch.num_rows
            total += _compute.sum(_compute.bit_wise_and(batch.column("a"), _LOW_BITS)).as_py()
    assert found == rows
    assert ship.coordinator.query(query_id)["artifact_bytes"] > 15 * rows
    expected = truth(f"SELECT sum(a & 65535)::BIGINT AS total FROM ({random_rows(rows)})", [])
    assert total == expected.column("total")[0].as_py()
    wait_quiet(ship)


def test_ten_thousand_works_that_wait_fit_into_memory(
    ship: Ship, lake: Lake, tmp_path_factory: pytest.TempPathFactory
) -> None:
    many = multiplied(lake, tmp_path_factory.mktemp("many") / "files", QUEUED + 200)
    scan = Scan("SELECT count(*) AS n FROM files", [many.source])
    with MemoryWatch(ship), ship.coordinator.door.begun(scan):
        until(
            lambda: ship.coordinator.door.get("/v1/crew")["coordinator"]["queue_depth"] >= QUEUED - 100,
            "ten thousand works wait",
        )
    wait_quiet(ship)
