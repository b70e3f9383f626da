"""What a worker's reservation machine wants done. Imperative: the driver executes them in the order they come in."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Register:
    """Hold a registration with this recruiter; say how it ended by one of the four events for that."""

    poll: int
    recruiter: str


@dataclass(frozen=True, slots=True)
class WithdrawRegistration:
    """Take it back; answer with `RegistrationWithdrawn`, or with how it ended if it was faster."""

    poll: int


@dataclass(frozen=True, slots=True)
class AdmitSearch:
    """Begin it; answer with `SearchEnded` when nothing of it runs any more."""

    search: int


@dataclass(frozen=True, slots=True)
class RefuseSearch:
    """Turn it away. No answer is expected."""

    search: int
    why: str


@dataclass(frozen=True, slots=True)
class StopSearch:
    """Cut its connection and stop it soon; answer with `SearchEnded`."""

    search: int
    why: str


@dataclass(frozen=True, slots=True)
class SetAccepting:
    """Whether coordinators may give the worker new work."""

    accepting: bool


@dataclass(frozen=True, slots=True)
class LeaveProcess:
    """End the process, gently: whoever started it starts a fresh one."""

    why: str


@dataclass(frozen=True, slots=True)
class FinishDrain:
    """Nothing is left to wait for."""


Effect = (
    Register
    | WithdrawRegistration
    | AdmitSearch
    | RefuseSearch
    | StopSearch
    | SetAccepting
    | LeaveProcess
    | FinishDrain
)
