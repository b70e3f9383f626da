"""A light query beside a long one, with real drivers on both sides and virtual time: it does not wait for the long one.

And a poisonous work, which ends each worker that runs it, beside an innocent one.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from quarterdeck.control.link import Envelope, LinkClosedError
from quarterdeck.core.errors import ErrorCode
from quarterdeck.core.ids import CoordinatorId, Incarnation, LeafId, QueryId, WorkerId, WorkId
from quarterdeck.core.workcoord.coordinator import CoordinatorConfig, CoordinatorMachine
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.model import Artifact, AttemptId, WorkerInfo, WorkKey, WorkSpec
from quarterdeck.core.workcoord.worker import WorkerConfig, WorkerMachine
from quarterdeck.crew.coordinator import CoordinatorDriver, QueryHandle
from quarterdeck.crew.worker import WorkerDriver
from tests.crew.played import ARTIFACT, CountedIds, LoopClock, PlayedExecutor, PlayedFetcher, now_s, played

LEAF, SCAN = WorkKind("leaf"), WorkKind("scan")
LONG_S = 38.0
LIGHT_S = 0.02
DELAY_S = 0.001
"""Of the network."""


class End:
    """One end of a connection whose other end is a driver too."""

    def __init__(self, peer: str) -> None:
        self._peer = peer
        self._incoming: deque[Envelope] = deque()
        self._changed = asyncio.Event()
        self._closed = False
        self.other: End

    @property
    def peer(self) -> str:
        return self._peer

    async def send(self, envelope: Envelope) -> None:
        await asyncio.sleep(DELAY_S)
        if self._closed:
            raise LinkClosedError("closed")
        self.other.put(envelope)

    def put(self, envelope: Envelope) -> None:
        self._incoming.append(envelope)
        self._changed.set()

    async def receive(self) -> Envelope:
        while not self._incoming:
            if self._closed:
                raise LinkClosedError("closed")
            self._changed.clear()
            await self._changed.wait()
        return self._incoming.popleft()

    def close(self) -> None:
        for end in (self, self.other):
            end._closed = True
            end._changed.set()


@dataclass
class Crew:
    """A coordinator and workers with one slot each; a work takes as long as its name says, or ends its worker."""

    tasks: list["asyncio.Task[object]"] = field(default_factory=list["asyncio.Task[object]"])
    executors: dict[str, PlayedExecutor] = field(default_factory=dict[str, PlayedExecutor])
    died: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.machine = CoordinatorMachine(CoordinatorConfig(CoordinatorId("c0")))
        self.driver: CoordinatorDriver[str] = CoordinatorDriver(
            self.machine, clock=LoopClock(), ids=CountedIds(), fetcher=PlayedFetcher()
        )
        self.tasks.append(asyncio.create_task(self.driver.run()))

    async def join(self, name: str) -> None:
        kinds = frozenset({LEAF, SCAN})
        info = WorkerInfo(WorkerId(name), Incarnation(1), kinds, slots=1, queue_places=8)
        executor = self.executors[name] = PlayedExecutor()
        driver = WorkerDriver(WorkerMachine(WorkerConfig(info)), clock=LoopClock(), executor=executor)
        ours, theirs = End("c0"), End(name)
        ours.other, theirs.other = theirs, ours

        async def work(attempt: AttemptId, progress: Callable[[float], None]) -> Artifact:
            await asyncio.sleep(LONG_S if "long" in attempt.key.work_id else LIGHT_S)
            if "poison" in attempt.key.work_id:
                self.died.append(name)
                theirs.close()
                await asyncio.Event().wait()
            return ARTIFACT

        executor.work = work
        self.tasks += [asyncio.create_task(driver.run()), asyncio.create_task(driver.serve(ours))]
        self.tasks.append(asyncio.create_task(self.driver.serve(theirs)))
        while self.machine.roster.of_worker(WorkerId(name)) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)

    def ask(self, *works: str, kind: WorkKind = SCAN) -> QueryHandle[str]:
        handle = self.driver.open_query(QueryId(f"query of {works[0]}"), None)
        for name in works:
            key = WorkKey(handle.query_id, LeafId("l"), WorkId(name))
            handle.submit(WorkSpec(key, kind, affinity_key="same"))
        handle.seal()
        return handle

    async def leave(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)


async def took_s(handle: QueryHandle[str]) -> float:
    began_s = now_s()
    while await handle.next_result() is not None:
        pass
    return now_s() - began_s


@played
async def test_a_light_scan_beside_a_long_one_on_two_workers_does_not_wait_for_it() -> None:
    crew = Crew()
    await crew.join("w1")
    await crew.join("w2")
    crew.ask("long")
    await asyncio.sleep(1.0)
    assert await took_s(crew.ask("light")) < 0.5
    assert crew.machine.counters["recalled"] == 1
    await crew.leave()


@played
async def test_many_light_scans_behind_a_long_one_all_get_through_on_the_other_worker() -> None:
    crew = Crew()
    await crew.join("w1")
    await crew.join("w2")
    crew.ask("long")
    await asyncio.sleep(1.0)
    lights = [asyncio.create_task(took_s(crew.ask(f"light {number}"))) for number in range(12)]
    assert max([await light for light in lights]) < 5.0
    await crew.leave()


@played
async def test_a_light_leaf_beside_long_scans_on_one_worker_with_one_slot_does_not_wait_for_them() -> None:
    crew = Crew()
    await crew.join("w1")
    crew.ask(*(f"long {number}" for number in range(30)))
    await asyncio.sleep(1.0)
    assert await took_s(crew.ask("light", kind=LEAF)) < 0.5
    await crew.leave()


@played
async def test_a_poisonous_work_is_quarantined_after_three_workers_and_an_innocent_one_gets_its_answer() -> None:
    crew = Crew()
    await crew.join("w1")
    poison, innocent = crew.ask("poison"), crew.ask("innocent")
    for name in ("w2", "w3", "w4"):
        await crew.join(name)
    await took_s(poison)
    await took_s(innocent)
    assert poison.ended is not None
    assert poison.ended.error is not None
    assert poison.ended.error.code == ErrorCode.QUARANTINED
    assert innocent.ended is not None
    assert innocent.ended.error is None
    assert len(crew.died) == 3
    assert [each.key.work_id for each in crew.executors["w1"].started] == ["poison"]
    await crew.leave()
