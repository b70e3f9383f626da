"""The watcher of recruiting: sees every step of every machine, and stops the run when a promise is broken.

After every step it holds that
- a recruiter gives away only workers with an open registration there, each registration once, and always as many as
  were asked for or were free for it;
- a registration is open exactly as long as somebody serves it, and an address has one;
- a worker has one reservation at a time; a search is admitted only for that, and a release of another one does nothing;
- while it is reserved a worker takes no other work, and afterwards it does;
- each chunk of a search is committed at most once, with its own answer, and whoever was recruited is released once.
"""

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

from quarterdeck.core.invariants import InvariantError
from quarterdeck.recruiter.machine import pool_effects as pef
from quarterdeck.recruiter.machine import pool_events as pev
from quarterdeck.recruiter.machine import reservation_effects as ref
from quarterdeck.recruiter.machine import reservation_events as rev
from quarterdeck.recruiter.machine.pool import PoolMachine
from quarterdeck.recruiter.machine.reservation import ReservationMachine
from quarterdeck.recruiter.model import Offer, Recruited
from quarterdeck.search.machine import search_effects as sef
from quarterdeck.search.machine import search_events as sev
from quarterdeck.search.machine.search import SearchMachine
from quarterdeck.search.machine.search_records import ChunkState, ChunkTrigger
from quarterdeck.simulation.loop import SimulatedLoop
from quarterdeck.simulation.trace import Trace
from quarterdeck.simulation.verdict import Verdict

if TYPE_CHECKING:
    from quarterdeck.search.world.hosts import RecruiterHost, WorkerHost
    from quarterdeck.search.world.searches import PlayedSearch

_OVERTAKEN_S = 0.9
"""A release that is so much faster than the word of its reservation counts."""
_Checked = PoolMachine | ReservationMachine | SearchMachine


