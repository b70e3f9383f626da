"""The recruiter: holds registrations open, and gives their workers to whoever asks.

It drives the pool's machine on one event loop. Time and names come from outside, and it has neither threads nor tasks,
so that it runs in a simulation as it does in a process.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Protocol, TypeAlias, assert_never

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.tenants import DEFAULT_TENANT
from quarterdeck.crew.driver import Observer, Stepper
from quarterdeck.crew.ports import Clock
from quarterdeck.recruiter.machine import pool_effects as ef
from quarterdeck.recruiter.machine import pool_events as ev
from quarterdeck.recruiter.machine.pool import PoolFigures, PoolMachine
from quarterdeck.recruiter.machine.tenant_pool import Registration
from quarterdeck.recruiter.model import Directive, Offer, Recruited
from quarterdeck.recruiter.ports import Registered


class ReservationIds(Protocol):
    def reservation_id(self) -> str: ...


class SupersededError(QuarterdeckError):
    """Of a registration whose address has registered again since."""

    def __init__(self, addr: str) -> None:
        super().__init__(
            ErrorCode.INVALID_ARGUMENT,
            "the registration has ended",
            f"{addr} has registered again since, and the newer registration counts",
            "register once at a time; if two workers have this address, give one of them another",
        )
        self.args = (addr,)  # from which copy and pickle make it anew


Ending: TypeAlias = Registered | SupersededError
"""What becomes of a registration that is answered."""


class RecruiterService:
    """One recruiter. `hold` is for whoever can wait in a task; `open` and `abandon` are what it is made of."""

    def __init__(
        self, clock: Clock, ids: ReservationIds, observer: Observer[ev.Event, ef.Effect] | None = None
    ) -> None:
        self.machine = PoolMachine()
        self._clock = clock
        self._ids = ids
        self._numbers = count(1)
        self._open: dict[int, tuple[Offer, Callable[[Ending], None]]] = {}
        self._recruited: dict[int, tuple[Recruited, ...]] = {}
        self._is_closed = False
        self._stepper: Stepper[ev.Event, ef.Effect] = Stepper(
            self.machine, clock, self._execute, ev.TimePassed(), observer
        )

    # For workers

    async def hold(self, offer: Offer, timeout_s: float) -> Registered:
        """Holds a registration open until it ends. Canceled, it is taken back. Raises `SupersededError`, and
        UNAVAILABLE when the recruiter is closed."""
        ended: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        registration = self.open(offer, timeout_s, lambda ending: None if ended.done() else ended.set_result(ending))
        try:
            ending = await ended
        finally:
            self.abandon(registration)
        if isinstance(ending, SupersededError):
            raise ending
        return ending

    def open(self, offer: Offer, timeout_s: float, answer: Callable[[Ending], None]) -> int:
        """Begins a registration; `answer` is called at its end, once and never before this returns, unless it is
        abandoned first. Returns its number."""
        self._refuse_if_closed("the worker was not registered")
        registration = next(self._numbers)
        self._open[registration] = (offer, answer)
        self._stepper.apply(ev.RegistrationOpened(registration, offer, timeout_s))
        return registration

    def abandon(self, registration: int) -> None:
        """The worker is gone; of a registration that was answered it means nothing."""
        if self._open.pop(registration, None) is not None:
            self._stepper.apply(ev.RegistrationClosed(registration))

    # For roots

    def recruit(self, number: int, label: str = "", tenant: str = DEFAULT_TENANT) -> Sequence[Recruited]:
        """As many workers, or all that are free for this tenant and label. Their registrations have been answered."""
        self._refuse_if_closed("no workers were recruited")
        if number < 1:
            raise QuarterdeckError(
                ErrorCode.INVALID_ARGUMENT,
                "no workers were recruited",
                f"{number} were asked for",
                "ask for 1 or more",
            )
        request = next(self._numbers)
        self._stepper.apply(ev.RecruitRequested(request, number, label, self._ids.reservation_id(), tenant))
        return self._recruited.pop(request)

    # For whoever looks

    def figures(self, tenant: str | None = None) -> PoolFigures:
        """Of all workers, or of those that this tenant is served by."""
        return self.machine.figures(self._clock.now(), tenant)

    def free(self, tenant: str | None = None) -> Iterable[tuple[Registration, float]]:
        """Who is free, and for how many seconds; for this tenant, if one is named."""
        now = self._clock.now()
        return ((registration, max(0.0, now - registration.since)) for registration in self.machine.free(tenant))

    # For the process

    def close(self) -> None:
        """Answers all registrations, so that their workers go to the next recruiter, and takes no more. Again is
        fine."""
        if not self._is_closed:
            self._is_closed = True
            self._stepper.apply(ev.RecruiterClosed())
            self._stepper.stop()

    def _refuse_if_closed(self, what: str) -> None:
        if self._is_closed:
            raise QuarterdeckError(
                ErrorCode.UNAVAILABLE, what, "this recruiter is shutting down", "ask another, or again in a moment"
            )

    def _execute(self, effect: ef.Effect) -> None:
        match effect:
            case ef.Reserve(registration, reservation, label, tenant=tenant):
                self._answer(registration, Registered(Directive.RESERVED, reservation, label, tenant))
            case ef.SendBack(registration):
                self._answer(registration, Registered(Directive.REREGISTER))
            case ef.Supersede(registration):
                self._answer(registration, SupersededError(self._open[registration][0].addr))
            case ef.AnswerRecruit(request, workers):
                self._recruited[request] = workers
            case _:
                assert_never(effect)

    def _answer(self, registration: int, ending: Ending) -> None:
        _, answer = self._open.pop(registration)
        answer(ending)


class OwnRecruiter:
    """The recruiter of the same process, as a root sees it."""

    def __init__(self, service: RecruiterService) -> None:
        self._service = service

    async def recruit(self, number: int, label: str, tenant: str) -> Sequence[Recruited]:
        """Nobody, once it is closed: a search that runs on goes on alone."""
        try:
            return self._service.recruit(number, label, tenant)
        except QuarterdeckError as error:
            if error.code is ErrorCode.UNAVAILABLE:
                return ()
            raise
