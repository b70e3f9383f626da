"""The holder's driver: acquires and releases what its machine says, and reports on every session of the worker.

It executes what the machine decides and decides nothing itself.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, assert_never

from quarterdeck.control.link import Message
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import SessionId
from quarterdeck.core.reconcile.holder import HolderConfig, HolderMachine
from quarterdeck.core.reconcile.holder import effects as ef
from quarterdeck.core.reconcile.holder import events as ev
from quarterdeck.core.reconcile.messages import LeaderMessage
from quarterdeck.core.reconcile.model import HeldError, HeldId, HeldKind, ThingSpec
from quarterdeck.core.workcoord.messages import Registered
from quarterdeck.crew.declared.holding import Held, HeldKindOffer, HeldMemory
from quarterdeck.crew.driver import Observer, cancel_all
from quarterdeck.crew.guests import MachineGuest
from quarterdeck.crew.ports import Clock
from quarterdeck.telemetry.logs import get_logger

_log = get_logger(__name__)

_MAX_WORDS: Final = 300
_NO_TIMER: Final = ev.SessionLost(SessionId(""))
"""The machine names no deadline, so nothing ever comes due."""


class HolderDriver(MachineGuest[ev.Event, ef.Effect]):
    """Run it with `run`; it is a guest on the sessions of the worker."""

    def __init__(
        self,
        offers: Mapping[HeldKind, HeldKindOffer],
        *,
        clock: Clock,
        send: Callable[[SessionId, Message], None],
        observer: Observer[ev.Event, ef.Effect] | None = None,
    ) -> None:
        self.machine: Final = HolderMachine(HolderConfig(frozenset(offers)))
        super().__init__(self.machine, clock, _NO_TIMER, observer)
        self._offers: Final = dict(offers)
        self._memory: Final = {kind: HeldMemory(offer.memory_bytes) for kind, offer in offers.items()}
        # A pool without work has no thread yet.
        self._pools: Final = {
            kind: ThreadPoolExecutor(offer.threads, thread_name_prefix=f"hold {kind}") for kind, offer in offers.items()
        }
        self._send: Final = send
        self._held: dict[HeldId, Held] = {}
        """What is acquired, being acquired, or may have left something."""
        self._there: set[HeldId] = set()
        """What is held."""
        self._tasks: dict[HeldId, asyncio.Task[ev.Event]] = {}
        """What is under way for each thing."""
        self._under_way: set[asyncio.Task[ev.Event]] = set()
        """The same, and what was canceled and has not ended yet."""

    def drain(self) -> None:
        """Takes nothing new."""
        self._apply(ev.DrainRequested())

    def used_bytes(self, kind: HeldKind) -> int:
        return self._memory[kind].used_bytes

    # As a guest

    def opened(self, session_id: SessionId, about: Registered) -> None:
        del about
        self._apply(ev.SessionOpened(session_id))

    def closed(self, session_id: SessionId) -> None:
        self._apply(ev.SessionLost(session_id))

    def take(self, session_id: SessionId, message: Message) -> bool:
        if not isinstance(message, LeaderMessage):
            return False
        self._apply(ev.MessageReceived(session_id, message))
        return True

    # Inside

    async def _end(self) -> None:
        """Everything is released, since nothing of it outlives the process."""
        under_way = tuple(self._under_way)
        for task in under_way:
            task.cancel()
        if under_way:
            await asyncio.wait(under_way)
        for held in list(self._held.values()):
            # A task of its own: this one is canceled, so it could not tell who cancels a release.
            await asyncio.wait((asyncio.create_task(self._tried_to_let_go(held), name=f"release {held.held_id}"),))
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)

    def _execute(self, effect: ef.Effect) -> None:
        match effect:
            case ef.SendToCoordinator(session_id, message):
                self._send(session_id, message)
            case ef.Acquire(held_id, spec):
                older, held = self._held.get(held_id), self._held_of(held_id, spec)
                self._held[held_id] = held
                self._begin(held_id, partial(self._acquire, held, older))
            case ef.Release(held_id):
                self._there.discard(held_id)
                self._begin(held_id, partial(self._release, held_id))
            case ef.RefuseCommand(_, fence, highest):
                _log.warning("a command of an earlier leader was refused", fence=fence, highest=highest)
            case _:
                assert_never(effect)

    def _held_of(self, held_id: HeldId, spec: ThingSpec) -> Held:
        def broke(error: HeldError) -> None:
            if self._held.get(held_id) is held and held_id in self._there:
                self._there.discard(held_id)
                self._apply(ev.HoldingFailed(held_id, error))

        held = Held(held_id, spec, self._memory[spec.kind], self._pools[spec.kind], broke)
        return held

    def _begin(self, held_id: HeldId, work: Callable[[], Coroutine[Any, Any, ev.Event]]) -> None:
        """What was under way for it before ends first, and its answer is nobody's."""
        task = asyncio.create_task(_after(self._tasks.get(held_id), work), name=f"held {held_id}")
        self._tasks[held_id] = task
        self._under_way.add(task)
        task.add_done_callback(lambda done: self._answered(held_id, done))

    def _answered(self, held_id: HeldId, task: "asyncio.Task[ev.Event]") -> None:
        self._under_way.discard(task)
        if self._tasks.get(held_id) is not task:
            return
        del self._tasks[held_id]
        if task.cancelled():  # as the driver ends
            return
        event = task.result()
        if isinstance(event, ev.Acquired):
            self._there.add(held_id)
        self._apply(event)

    async def _acquire(self, held: Held, older: Held | None) -> ev.Event:
        holder = self._offers[held.spec.kind].holder
        try:
            if older is not None:
                await self._let_go(older)
            await holder.acquire(held)
        except QuarterdeckError as error:
            failed = HeldError(error.code, error.message[:_MAX_WORDS], error.retryable)
        except BaseException as error:
            # Whatever a holder does wrong is that thing's failure, not ours.
            if _is_our_end(error):
                raise
            failed = HeldError(ErrorCode.INTERNAL, f"the holder broke: {error!r}"[:_MAX_WORDS])
        else:
            return ev.Acquired(held.held_id)
        # What it left is taken away when it is acquired again or dropped, if it cannot be now.
        await self._tried_to_let_go(held)
        return ev.HoldingFailed(held.held_id, failed)

    async def _release(self, held_id: HeldId) -> ev.Event:
        """It stays known until nothing of it is left: if this process ends meanwhile, it is released once more."""
        held = self._held.get(held_id)
        error = None if held is None else await self._tried_to_let_go(held)
        if error is not None:
            return ev.HoldingFailed(held_id, error)
        self._held.pop(held_id, None)
        return ev.Released(held_id)

    async def _tried_to_let_go(self, held: Held) -> HeldError | None:
        try:
            await self._let_go(held)
        except BaseException as error:
            # The leader has it tried again.
            if _is_our_end(error):
                raise
            _log.warning("a held thing could not be released", thing=str(held.held_id), error=repr(error))
            return HeldError(ErrorCode.INTERNAL, f"it could not be released: {error!r}"[:_MAX_WORDS])
        return None

    async def _let_go(self, held: Held) -> None:
        await self._offers[held.spec.kind].holder.release(held)
        held.free()


def _is_our_end(error: BaseException) -> bool:
    """Whether the process ends, or the task was canceled: not, if a holder has canceled something of its own. Compiled
    code may raise what is no `Exception`."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | SystemExit)


async def _after(older: "asyncio.Task[ev.Event] | None", work: Callable[[], Coroutine[Any, Any, ev.Event]]) -> ev.Event:
    if older is not None:
        await cancel_all((older,))
    return await work()
