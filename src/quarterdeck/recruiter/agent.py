"""A worker's agent at the recruiters: it keeps the worker registered while it is idle, and knows for whom it is
reserved.

It executes what the machine decides and decides nothing itself. Clock, chance and recruiters are given to it, and it
has neither threads nor sockets: so it runs in a process and in a simulation.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, assert_never

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.tenants import DEFAULT_TENANT
from quarterdeck.crew.driver import Observer, Stepper, Trouble, cancel_all, ignore_trouble
from quarterdeck.crew.ports import Clock
from quarterdeck.recruiter.machine import reservation_effects as ef
from quarterdeck.recruiter.machine import reservation_events as ev
from quarterdeck.recruiter.machine.reservation import ReservationMachine
from quarterdeck.recruiter.model import Directive, Offer
from quarterdeck.recruiter.ports import Registered, RegistrationFailedError, Registry

_STOPPING: Final = "it is stopping"


class NotReservedError(QuarterdeckError):
    """The worker does not search for whoever asks. Over HTTP it is 409: the request makes sense, only not now."""

    def __init__(self, why: str) -> None:
        super().__init__(
            ErrorCode.UNAVAILABLE, "the chunk was not searched", why, "recruit a worker, and name its reservation"
        )
        self.args = (why,)  # from which copy and pickle make it anew


class SearchStoppedError(QuarterdeckError):
    """A search ended before its time: its worker was released, or has waited for progress for too long."""

    def __init__(self, why: str) -> None:
        super().__init__(ErrorCode.CANCELED, "the chunk was not searched to its end", why, "ask again")
        self.args = (why,)  # from which copy and pickle make it anew


class AdmittedSearch:
    """One search that runs for the root."""

    def __init__(self, progressed: Callable[[], None], task: "asyncio.Task[Any]") -> None:
        self.progressed = progressed
        """To be called when something was scanned, or taken by the root."""
        self.stopped_because: str | None = None
        self._task = task

    def stop(self, why: str) -> None:
        """Cancels whoever searches; the first reason counts."""
        if self.stopped_because is None:
            self.stopped_because = why
            self._task.cancel()


class ReservationAgent:
    """Run it with `run`. Nothing of it may be used before, or on another loop."""

    def __init__(
        self,
        machine: ReservationMachine,
        offer: Offer,
        registry: Registry,
        *,
        poll_s: float,
        clock: Clock,
        chance: Callable[[], float],
        set_accepting: Callable[[bool], None],
        leave: Callable[[str], None],
        observer: Observer[ev.Event, ef.Effect] | None = None,
        on_trouble: Trouble = ignore_trouble,
    ) -> None:
        """`chance` gives numbers from [0, 1). `set_accepting` is told whether coordinators may give the worker new
        work, `leave` that the process should end, and why."""
        self.machine = machine
        self._offer = offer
        self._registry = registry
        self._poll_s = poll_s
        self._chance = chance
        self._set_accepting = set_accepting
        self._leave = leave
        self._on_trouble = on_trouble
        self._stepper: Stepper[ev.Event, ef.Effect] = Stepper(machine, clock, self._execute, ev.TimePassed(), observer)
        self._poll: asyncio.Task[Registered] | None = None
        self._withdrawing = False
        self._names = 0
        self._asked: dict[int, _Asked] = {}
        """Searches that have not been left yet."""
        self._drained = asyncio.Event()
        self._left = asyncio.Event()
        self._over = False

    async def run(self) -> None:
        """Lives until it is drained, or canceled; then the registration is taken back and searches are stopped."""
        try:
            await self._drained.wait()
        finally:
            self._over = True
            self._stepper.stop()
            if self._poll is not None:
                await cancel_all([self._poll])
            for asked in self._asked.values():
                asked.refuse(_STOPPING)
                if not asked.refused:
                    asked.search.stop(_STOPPING)
            while self._asked:
                self._left.clear()
                await self._left.wait()

    # What the process tells

    def idle_changed(self, idle: bool) -> None:
        """Whether the worker has nothing to do for coordinators."""
        self._apply(ev.IdleChanged(idle))

    def drain(self) -> None:
        """Takes no new search and ends `run` when those that run have finished."""
        self._apply(ev.DrainRequested())

    # What roots ask

    def release(self, reservation: str, tenant: str = DEFAULT_TENANT) -> None:
        """Ends this tenant's reservation of this name, or whichever it has if the name is empty."""
        self._apply(ev.ReleaseAsked(reservation, tenant))

    @asynccontextmanager
    async def searching(self, reservation: str, tenant: str = DEFAULT_TENANT) -> AsyncGenerator[AdmittedSearch]:
        """The block searches for the root that has this reservation of this tenant. Raises `NotReservedError` if that
        is not so. A search that has to stop is canceled, and `SearchStoppedError` raised when it has ended. Leaving the
        block with an error, or canceled, is a connection that broke."""
        if self._over:
            raise NotReservedError(_STOPPING)
        self._names += 1
        name = self._names
        task = asyncio.current_task()
        assert task is not None
        search = AdmittedSearch(lambda: self._apply(ev.SearchProgressed(name)), task)
        asked = self._asked[name] = _Asked(search)
        broken = True
        try:
            self._apply(ev.SearchAsked(name, reservation, tenant))
            await asked.admitted
            yield search
            broken = False
        except asyncio.CancelledError:
            if search.stopped_because is None or task.uncancel() > 0:
                raise  # somebody else wants it to end, too
            raise SearchStoppedError(search.stopped_because) from None
        finally:
            del self._asked[name]
            self._left.set()
            if not asked.refused:
                self._apply(ev.SearchEnded(name, broken))

    # Effects

    def _apply(self, event: ev.Event) -> None:
        """Tells the machine; after the end of `run` there is nobody to tell."""
        if not self._over:
            self._stepper.apply(event)

    def _execute(self, effect: ef.Effect) -> None:
        match effect:
            case ef.Register(poll, recruiter):
                self._register(poll, recruiter)
            case ef.WithdrawRegistration():
                assert self._poll is not None, "a registration is open"
                self._withdrawing = True
                self._poll.cancel()
            case ef.AdmitSearch(name):
                self._asked[name].admit()
            case ef.RefuseSearch(name, why):
                self._asked[name].refuse(why)
            case ef.StopSearch(name, why):
                self._asked[name].search.stop(why)
            case ef.SetAccepting(accepting):
                self._set_accepting(accepting)
            case ef.LeaveProcess(why):
                self._leave(why)
            case ef.FinishDrain():
                self._drained.set()
            case _:
                assert_never(effect)

    def _register(self, poll: int, recruiter: str) -> None:
        self._withdrawing = False
        registering = self._registry.register(recruiter, self._offer, self._poll_s)
        self._poll = asyncio.create_task(registering, name=f"register with {recruiter}")
        self._poll.add_done_callback(lambda done: self._poll_ended(poll, recruiter, done))

    def _poll_ended(self, poll: int, recruiter: str, task: "asyncio.Task[Registered]") -> None:
        """What had come counts, also of a registration that was to be taken back."""
        self._poll = None
        error = None if task.cancelled() else task.exception()
        if self._over:
            return
        if task.cancelled() and self._withdrawing:
            self._apply(ev.RegistrationWithdrawn(poll))
        elif task.cancelled() or error is not None:
            expected = isinstance(error, RegistrationFailedError)
            self._on_trouble(recruiter, f"we are not registered: {error if expected else repr(error)}")
            self._apply(ev.RegistrationFailed(poll, self._chance()))
        elif task.result().directive is Directive.RESERVED:
            told = task.result()
            self._apply(ev.WorkerReserved(poll, told.reservation, told.label, told.tenant or self._offer.tenant))
        else:
            self._apply(ev.ReregisterAsked(poll, self._chance()))


class _Asked:
    """A search from when it is asked for until it was left."""

    def __init__(self, search: AdmittedSearch) -> None:
        self.search = search
        self.admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.refused = False

    def admit(self) -> None:
        if not self.admitted.done():  # canceled, and not yet left
            self.admitted.set_result(None)

    def refuse(self, why: str) -> None:
        """Unless it was admitted."""
        if not self.admitted.done():
            self.admitted.set_exception(NotReservedError(why))
            self.admitted.exception()  # seen: whoever waits may be canceled before it looks
            self.refused = True
        elif self.admitted.cancelled():
            self.refused = True
