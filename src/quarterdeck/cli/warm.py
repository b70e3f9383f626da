"""`quarterdeck warm`: compiles everything ahead of the first start, and shows its progress."""

import os
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

import quarterdeck
from quarterdeck.capability import Capability
from quarterdeck.cli.compiled_code import everything
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.engines.code_folder import code_dir, first_writable, folders_written, keep_only_in
from quarterdeck.engines.first_compile import Progress
from quarterdeck.terminal.telling import counted

_PACKAGE: Final = Path(quarterdeck.__file__).parent
_SAY_S: Final = 5.0


def run(capabilities: Sequence[Capability], data_dir: Path | None, lifeline: int | None) -> int:
    if lifeline is not None:
        threading.Thread(target=_end_with, args=(lifeline,), name="lifeline", daemon=True).start()
    if data_dir is not None:
        _make(data_dir)
        keep_only_in(code_dir(data_dir))
    mark = everything(capabilities)
    first_writable(mark.folders())
    began_s = time.monotonic()
    with Screen(Console(highlight=False, soft_wrap=True)) as screen:
        _compile(capabilities, screen)
        mark.set()
        if not mark.is_set():
            raise _not_kept()
        screen.conclude(time.monotonic() - began_s)
    return 0


class Screen:
    """A bar on a terminal, single lines elsewhere. Any thread may use it."""

    def __init__(self, console: Console, say_s: float = _SAY_S) -> None:
        self._console = console
        self._say_s = say_s
        self._stack = ExitStack()
        self._lock = threading.Lock()
        self._bar: tuple[Bar, TaskID] | None = None
        self._progress: dict[str, Progress] = {}
        self._said_at: float | None = None

    def __enter__(self) -> "Screen":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def moved(self, whose: str, progress: Progress) -> None:
        with self._lock:
            self._progress[whose] = progress
            self._show()

    def waits(self, process: int | None) -> None:
        who = "another process" if process is None else f"process {process}"
        self._console.print(f"{who} compiles the same code for this machine; waiting until it is done")

    def conclude(self, seconds: float) -> None:
        """What was done, and where it is."""
        self._stack.close()
        compiled = sum(one.compiled for one in self._progress.values())
        if compiled:
            where = " and ".join(sorted({shown_place(folder) for folder in folders_written()}))
            told = f"compiled {counted(compiled, 'kernel')} in {seconds:.0f} s"
            self._console.print(f"{told}; they are kept in {where}", markup=False)
        else:
            self._console.print("nothing to compile: all kernels are there already", markup=False)

    def _show(self) -> None:
        every = self._progress.values()
        done, total = sum(one.done for one in every), sum(one.total for one in every)
        if self._console.is_terminal:
            if self._bar is None:
                bar = Bar(
                    TextColumn("{task.description}"),
                    BarColumn(),
                    MofNCompleteColumn(),
                    TimeElapsedColumn(),
                    console=self._console,
                    transient=True,
                )
                self._bar = self._stack.enter_context(bar), bar.add_task("compiling for this machine, once")
            bar, task = self._bar
            bar.update(task, completed=done, total=total)
            return
        now = time.monotonic()
        if self._said_at is None:
            self._console.print("compiling for this machine, once; this takes a minute or so")
        elif now - self._said_at >= self._say_s and done < total:
            self._console.print(f"compiling {done} of {total}")
        else:
            return
        self._said_at = now


def shown_place(folder: Path) -> str:
    """A folder for compiled code, as the place that a person knows: those beside sources are the package."""
    return str(_PACKAGE if folder.name == "__pycache__" else folder.parent)


def _compile(capabilities: Sequence[Capability], screen: Screen) -> None:
    """All at the same time, each in a thread of its own."""
    made = [(one.name, one.compiled.make.load()) for one in capabilities if one.compiled is not None]
    with ThreadPoolExecutor(max(1, len(made)), thread_name_prefix="compile") as executor:
        running = [executor.submit(make, partial(screen.moved, whose), screen.waits) for whose, make in made]
        for one in running:
            one.result()


def _make(data_dir: Path) -> None:
    """As whoever uses it would."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            f"the data folder {data_dir} cannot be used",
            error.strerror or str(error),
            "choose another with --data-dir, or make this one writable",
        ) from None


def _not_kept() -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.RESOURCE_EXHAUSTED,
        "what was compiled could not be kept",
        "the folder for it took nothing, as when its disk is full",
        "make room, and run it again",
    )


def _end_with(lifeline: int) -> None:
    """Ends this process, and the compiler's, when whoever started it is gone."""
    os.read(lifeline, 1)
    os.killpg(os.getpgid(0), signal.SIGKILL)
