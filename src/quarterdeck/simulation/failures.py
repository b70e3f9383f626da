"""How a simulated run ends badly: findings about the simulated program, never about the simulator's host.

It must not know the loop.
"""

from typing import NamedTuple


class Unhandled(NamedTuple):
    """An error that no code of the simulated processes took care of."""

    process: str | None
    message: str
    exception: BaseException | None


class SimulationFailure(Exception):
    """The simulation cannot go on."""


class SimulationDeadlock(SimulationFailure):
    """Nothing is ready and no timer is set, but the end is not reached."""


class SimulationOverrun(SimulationFailure):
    """The run takes more steps or more virtual time than allowed; mostly a livelock."""


class UnhandledInSimulation(SimulationFailure):
    """An exception escaped a callback, or a task failed and nobody looked. The first one is the cause."""

    def __init__(self, errors: list[Unhandled]) -> None:
        self.errors = tuple(errors)
        lines = [f"{error.process or 'simulator'}: {error.message}: {error.exception!r}" for error in errors]
        super().__init__("\n  ".join([f"{len(lines)} unhandled in simulation:", *lines]))
        self.__cause__ = errors[0].exception


class NotSimulated(SimulationFailure):
    """The program asked the loop for something that leaves the simulation."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name}: the simulated loop has no threads, sockets, child processes or signals, and its settings are not "
            "for one process to change; put this behind a port that has a simulated implementation"
        )
        self.name = name
