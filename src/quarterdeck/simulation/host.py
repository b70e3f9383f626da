"""A simulated machine: one process at a time, a clock of its own; it can be started, killed, paused and resumed."""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from quarterdeck.simulation.loop import SimulatedLoop
from quarterdeck.simulation.process import Process, ProcessState

if TYPE_CHECKING:
    from quarterdeck.simulation.stage import Stage

StageT = TypeVar("StageT", bound="Stage[Any]")


class HostClock:
    """A host's own clock: it may leap."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self.ahead_s = 0.0

    def now(self) -> float:
        return self._loop.time() + self.ahead_s


class Host(Generic[StageT]):
    """What runs on it is for the subclass to start."""

    def __init__(self, world: StageT, name: str) -> None:
        self.world = world
        self.name = name
        self.starts = 0
        self.clock = HostClock(world.loop)
        self.process = Process(f"{name}.0")
        self.process.state = ProcessState.DEAD
        self.back_after_s = 0.0
        """How long after it has ended by itself its process starts again."""

    @property
    def alive(self) -> bool:
        return self.process.state is not ProcessState.DEAD

    def start(self) -> None:
        self.starts += 1
        self.process = Process(f"{self.name}.{self.starts}")
        self.world.note(f"{self.name} starts, incarnation {self.starts}")

    def kill(self) -> None:
        """kill -9: what is on its way from it is lost too."""
        self.world.network.host_died(self.name)
        self.exit()

    def exit(self) -> None:
        """The process ends by itself: what it sent last arrives."""
        self.world.loop.kill(self.process)
        self.world.network.stop_listening(self.name)
        self.world.process_died(self.process)

    def spawn(self, coroutine: Coroutine[None, None, object], name: str) -> None:
        """Starts something as part of the process."""
        self.world.loop.spawn(self.process, coroutine, name=f"{self.process.name}: {name}")
