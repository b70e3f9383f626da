"""The world of recruiting: plays one scenario, heals everything that heals, and sees whether all promises were kept.

At the end
- every search whose root lived has ended: each chunk is in its answer once, or named as missing;
- every worker that lives is registered again, within the time that the slowest timer takes, and nothing is reserved or
  searched for nobody, also where a root hangs and stays connected;
- every root can recruit all workers, at once, and they are back within a second after it has released them.
Where recruiters were away for a moment and nothing else went wrong, workers were back within a second each time.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from enum import StrEnum
from typing import Any, Final, TypeAlias, assert_never

from quarterdeck.recruiter.machine.reservation_table import ReservationState
from quarterdeck.search.world import faults as f
from quarterdeck.search.world.calls import is_reply
from quarterdeck.search.world.hosts import (
    IDLE_S,
    PROGRESS_S,
    RecruiterHost,
    RecruitingHost,
    RootHost,
    WorkerHost,
)
from quarterdeck.search.world.scenario import TROUBLE_S, Scenario, SearchLoad, only_outages
from quarterdeck.search.world.searches import PlayedSearch
from quarterdeck.search.world.watcher import RecruitingWatcher
from quarterdeck.simulation import faults as cf
from quarterdeck.simulation.exchange import ExchangeNetwork
from quarterdeck.simulation.failures import SimulationFailure
from quarterdeck.simulation.host import Host
from quarterdeck.simulation.hosts import seeded
from quarterdeck.simulation.loop import SimulatedLoop
from quarterdeck.simulation.outcome import PlayOutcome
from quarterdeck.simulation.process import Process
from quarterdeck.simulation.stage import Stage
from quarterdeck.simulation.trace import Trace
from quarterdeck.simulation.verdict import Violation

Outcome: TypeAlias = PlayOutcome[Scenario]
_Left: TypeAlias = Callable[[], str | None]

_PATIENCE_S: Final = 150.0
"""Virtual time after healing in which searches must have ended: one worker may have all their chunks to itself."""
_POLL_GRACE_S: Final = 10.0
"""How much longer than agreed a worker waits for the answer to its registration."""
_LONGEST_WAIT_S: Final = 11.0
"""Between two tries to register."""
_REVIVAL_S: Final = 0.5
"""How long a worker that a chunk killed takes to come up again."""
_END_S: Final = 12.0
"""How long a root that hangs can keep a connection when everything else is over."""
_PROBES: Final = 3
_STEP_LIMIT: Final = 400_000


def play(scenario: Scenario) -> Outcome:
    """Runs a scenario to its end, or to the first broken promise."""
    trace = Trace()
    outcome = Outcome(scenario, trace)
    loop = SimulatedLoop(seeded(scenario.seed, "order"), step_limit=_STEP_LIMIT)
    world = RecruitingWorld(scenario, loop, trace)
    loop.after_callback = world.watcher.stop_if_violated
    try:
        loop.run_until_complete(world.play())
    except (Violation, SimulationFailure) as failure:
        # A task or callback that a violation ends fails unseen; then the violation is what is to be told.
        found = world.watcher.found
        outcome.violation = str(found) if found is not None else f"{type(failure).__name__}: {failure}"
    finally:
        world.summarize(outcome)
        loop.close()
    return outcome


class RecruitingWorld(Stage[ExchangeNetwork]):
    def __init__(self, scenario: Scenario, loop: SimulatedLoop, trace: Trace) -> None:
        super().__init__(loop, ExchangeNetwork(loop, seeded(scenario.seed, "network")), trace)
        self.scenario = scenario
        self.chance = seeded(scenario.seed, "world")
        self.watcher = RecruitingWatcher(loop, trace)
        self.recruiters = {name: RecruiterHost(self, name) for name in scenario.recruiter_hosts}
        self.workers = {name: WorkerHost(self, name) for name in scenario.worker_hosts}
        self.roots = {name: RootHost(self, name) for name in scenario.root_hosts}
        self.searches: dict[str, PlayedSearch] = {}
        self._met: Counter[str] = Counter()
        self._moves: Counter[tuple[StrEnum, StrEnum]] = Counter()
        self._ends: Counter[str] = Counter()
        self._only_outages = only_outages(scenario)

    # For the hosts

    def host(self, name: str) -> RecruitingHost:
        hosts: dict[str, Any] = {"r": self.recruiters, "w": self.workers, "s": self.roots}
        return hosts[name[0]][name]

    def process_died(self, process: Process) -> None:
        self.watcher.open.pop(process.name, None)

    def last_look(self, host: Host[Any]) -> None:
        if isinstance(host, WorkerHost) and host.starts and host.alive:
            self._moves.update(host.machine.moves)

    def unexpected(self, error: Exception) -> None:
        """A request met an error that nobody expected."""
        self.watcher.violated(f"a request met {error!r}")

    def load_of(self, url: str) -> tuple[SearchLoad, int]:
        _, search, number = url.split("/")
        return self.searches[search].load, int(number)

    def dies_of(self, worker: WorkerHost, url: str) -> None:
        """A chunk takes more memory than a worker has."""
        self.note(f"{worker.name} dies of {url}")
        context = self.loop.context_of(None)
        self.loop.call_soon(self._kill, worker, worker.process, context=context)

    def _kill(self, worker: WorkerHost, process: Process) -> None:
        if worker.process is process and worker.alive:
            self.last_look(worker)
            worker.kill()
            self.restart_later(worker, _REVIVAL_S)

    def search_ended(self, search: PlayedSearch, end: str) -> None:
        search.end = end
        self.note(f"{search.name} ended: {end}")
        self._ends[end] += 1
        chunks = set(range(len(search.load.chunks)))
        if search.recruited:
            kept = sorted(worker.addr for worker in search.recruited)
            raise self.watcher.violated(f"{search.name} ended and did not release {kept[0]}")
        both = search.gathered & search.errors.keys()
        if both:
            raise self.watcher.violated(f"{search.name} has chunk {min(both)} in its answer and says it is missing")
        missing = chunks - search.gathered - search.errors.keys()
        if missing and end != "canceled":
            raise self.watcher.violated(f"{search.name} ended without chunk {min(missing)}, and does not say so")

    # The play

    async def play(self) -> None:
        hosts: list[Host[Any]] = [*self.recruiters.values(), *self.workers.values(), *self.roots.values()]
        for host in hosts:
            host.start()
        tasks = [
            self._spawn(self._strike(fault), f"fault {number}") for number, fault in enumerate(self.scenario.faults)
        ]
        tasks += [self._spawn(self._ask(f"q{n}", load), f"search {n}") for n, load in enumerate(self.scenario.searches)]
        await asyncio.sleep(TROUBLE_S)
        for task in tasks:
            await task
        for host in hosts:
            host.back_after_s = min(host.back_after_s, 1.0)
        for worker in self.workers.values():
            worker.busy_when_reserved_s = None
            worker.still_until_s = 0.0
        self.heal([host for host in hosts if not (isinstance(host, RootHost) and host.is_wedged)])
        await asyncio.sleep(0.5)  # what was asked of processes that were paused is answered first
        await self._until(self._searches_ended, _PATIENCE_S, "a search has not ended")
        await self._until(self._not_free, self._slowest_timer_s(), "a worker is lost")
        await self._probe()
        await self._until(self._in_flight, _END_S, "something is left behind")

    def summarize(self, outcome: Outcome) -> None:
        outcome.steps = self.loop.steps
        outcome.virtual_s = self.loop.time()
        outcome.works = sum(sum(search.commits.values()) for search in self.searches.values())
        outcome.faults = self._met + self.watcher.met
        outcome.ends = self._ends
        for host in self.workers.values():
            self.last_look(host)
        outcome.moves = self._moves + self.watcher.moves

    def _spawn(self, coroutine: Coroutine[None, None, None], name: str) -> "asyncio.Task[None]":
        return self.loop.spawn(None, coroutine, name=name)

    async def _ask(self, name: str, load: SearchLoad) -> None:
        await asyncio.sleep(load.at_s)
        root = self.roots[load.root]
        if root.alive and not root.is_wedged:
            self._start(root, name, load)

    def _start(self, root: RootHost, name: str, load: SearchLoad) -> PlayedSearch:
        search = self.searches[name] = PlayedSearch(root, name, load)
        root.spawn(search.run(), f"search {name}")
        return search

    # Trouble

    async def _strike(self, fault: f.Fault) -> None:
        await asyncio.sleep(fault.at_s)
        self._met[next(name for name, kind in f.FAULTS.items() if kind is type(fault))] += 1
        self.trace.add(self.loop.time(), "----", fault)
        if self._only_outages:
            self._spawn(self._see_who_is_back(fault), "see who is back")
        match fault:
            case cf.Crash() | cf.Pause() | cf.Partition() | cf.Cut() | cf.SlowPeer() | cf.ClockJump():
                await self.befall(fault)
                if isinstance(fault, cf.Pause):
                    self._stay_wedged()
            case f.LostReply(_, name, reply, silently):
                self.network.lose_next(name, lambda message: is_reply(message, reply), silently=silently)
            case f.Drain(_, name, down_s):
                host = self.workers[name]
                host.back_after_s = down_s
                if host.alive:
                    self.loop.call_soon(host.drain, context=self.loop.context_of(host.process))
            case cf.Shutdown(_, name, down_s):
                host = self.recruiters[name]
                host.back_after_s = down_s
                if host.alive:
                    host.spawn(host.shut_down(), "shut down")
            case f.Busy(_, name, for_s, when_reserved):
                host = self.workers[name]
                if when_reserved:
                    host.busy_when_reserved_s = for_s
                elif host.alive:
                    host.spawn(host.work(for_s), "work")
            case f.Wedge(_, name):
                self.roots[name].wedged = self.roots[name].process
                self._stay_wedged()
            case f.SlowScan(_, name, for_s):
                self.workers[name].still_until_s = self.loop.time() + for_s
            case _:
                assert_never(fault)

    def _stay_wedged(self) -> None:
        for root in self.roots.values():
            if root.is_wedged:
                self.loop.pause(root.process)

    # Recruiters that are away for a moment

    async def _see_who_is_back(self, outage: f.Fault) -> None:
        assert isinstance(outage, cf.Crash | cf.Shutdown)
        down_s = outage.down_s
        # A worker tries again after 0.2 s, 0.3 s, 0.45 s and so on: of waits that add up to `down_s`, the last is not
        # longer than half of it and the first.
        back_s = 1.0 if down_s < 0.5 else down_s + 0.1 + 1.25 * (0.2 + down_s / 2)
        await asyncio.sleep(back_s)
        absent = self._absent()
        await asyncio.sleep(0.05)  # one that was just registering again is back
        absent &= self._absent()
        if absent:
            raise self.watcher.violated(f"{min(absent)} is not back {back_s:g} s after its recruiter went")
        self._met["back in time"] += 1

    def _absent(self) -> set[str]:
        """Workers that have had nothing to do for a while, and that no recruiter could give away."""
        now_s = self.loop.time()
        return {
            host.name
            for host in self.workers.values()
            if host.alive
            and host.machine.state in (ReservationState.WAITING, ReservationState.REGISTERED)
            and now_s - host.free_since_s > 0.5
            and not self.watcher.is_free(host.addr)
        }

    # Healing

    def _slowest_timer_s(self) -> float:
        ahead_s = sum(abs(fault.by_s) for fault in self.scenario.faults if isinstance(fault, cf.ClockJump))
        waits_s = max(self.scenario.poll_s + _POLL_GRACE_S, PROGRESS_S + IDLE_S, _LONGEST_WAIT_S)
        return waits_s + min(ahead_s, 10.0) + 3.0

    async def _until(self, left: _Left, within_s: float, promise: str) -> None:
        deadline = self.loop.time() + within_s
        while (remaining := left()) is not None:
            if self.loop.time() > deadline:
                raise self.watcher.violated(f"{promise}, {within_s:g} s later: {remaining}")
            await asyncio.sleep(0.1)

    def _searches_ended(self) -> str | None:
        for search in self.searches.values():
            lives = search.root.process is search.process and search.root.alive and not search.root.is_wedged
            if lives and search.end is None:
                states = ", ".join(f"{record.number} is {record.state}" for record in search.machine.chunks)
                return f"{search.name} on {search.root.name}: {states}"
        return None

    def _not_free(self) -> str | None:
        """What keeps workers from being recruited, or looks recruitable and is not."""
        for host in self.workers.values():
            if not host.alive:
                return f"{host.name} is not up"
            if host.machine.state is not ReservationState.REGISTERED or host.machine.searches:
                return f"{host.name} is {host.machine.state}, with {host.machine.searches} searches"
        free = Counter(offer.addr for here in self.watcher.open.values() for offer in here.values())
        for host in self.workers.values():
            if free[host.addr] != 1:
                return f"{host.name} is registered {free[host.addr]} times"
        return None

    async def _probe(self) -> None:
        """Each root can recruit everybody, and gives them back."""
        for root in self.roots.values():
            if root.is_wedged:
                continue
            recruited: list[int] = []
            while len(self.workers) not in recruited:  # one that is just registering again is not recruited
                if len(recruited) == _PROBES:
                    raise self.watcher.violated(f"after healing {root.name} recruits {recruited}, not all workers")
                recruited.append(await self._recruit_all(root, len(recruited)))

    async def _recruit_all(self, root: RootHost, number: int) -> int:
        """How many it got."""
        chunks = (0.05,) * (sum(worker.slots for worker in self.scenario.workers) + 1)
        load = SearchLoad(0.0, root.name, chunks, max_workers=16)
        search = self._start(root, f"probe{number}-{root.name}", load)
        await self._until(self._searches_ended, _PATIENCE_S, "a search has not ended after healing")
        if search.end != "done" or search.lost:
            raise self.watcher.violated(f"after healing {search.name} ended {search.end}: {search.errors}")
        await self._until(self._not_free, 1.0, "a worker that was released is not back")
        return search.machine.recruited

    def _in_flight(self) -> str | None:
        for host in self.workers.values():
            if self.network.serving[host.process.name]:
                return f"{host.name} still serves a root"
        for host in self.recruiters.values():
            serving, held = self.network.serving[host.process.name], len(self.watcher.open.get(host.process.name, ()))
            if serving != held:
                return f"{host.name} holds {held} registrations and serves {serving} requests"
        return None
