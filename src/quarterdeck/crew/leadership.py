"""A coordinator as a candidate for leadership: the driver around `core/leadership`, over a database.

Whoever needs to know asks `fence`, or follows. Interactive queries do neither: they live through gain and loss.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final

from quarterdeck.core.ids import Fence
from quarterdeck.core.leadership import effects as ef
from quarterdeck.core.leadership import events as ev
from quarterdeck.core.leadership.machine import CandidateMachine
from quarterdeck.core.leadership.model import LeaderRow, LeadershipLossReason, LeaseConfig
from quarterdeck.crew.driver import Observer, Stepper, cancel_all
from quarterdeck.crew.ports import Clock
from quarterdeck.stores.database.leadership.row import carry_out
from quarterdeck.stores.database.port import Database
from quarterdeck.telemetry.logs import get_logger
from quarterdeck.telemetry.metrics import LeadershipFigures

_log = get_logger(__name__)

Follower = Callable[[Fence | None], None]
"""Called with the fence when this process begins to lead, and with None when it has ceased. It must not raise."""


class Leadership:
    """Run it with `run`, once. Everything happens on one event loop."""

    def __init__(
        self,
        database: Database,
        config: LeaseConfig,
        clock: Clock,
        observer: Observer[ev.Event, ef.Effect] | None = None,
    ) -> None:
        """The database has the schemas of leadership and of fences."""
        self.gained = 0
        self.lost: Final[Counter[LeadershipLossReason]] = Counter()
        self.requests_failed = 0
        self._database: Final = database
        self._config: Final = config
        self._clock: Final = clock
        self._machine: Final = CandidateMachine(config)
        self._stepper: Final[Stepper[ev.Event, ef.Effect]] = Stepper(
            self._machine, clock, self._execute, ev.TimePassed(), observer
        )
        self._asking: set[asyncio.Task[ev.Event]] = set()
        self._followers: list[Follower] = []
        self._finished = asyncio.Event()

    @property
    def fence(self) -> Fence | None:
        """The fence under which this process leads now; None when it does not. It looks at the clock each time."""
        return self._machine.fence_at(self._clock.now())

    @property
    def leader(self) -> LeaderRow | None:
        """Who leads, as this process has last seen it; None when nobody does as far as is known here."""
        row = self._machine.row
        return None if row is None or row.holder is None else row

    @property
    def name(self) -> str:
        """Of this process, as others see it when it leads."""
        return self._config.name

    def figures(self) -> LeadershipFigures:
        row = self._machine.row
        return LeadershipFigures(
            leads=self.fence is not None,
            fence=0 if row is None else row.fence,
            gained=self.gained,
            lost=self.lost,
            requests_failed=self.requests_failed,
        )

    def follow(self, follower: Follower) -> None:
        """It is told of each change from now on, and at once if this process leads."""
        self._followers.append(follower)
        fence = self.fence
        if fence is not None:
            follower(fence)

    def doubt(self, fence: Fence) -> None:
        """To be called when somebody has seen this fence, which is higher than ours: a database (`DeposedError`) or a
        worker. Another leads, and this process knows it sooner than its next beat would tell."""
        self._stepper.apply(ev.HigherFenceSeen(fence))

    async def run(self) -> None:
        """Stands for leadership until `release`, or until it is canceled."""
        try:
            self._stepper.apply(ev.TimePassed())
            await self._finished.wait()
        finally:
            self._stepper.stop()
            self._finished.set()
            await cancel_all(tuple(self._asking))

    async def release(self) -> None:
        """Leads no longer, and lets another lead at once. It takes no longer than the store may take for an answer;
        a store that fails leaves it to the end of the lease. Again is fine."""
        self._stepper.apply(ev.ReleaseAsked())
        await self._finished.wait()

    def _execute(self, effect: ef.Effect) -> None:
        match effect:
            case ef.BeginLeading(fence):
                self.gained += 1
                self._tell(fence)
            case ef.EndLeading(_, reason):
                self.lost[reason] += 1
                self._tell(None)
            case ef.FinishCandidacy():
                self._finished.set()
            case _:
                self._ask(effect)

    def _tell(self, fence: Fence | None) -> None:
        for follower in tuple(self._followers):
            follower(fence)

    def _ask(self, request: ef.Request) -> None:
        """The machine waits for one answer at a time. What it has given up is dropped, if it has not begun."""
        for task in self._asking:
            task.cancel()
        task = asyncio.create_task(self._carry_out(request), name=f"leadership {request.number}")
        self._asking.add(task)
        task.add_done_callback(self._answered)

    async def _carry_out(self, request: ef.Request) -> ev.Event:
        try:
            answer = await carry_out(self._database, request, self._config)
        except Exception as error:  # noqa: BLE001 - whatever a database may say, the next request may succeed
            self.requests_failed += 1
            _log.warning("leadership cannot be asked for", request=type(request).__name__, error=str(error))
            return ev.RequestFailed(request.number)
        return ev.RowAnswered(request.number, answer.row, answer.changed)

    def _answered(self, task: asyncio.Task[ev.Event]) -> None:
        self._asking.discard(task)
        if not task.cancelled():
            self._stepper.apply(task.result())
