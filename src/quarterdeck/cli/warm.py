"""`quarterdeck warm`: compiles all there is to compile, ahead of the first start, and shows how far it is."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

import quarterdeck
from quarterdeck.cli.compiled_code import everything
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.engines.code_folder import code_dir, first_writable, folders_written, keep_only_in
from quarterdeck.engines.first_compile import Progress
from quarterdeck.terminal.telling import counted

_PACKAGE: Final = Path(quarterdeck.__file__).parent
_SAY_S: Final = 5.0


def run(data_dir: Path | None, lifeline: int | None) -> int:
    if lifeline is not None:
        threading.Thread(target=_end_with, args=(lifeline,), name="lifeline", daemon=True).start()
    if data_dir is not None:
        _make(data_dir)
        keep_only_in(code_dir(data_dir))
    mark = everything()
    first_writable(mark.folders())
    began_s = time.monotonic()
    with Screen(Console(highlight=False, soft_wrap=True)) as screen:
        _compile(screen)
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
        self._kernels = Progress(0, 0)
        self._lines = Progress(0, 0)
        self._said_at: float | None = None

    def __enter__(self) -> "Screen":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def moved(self, kernels: Progress) -> None:
        with self._lock:
            self._kernels = kernels
            self._show()

    def lines_moved(self, lines: Progress) -> None:
        """Of the code that reads lines."""
        with self._lock:
            self._lines = lines
            self._show()

    def waits(self, process: int | None) -> None:
        who = "another process" if process is None else f"process {process}"
        self._console.print(f"{who} compiles the same code for this machine; waiting until it is done")

    def conclude(self, seconds: float) -> None:
        """What was done, and where it is."""
        self._stack.close()
        compiled = self._kernels.compiled + self._lines.compiled
        if compiled:
            where = " and ".join(sorted({shown_place(folder) for folder in folders_written()}))
            told = f"compiled {counted(compiled, 'kernel')} in {seconds:.0f} s"
            self._console.print(f"{told}; they are kept in {where}", markup=False)
        else:
            self._console.print("nothing to compile: all kernels are there already", markup=False)

    def _show(self) -> None:
        done, total = self._kernels.done + self._lines.done, self._kernels.total + self._lines.total
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


def _compile(screen: Screen) -> None:
    """What Python calls with arrays is compiled here, what reads lines by a process of its own at the same time."""
    from quarterdeck.metrics.warming import warm_all  # noqa: PLC0415 - the compiler; whether there is a place is first
    from quarterdeck.search.engine.line_code import SCAN_LINES  # noqa: PLC0415

    def load_lines() -> None:
        SCAN_LINES.load()
        screen.lines_moved(Progress(1, 1, compiled=1))

    with ThreadPoolExecutor(1, thread_name_prefix="lines") as executor:
        lines = None
        if not SCAN_LINES.is_ready:
            screen.lines_moved(Progress(0, 1))
            lines = executor.submit(load_lines)
        warm_all(screen.moved, screen.waits)
        if lines is not None:
            lines.result()


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
