"""What ends a test that its own timeout cannot end.

The timeout of pytest raises an exception in the test. A test that then waits for a process to end, in the cleanup of a
`with` block for example, waits on. So a while after the timeout the processes that the test started are killed, which
ends such a wait, and the test fails as it should. If that does not help either, the whole process of pytest ends; xdist
names the test and goes on with another process.
"""

import contextlib
import faulthandler
import os
import sys
import threading
import time
from collections.abc import Generator
from typing import Any, Final

import psutil
import pytest

GRACE_S: Final = 20.0
"""For the cleanup of a test that had its timeout; then as long again once its processes were killed."""
_EXIT: Final = 70  # as in sysexits(3): an error of the software


def timeout_of(item: pytest.Item) -> float:
    """Seconds that the test may take as pytest-timeout sees it; 0 if it may take as long as it wants."""
    marker = item.get_closest_marker("timeout")
    if marker is not None and (marker.args or "timeout" in marker.kwargs):
        given: Any = marker.args[0] if marker.args else marker.kwargs["timeout"]
    else:
        option: Any = item.config.getoption("timeout", None)
        given = item.config.getini("timeout") if option is None else option
    return float(given or 0)


@contextlib.contextmanager
def watched(name: str, limit_s: float, grace_s: float = GRACE_S, last_grace_s: float = GRACE_S) -> Generator[None]:
    """The block may take so long. It is not stopped: what it may be waiting for is."""
    began = time.time()
    has_ended = threading.Event()

    def watch() -> None:
        if has_ended.wait(limit_s + grace_s):
            return
        _say(f"{name} goes on {grace_s:g} s after its timeout of {limit_s:g} s: its processes are killed")
        faulthandler.dump_traceback(sys.__stderr__ or 2)
        _kill_processes_since(began)
        if has_ended.wait(last_grace_s):
            return
        _say(f"{name} goes on after its processes were killed: pytest ends here")
        _kill_processes_since(0.0)
        os._exit(_EXIT)

    watcher = threading.Thread(target=watch, name="watchdog of a test", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        has_ended.set()
        watcher.join()


def _kill_processes_since(began: float) -> None:
    """Those below this one which are not older: session fixtures have older ones, which other tests need."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.create_time() >= began - 1.0:  # the kernel counts in hundredths of a second
                _say(f"killed: {process.pid} {' '.join(process.cmdline())[:200]}")
                process.kill()


def _say(text: str) -> None:
    """To the real stderr: what pytest captures is shown when the test has ended, and this one may not."""
    os.write(2 if sys.__stderr__ is None else sys.__stderr__.fileno(), f"watchdog: {text}\n".encode())
