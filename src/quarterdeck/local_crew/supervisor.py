"""Child processes: started, watched, started again when they end, stopped in order.

Nothing here waits unless it is called `wait_…` or `stop`. `look` does what is due and returns what has happened since
the last look; whoever has the loop calls it a few times a second. There is one thread, so that no signal ever goes to a
process that somebody else has just seen end.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from quarterdeck.core.backoff import Backoff
from quarterdeck.local_crew.child import QUARTERDECK, Child, ChildFailedError, ChildState

LOOK_S: Final = 0.05
_START_LIMIT_S: Final = 90.0
"""A start takes two seconds of processor time; on a small machine with many workers they wait for each other. While a
child says that it compiles, the time does not run: that takes as long as it takes."""
_STEADY_S: Final = 30.0
"""An end after this long is not the continuation of earlier ones."""
_RESTARTS: Final = Backoff(base_s=0.2, cap_s=15.0)


@dataclass(frozen=True, slots=True)
class ChildEvent:
    """Something a person would want to know."""

    name: str
    text: str
    """The rest of a sentence that begins with the name."""
    lines: Sequence[str] = ()
    """What the child wrote last, where that explains it."""


class Supervisor:
    """Use it as a context; leaving it kills what still runs. Children are started again once `keep_alive` is set."""

    def __init__(
        self,
        on_event: Callable[[ChildEvent], None],
        *,
        log_folder: Path | None,
        environment: Mapping[str, str] | None = None,
        program: Sequence[str] = QUARTERDECK,
        clock: Callable[[], float] = time.monotonic,
        start_limit_s: float = _START_LIMIT_S,
    ) -> None:
        self._on_event = on_event
        self._log_folder = log_folder
        self._environment = environment
        self._program = program
        self._clock = clock
        self._start_limit_s = start_limit_s
        self.children: dict[str, Child] = {}
        self.keep_alive = False
        self._read_end = -1
        self._write_end = -1

    def __enter__(self) -> Self:
        if self._log_folder is not None:
            self._log_folder.mkdir(parents=True, exist_ok=True)
        self._read_end, self._write_end = os.pipe()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()
        os.close(self._read_end)
        os.close(self._write_end)

    def start(
        self, name: str, data_dir: Path, arguments: Sequence[str], *, stop_limit_s: float, settings: Sequence[str] = ()
    ) -> Child:
        """Starts a child, and does not wait for it. Everybody on the machine can read its arguments; its settings
        nobody but this user."""
        log_file = None if self._log_folder is None else self._log_folder / f"{name}.log"
        child = self.children[name] = Child(name, data_dir, arguments, log_file, stop_limit_s, settings)
        self._spawn(child)
        return child

    def start_ahead(self, name: str, data_dir: Path, arguments: Sequence[str], *, stop_limit_s: float) -> Child:
        """Starts a child whose settings nobody knows yet: it loads what it needs, and waits for `go_on`."""
        log_file = None if self._log_folder is None else self._log_folder / f"{name}.log"
        child = self.children[name] = Child(name, data_dir, arguments, log_file, stop_limit_s)
        child.spawn(self._program, self._read_end, self._environment, ahead=True)
        return child

    def go_on(self, child: Child, now: Sequence[str], *, arguments: Sequence[str], settings: Sequence[str]) -> None:
        """`now` are the settings of this start, the others are for later ones."""
        child.arguments, child.settings = arguments, settings
        child.began_at = self._clock()
        child.go_on(now)

    def wait_up(self, children: Iterable[Child], give_up: Callable[[], bool]) -> bool:
        """Until all of them are up; False when it was given up before. One that ends instead is an error."""
        waiting = list(children)
        while waiting:
            self.look()
            for child in waiting:
                if child.state is ChildState.ENDED:
                    raise ChildFailedError(child)
            waiting = [child for child in waiting if child.state is not ChildState.UP]
            if waiting and give_up():
                return False
            time.sleep(LOOK_S if waiting else 0)
        return True

    def look(self) -> None:
        """Sees who has come up and who has ended, and starts again whose time has come."""
        now = self._clock()
        for child in self.children.values():
            match child.state:
                case ChildState.STARTING | ChildState.UP if child.exit_code is not None:
                    self._ended(child, now)
                case ChildState.STARTING if child.has_announced():
                    self._is_up(child)
                case ChildState.STARTING if child.is_compiling():
                    self._compiles(child, now)
                case ChildState.STARTING if now - child.began_at > self._start_limit_s:
                    self._too_slow(child)
                case ChildState.AHEAD:
                    pass  # how it ended is told when it should go on
                case ChildState.RESTING if now >= child.start_again_at:
                    self._spawn(child)
                    self._tell(child, f"is started again (process {child.pid})")
                case _:
                    pass

    def stop(self, children: Iterable[Child], hurry: Callable[[], bool]) -> list[Child]:
        """Tells them to stop, and waits until they have; kills those that take too long, or all when in a hurry.

        Those that ran and did not end well are returned. One that was just starting may not know the signal yet: that
        it ends by it is as it should be.
        """
        running = [child for child in children if child.exit_code is None]
        began = self._clock()
        for child in running:
            child.send(signal.SIGTERM)
        stopping = running
        while stopping := [child for child in stopping if child.exit_code is None]:
            for child in stopping:
                if hurry():
                    child.send(signal.SIGKILL)
                elif self._clock() - began > child.stop_limit_s:
                    self._tell(child, f"did not stop within {child.stop_limit_s:.0f} s and is killed")
                    child.stop_limit_s = float("inf")
                    child.send(signal.SIGKILL)
            time.sleep(LOOK_S)
        self._settle()
        return [child for child in running if child.exit_code not in (0, -signal.SIGTERM)]

    def kill(self) -> None:
        """Ends all that runs, at once."""
        for child in self.children.values():
            child.send(signal.SIGKILL)
        for child in self.children.values():
            child.forget_later()
            if child.process is not None:
                child.process.wait()
        self._settle()

    def _settle(self) -> None:
        """What was stopped on purpose has ended; nobody is told."""
        for child in self.children.values():
            if child.exit_code is not None:
                child.state = ChildState.ENDED

    def _spawn(self, child: Child) -> None:
        child.began_at = self._clock()
        child.spawn(self._program, self._read_end, self._environment)

    def _is_up(self, child: Child) -> None:
        child.state = ChildState.UP
        if child.starts > 1:
            self._tell(child, "is up again")

    def _ended(self, child: Child, now: float) -> None:
        early = child.state is ChildState.STARTING
        if not self.keep_alive:
            child.state = ChildState.ENDED
            return
        child.failures = 1 if now - child.began_at > _STEADY_S else child.failures + 1
        rest_s = _RESTARTS.delay_s(child.failures, 0.5)
        child.state = ChildState.RESTING
        child.start_again_at = now + rest_s
        failed = ChildFailedError(child) if early else None
        text = child.how_it_ended() if failed is None else f"did not start: {failed.why}"
        where = f"; its log is {child.log_file}" if early and child.log_file is not None else ""
        self._tell(child, f"{text}; next try in {rest_s:.1f} s{where}", failed.lines if failed else ())

    def _compiles(self, child: Child, now: float) -> None:
        child.began_at = now
        if not child.told_compiling:
            child.told_compiling = True
            self._tell(child, "compiles what it needs on this machine, which may take some minutes")

    def _too_slow(self, child: Child) -> None:
        """It will be seen to have ended at the next look."""
        child.send(signal.SIGKILL)
        if child.process is not None:
            child.process.wait()
        if not self.keep_alive:
            raise ChildFailedError(child, f"it did not say within {self._start_limit_s:.0f} s where it is")
        self._tell(child, f"did not say within {self._start_limit_s:.0f} s where it is, and was killed")

    def _tell(self, child: Child, text: str, lines: Sequence[str] = ()) -> None:
        self._on_event(ChildEvent(child.name, text, lines))
