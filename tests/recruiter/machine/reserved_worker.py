"""A reservation machine on a virtual clock, checked after every step."""

from typing import TypeVar

from quarterdeck.core.tenants import DEFAULT_TENANT
from quarterdeck.recruiter.machine import reservation_effects as ef
from quarterdeck.recruiter.machine import reservation_events as ev
from quarterdeck.recruiter.machine.reservation import ReservationMachine
from quarterdeck.recruiter.machine.reservation_config import ReservationConfig
from quarterdeck.recruiter.machine.reservation_table import ReservationState

EffectT = TypeVar("EffectT", bound=ef.Effect)
State = ReservationState
A, B, C = "http://a:1", "http://b:1", "http://c:1"


class ReservedWorker:
    def __init__(self, config: ReservationConfig | None = None) -> None:
        self.machine = ReservationMachine(config or ReservationConfig("worker:1", (A,)))
        self.now = 100.0
        self.poll = 0
        """The registration that is open, or was last."""
        self.recruiter = ""
        self.registered_at: list[float] = []
        self.accepting = True

    @property
    def state(self) -> State:
        return self.machine.state

    def tell(self, event: ev.Event) -> list[ef.Effect]:
        effects = self.machine.step(event, self.now)
        self.machine.check_invariants()
        for effect in effects:
            match effect:
                case ef.Register(poll, recruiter):
                    self.poll, self.recruiter = poll, recruiter
                    self.registered_at.append(self.now)
                case ef.SetAccepting(accepting):
                    assert accepting != self.accepting, "told again what was known"
                    self.accepting = accepting
                case _:
                    pass
        return effects

    def wait(self, seconds: float) -> list[ef.Effect]:
        """Time passes, and with it what is due."""
        until, effects = self.now + seconds, list[ef.Effect]()
        while (due := self.machine.next_deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            effects += self.tell(ev.TimePassed())
        self.now = until
        return effects

    # What is often told

    def idle(self) -> list[ef.Effect]:
        return self.tell(ev.IdleChanged(True))

    def busy(self) -> list[ef.Effect]:
        return self.tell(ev.IdleChanged(False))

    def fail(self, unit: float = 0.5) -> list[ef.Effect]:
        return self.tell(ev.RegistrationFailed(self.poll, unit))

    def reregister(self) -> list[ef.Effect]:
        return self.tell(ev.ReregisterAsked(self.poll, 0.5))

    def reserve(self, reservation: str = "r1", tenant: str = DEFAULT_TENANT) -> list[ef.Effect]:
        return self.tell(ev.WorkerReserved(self.poll, reservation, "label", tenant))

    def ask(self, search: int, reservation: str = "r1", tenant: str = DEFAULT_TENANT) -> list[ef.Effect]:
        return self.tell(ev.SearchAsked(search, reservation, tenant))

    def end(self, search: int, *, broken: bool = False) -> list[ef.Effect]:
        return self.tell(ev.SearchEnded(search, broken))

    def release(self, reservation: str = "r1", tenant: str = DEFAULT_TENANT) -> list[ef.Effect]:
        return self.tell(ev.ReleaseAsked(reservation, tenant))

    def drain(self) -> list[ef.Effect]:
        return self.tell(ev.DrainRequested())


def registered(config: ReservationConfig | None = None) -> ReservedWorker:
    worker = ReservedWorker(config)
    worker.idle()
    worker.wait(worker.machine.config.settle_s)
    assert worker.state is State.REGISTERED
    return worker


def reserved(config: ReservationConfig | None = None, reservation: str = "r1") -> ReservedWorker:
    worker = registered(config)
    worker.reserve(reservation)
    assert worker.state is State.RESERVED
    return worker


def embedded(*recruiters: str) -> ReservationConfig:
    """As for a worker that registers again when its root has left it alone."""
    return ReservationConfig("worker:1", recruiters or (A,), leave_when_abandoned=False)


def only(kind: type[EffectT], effects: list[ef.Effect]) -> list[EffectT]:
    return [effect for effect in effects if isinstance(effect, kind)]
