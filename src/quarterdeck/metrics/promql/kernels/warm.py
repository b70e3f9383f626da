"""`warm`: makes the compiled form of every kernel before a query needs one."""

import importlib
import pkgutil
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from quarterdeck.engines.compiler_process import compiler_kept
from quarterdeck.engines.first_compile import (
    CompiledMark,
    OnProgress,
    OnWait,
    Progress,
    compiled_once,
    python_sources,
)
from quarterdeck.metrics.promql import kernels
from quarterdeck.metrics.promql.kernels import compile as compiling
from quarterdeck.telemetry.logs import get_logger

_log = get_logger(__name__)

_HERE: Final = Path(__file__).parent
_TELL_S: Final = 5.0


def warm(on_progress: OnProgress | None = None, on_wait: OnWait | None = None) -> None:
    """Compile all kernels, or load what an earlier process has compiled.

    Takes half a minute on a machine that has never done it, and otherwise a second; of several processes that begin at
    once, one compiles and the others wait for it. Both is told to the two functions, and logged without them. A kernel
    that no function marked with `warms` has called is an error: a query would wait for it. Kernels in other packages
    are among them if they were imported before.
    """
    for module in pkgutil.iter_modules(kernels.__path__):
        importlib.import_module(f"{kernels.__name__}.{module.name}")
    with (
        compiled_once(_marks(), on_wait or _log_wait) as is_needed,
        _told(is_needed, on_progress or _Log()),
        compiler_kept(),
    ):
        for run in compiling.warmers():
            run()
    wrong = [kernel.name for kernel in compiling.kernels() if not kernel.is_loaded]
    if wrong:
        raise RuntimeError(f"each kernel should have been called by what warms its module, but: {', '.join(wrong)}")


def _marks() -> list[CompiledMark]:
    """One for each folder whose kernels have been imported: processes import different ones."""
    folders = {Path(sys.modules[run.__module__].__file__ or "").parent for run in compiling.warmers()}
    return [CompiledMark(folder / "warm.py", python_sources({_HERE, folder})) for folder in sorted(folders)]


@contextmanager
def _told(is_needed: bool, on_progress: OnProgress) -> Generator[None]:
    if not is_needed:
        yield
        return
    total, done = len(compiling.kernels()), dict[str, bool]()

    def tell(name: str, compiled: bool) -> None:
        done[name] = compiled
        on_progress(Progress(len(done), total, sum(done.values())))

    on_progress(Progress(0, total))
    stop: Callable[[], None] = compiling.on_made(tell)
    try:
        yield
    finally:
        stop()


class _Log:
    """Some of the progress, for who reads the log of a process."""

    def __init__(self) -> None:
        self._told_at = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if progress.done in (0, progress.total) or now - self._told_at > _TELL_S:
            self._told_at = now
            _log.info("compiling for this machine, once", done=progress.done, total=progress.total)


def _log_wait(process: int | None) -> None:
    _log.info("another process compiles the same code; waiting for it", pid=process)
