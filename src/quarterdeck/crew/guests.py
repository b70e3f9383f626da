"""Others that talk on the sessions of a crew beside the machine for work."""

import asyncio
from abc import ABC, abstractmethod
from typing import Final, Generic, Protocol, TypeVar

from quarterdeck.control.link import Message
from quarterdeck.core.ids import SessionId
from quarterdeck.crew.driver import Machine, Observer, Stepper
from quarterdeck.crew.ports import Clock

AboutT_contra = TypeVar("AboutT_contra", contravariant=True)
EventT = TypeVar("EventT")
EffectT = TypeVar("EffectT")


class SessionGuest(Protocol, Generic[AboutT_contra]):
    """All of it is called on the event loop."""

    def opened(self, session_id: SessionId, about: AboutT_contra) -> None:
        """A session has begun; `about` is what the peer said of itself."""
        ...

    def closed(self, session_id: SessionId) -> None:
        """It is over: what is sent on it now goes nowhere."""
        ...

    def take(self, session_id: SessionId, message: Message) -> bool:
        """A message that is none for the machine for work; whether it is one for this guest."""
        ...


class MachineGuest(ABC, Generic[EventT, EffectT]):
    """The life of a guest that is the driver of a machine: it begins with the guest, and ends with `run`."""

    def __init__(
        self,
        machine: Machine[EventT, EffectT],
        clock: Clock,
        time_passed: EventT,
        observer: Observer[EventT, EffectT] | None,
    ) -> None:
        self._stepper: Final[Stepper[EventT, EffectT]] = Stepper(machine, clock, self._execute, time_passed, observer)
        self._over = False

    async def run(self) -> None:
        """Lives until it is canceled. What happens after that is no event for the machine."""
        try:
            await asyncio.Event().wait()
        finally:
            self._over = True
            self._stepper.stop()
            await self._end()

    def _apply(self, event: EventT) -> None:
        if not self._over:
            self._stepper.apply(event)

    @abstractmethod
    def _execute(self, effect: EffectT) -> None:
        """What the machine wants done."""

    @abstractmethod
    async def _end(self) -> None:
        """Ends what is under way, and lets go of everything."""
