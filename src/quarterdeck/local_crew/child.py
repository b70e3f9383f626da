"""One child process: how it is started, what it said last, and why it ended.

Each child holds the reading end of a pipe, its lifeline. When the process that started it is gone, for whatever reason,
the pipe ends and the child stops too.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from quarterdeck.core.errors import ERROR_TABLE, ErrorCode, QuarterdeckError
from quarterdeck.local_crew.handed_settings import OPTION, WHEN_OPTION, LaterSettings, handed_over
from quarterdeck.stores.data_folder import announced, who_compiles
from quarterdeck.stores.disk_full import has_little_room, room_of

_TAIL_BYTES: Final = 64 * 1024
# -P: a folder called quarterdeck, or a file json.py, in the current folder is not ours.
QUARTERDECK: Final = (sys.executable, "-P", "-m", "quarterdeck")
_LAST_LINES: Final = 8
_LOG_LIMIT_BYTES: Final = 16 * 1024 * 1024
"""A log file larger than this is put aside when its process is started; one such is kept."""
_PREFIX: Final = "quarterdeck: "
"""How the command begins the line that says why it ends."""
_CODES: Final = {row.exit_code: code for code, row in ERROR_TABLE.items()}


class ChildState(StrEnum):
    STARTING = "starting"
    UP = "up"
    """It has announced where it is."""
    AHEAD = "ahead"
    """It was started, loads what it needs, and waits for its settings."""
    RESTING = "resting"
    """It ended, and will be started again in a moment."""
    ENDED = "ended"


@dataclass(slots=True)
class Child:
    """A process to keep. Times are of the supervisor's clock."""

    name: str
    data_dir: Path
    arguments: Sequence[str]
    log_file: Path | None
    """None lets what it writes through to our own stderr."""
    stop_limit_s: float
    """How long it may take to stop when it is told to."""
    settings: Sequence[str] = field(default=(), repr=False)
    """Each NAME=VALUE. There may be secrets among them: they are not on its command line."""
    state: ChildState = ChildState.ENDED
    process: "subprocess.Popen[bytes] | None" = None
    starts: int = 0
    failures: int = 0
    """Ends in a row that came early."""
    began_at: float = 0.0
    start_again_at: float = 0.0
    told_compiling: bool = False
    """Whether it was told of this start that it compiles."""
    addresses: Mapping[str, object] = field(default_factory=dict[str, object])
    """What it announced."""
    _log_begins: int = 0
    _later: LaterSettings | None = None
    """Of a start ahead."""

    @property
    def pid(self) -> int:
        return 0 if self.process is None else self.process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs, and before it was started."""
        return None if self.process is None else self.process.poll()

    def spawn(
        self, program: Sequence[str], lifeline: int, environment: Mapping[str, str] | None, *, ahead: bool = False
    ) -> None:
        """`environment` is our own when it is None. One that is started ahead goes on when it is told to."""
        command = [*program, *self.arguments, "--data-dir", str(self.data_dir), "--lifeline", str(lifeline)]
        with ExitStack() as stack:
            log = None
            if self.log_file is not None:
                log = self._open_log(self.log_file)
                stack.callback(os.close, log)
            inherited = [lifeline]
            if ahead:
                self._later = LaterSettings()
                file, waits_at = self._later.inherited
                inherited += [file, waits_at]
                command += [OPTION, str(file), WHEN_OPTION, str(waits_at)]
            elif self.settings:
                handed = stack.enter_context(handed_over(self.settings))
                inherited.append(handed)
                command += [OPTION, str(handed)]
            # In a session of its own: an interrupt from the keyboard is for us, and we tell the children.
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                pass_fds=inherited,
                start_new_session=True,
            )
        self.addresses = {}
        self.told_compiling = False
        self.starts += 1
        self.state = ChildState.AHEAD if ahead else ChildState.STARTING

    def go_on(self, settings: Sequence[str]) -> None:
        """For one that was started ahead: these are its settings, besides those of its next starts."""
        assert self._later is not None
        self.state = ChildState.STARTING
        self._later.give(settings)

    def forget_later(self) -> None:
        """It will not be told to go on."""
        if self._later is not None:
            self._later.close()

    def send(self, number: signal.Signals) -> None:
        """To a child that may be gone already."""
        if self.process is not None:
            self.process.send_signal(number)

    def has_announced(self) -> bool:
        found = announced(self.data_dir)
        if found is None or found.get("pid") != self.pid:
            return False
        self.addresses = found
        return True

    def is_compiling(self) -> bool:
        """Whether its start takes longer, for a reason that it has told."""
        return who_compiles(self.data_dir) == self.pid

    def last_lines(self) -> list[str]:
        """What it wrote last since it was started; nothing when that went to our own stderr."""
        if self.log_file is None:
            return []
        try:
            with self.log_file.open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                log.seek(max(self._log_begins, size - _TAIL_BYTES))
                lines = log.read().decode(errors="replace").splitlines()
        except FileNotFoundError:
            return []
        return [line for line in lines if line.strip()][-_LAST_LINES:]

    def how_it_ended(self) -> str:
        code = self.exit_code
        if code is None:
            return "still runs"
        return ended_how(code)

    def _open_log(self, path: Path) -> int:
        if path.exists() and path.stat().st_size > _LOG_LIMIT_BYTES:
            path.replace(path.with_name(f"{path.name}.1"))
        log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._log_begins = os.fstat(log).st_size
        return log


def ended_how(code: int) -> str:
    """As `subprocess` tells it: the negative number of a signal, or an exit code."""
    return f"ended with exit code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"


class ChildFailedError(QuarterdeckError):
    """A child did not come up. The code is the child's own, as far as its exit code tells."""

    def __init__(self, child: Child, why: str | None = None) -> None:
        lines = child.last_lines()
        said = [line.removeprefix(_PREFIX) for line in lines if line.startswith(_PREFIX)]
        self.lines: Final = () if said else tuple(lines)
        """What it wrote last, when that is no error in words."""
        code = _CODES.get(child.exit_code or 0, ErrorCode.UNAVAILABLE)
        why = why or (said[-1] if said else f"it {child.how_it_ended()}")
        next_step = "what it wrote is above" if child.log_file is None else f"its log is {child.log_file}"
        if child.log_file is not None and not lines and has_little_room(child.log_file):
            code = ErrorCode.RESOURCE_EXHAUSTED
            why = f"{why} and wrote nothing: the disk is full; {room_of(child.log_file)}"
            next_step = "free space there, or name a folder with more room with --data-dir; then try again"
        super().__init__(code, f"{child.name} did not start", why, next_step)