class RecruitingWatcher(Verdict):
    def __init__(self, loop: SimulatedLoop, trace: Trace) -> None:
        super().__init__()
        self._loop = loop
        self.trace = trace
        self.open: dict[str, dict[int, Offer]] = {}
        """Registrations that are open, by the process that has them."""
        self.given: dict[str, str] = {}
        """Which worker each reservation is of."""
        self.met: Counter[str] = Counter()
        self.moves: Counter[tuple[StrEnum, StrEnum]] = Counter()
        """Of chunks."""

    # Recruiters

    def pool_stepped(
        self, host: "RecruiterHost", machine: PoolMachine, event: pev.Event, effects: list[pef.Effect]
    ) -> None:
        self.trace.add(self._loop.time(), host.name, event, effects)
        here = self.open.setdefault(host.process.name, {})
        before = dict(here)
        match event:
            case pev.RegistrationOpened(number, offer):
                here[number] = offer
            case pev.RegistrationClosed(number):
                here.pop(number, None)
            case _:
                pass
        for effect in effects:
            match effect:
                case pef.Reserve(number, reservation):
                    self._reserved(host, number, reservation)
                case pef.SendBack(number) | pef.Supersede(number):
                    if here.pop(number, None) is None:
                        raise self.violated(f"{host.name} ends registration {number}, which is not open: {effect}")
                case pef.AnswerRecruit(_, workers):
                    self._recruited(host, event, before, workers)
        known = {registration.number for registration in machine.free()}
        if known != here.keys():
            raise self.violated(f"{host.name} has registrations {sorted(known)}, and {sorted(here)} are open")
        addresses = Counter(offer.addr for offer in here.values())
        twice = [addr for addr, number in addresses.items() if number > 1]
        if twice:
            raise self.violated(f"{host.name} has {twice[0]} twice in its pool")
        self._check(machine)

    def _reserved(self, host: "RecruiterHost", number: int, reservation: str) -> None:
        offer = self.open[host.process.name].pop(number, None)
        if offer is None:
            raise self.violated(f"{host.name} gave away registration {number}, which is not open")
        if reservation in self.given:
            raise self.violated(f"{host.name} used the name {reservation} again")
        self.given[reservation] = offer.addr
        self.met["reservations"] += 1

    def _recruited(
        self, host: "RecruiterHost", event: pev.Event, before: dict[int, Offer], workers: tuple[Recruited, ...]
    ) -> None:
        assert isinstance(event, pev.RecruitRequested)
        free = [o for o in before.values() if not event.label or not o.labels or event.label in o.labels]
        if len(workers) != min(event.number, len(free)):
            raise self.violated(f"{host.name} gave {len(workers)} of {event.number}, and {len(free)} were free")
        wrong = [worker.addr for worker in workers if self.given.get(worker.reservation) != worker.addr]
        if wrong:
            raise self.violated(f"{host.name} gave away {wrong[0]} and did not tell it")

    def served(self, host: "RecruiterHost", process: str, number: int) -> None:
        """A request to register has ended: what it opened is no longer open."""
        if number in self.open[process]:
            raise self.violated(f"{host.name} keeps registration {number} in its pool, and nobody serves it")

    def is_free(self, addr: str) -> bool:
        """Whether some recruiter could give this worker away."""
        return any(offer.addr == addr for here in self.open.values() for offer in here.values())

    # Workers

    def worker_stepped(
        self, host: "WorkerHost", machine: ReservationMachine, event: rev.Event, effects: list[ref.Effect]
    ) -> None:
        self.trace.add(self._loop.time(), host.name, event, effects)
        match event:
            case rev.SearchAsked(search, reservation):
                host.asked[search] = reservation
            case rev.ReleaseAsked(reservation) if reservation != host.reservation and host.reservation is not None:
                if effects:
                    raise self.violated(f"{host.name} took {reservation} for {host.reservation}: {effects}")
            case rev.WorkerReserved(reservation=reservation) if ref.SetAccepting(accepting=False) in effects:
                if host.reservation is not None:
                    raise self.violated(f"{host.name} is reserved twice: {host.reservation} and {reservation}")
                if self._loop.time() - host.released.get(reservation, -1.0) < _OVERTAKEN_S:
                    raise self.violated(f"{host.name} was released and is still reserved: {reservation}")
                host.reservation = reservation
            case _:
                pass
        for effect in effects:
            match effect:
                case ref.SetAccepting(accepting=True):
                    host.reservation = None
                case ref.AdmitSearch(search):
                    if host.asked[search] != host.reservation:
                        raise self.violated(
                            f"{host.name} is reserved as {host.reservation} and searches for {host.asked[search]}"
                        )
                    self.met["searches on workers"] += 1
                case ref.RefuseSearch():
                    self.met["searches refused"] += 1
                case _:
                    pass
        self._check(machine)

    def may_take_work(self, host: "WorkerHost") -> None:
        if host.reservation is not None:
            raise self.violated(f"{host.name} takes other work while it is reserved")

    # Searches

    def search_stepped(
        self, search: "PlayedSearch", machine: SearchMachine, event: sev.Event, effects: list[sef.Effect]
    ) -> None:
        self.trace.add(self._loop.time(), search.root.name, event, effects)
        if isinstance(event, sev.WorkersRecruited):
            search.recruited.update(event.workers)
        for move in _moves(event, effects):
            self.moves[move] += 1
        for effect in effects:
            match effect:
                case sef.CommitChunk(number):
                    search.commits[number] += 1
                    if search.commits[number] > 1:
                        raise self.violated(f"chunk {number} of {search.name} was committed twice")
                case sef.GiveUp(number):
                    self.met["chunks given up"] += 1
                case sef.ReleaseWorker(worker):
                    if worker not in search.recruited:
                        raise self.violated(f"{search.name} released {worker.addr} twice, or never had it")
                    search.recruited.remove(worker)
                case _:
                    pass
        self._check(machine)

    def _check(self, machine: _Checked) -> None:
        try:
            machine.check_invariants()
        except InvariantError as error:
            raise self.violated(f"records contradict each other: {error}") from error


def _moves(event: sev.Event, effects: list[sef.Effect]) -> Iterator[tuple[StrEnum, StrEnum]]:
    """Which entries of the table of chunks were used."""
    if isinstance(event, sev.ChunkGathered):
        yield ChunkState.COMMITTED, ChunkTrigger.GATHER
    for effect in effects:
        match effect:
            case sef.AssignChunk() | sef.SearchAlone():
                yield ChunkState.WAITING, ChunkTrigger.ASSIGN
            case sef.HangUp():
                yield ChunkState.RUNNING, ChunkTrigger.LOSE
            case sef.CommitChunk():
                yield ChunkState.RUNNING, ChunkTrigger.FINISH
            case sef.GiveUp():
                yield ChunkState.WAITING, ChunkTrigger.GIVE_UP
            case _:
                pass
