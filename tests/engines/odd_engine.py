"""An engine that does what no engine should, when it is asked to. It runs in an engine's process."""

import ctypes
import json
import os
import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from quarterdeck.engines.duckdb_scan import DuckDbScanner, Rows
from quarterdeck.engines.scan_engine import ScanEngine
from quarterdeck.engines.scan_file import ScanFile
from quarterdeck.engines.stop_signal import StopSignal

ENGINE = "tests.engines.odd_engine:OddEngine"
CRASH, ABORT, LEAVE, RAISE = "-- crash", "-- abort", "-- leave", "-- raise"
DEAF, HOLD = "-- deaf", "-- hold the interpreter"
GROW, KEEP = "-- grow", "-- keep"
TELL = "-- tell"
_ENDLESS = "SELECT count(*) FROM range(100000000000) WHERE range % 7 = 8"


class _NeverStopped:
    def check(self) -> None:
        pass

    @contextmanager
    def on_cancel(self, callback: Callable[[], None]) -> Generator[None]:
        yield


class OddScanner(DuckDbScanner):
    """Anything but the texts above is SQL."""

    kept = b""

    @contextmanager
    def scan(self, sql: str, files: Sequence[ScanFile], stop: StopSignal, **options: Any) -> Generator[Rows]:
        match sql:
            case "-- crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "-- abort":
                os.abort()
            case "-- leave":
                os._exit(3)
            case "-- raise":
                raise ZeroDivisionError
            case "-- hold the interpreter":
                ctypes.PyDLL(None).sleep(3600)
            case "-- deaf":
                sql, stop = _ENDLESS, _NeverStopped()
            case "-- grow":
                hoard = list[bytes]()
                while True:
                    hoard.append(b"x" * (16 * 1024 * 1024))
            case "-- keep":
                self.kept = b"x" * (400 * 1024 * 1024)
                sql = "SELECT 1 AS one"
            case "-- tell":
                sql = f"SELECT $tell${json.dumps(_seen())}$tell$ AS seen"
            case _:
                pass
        with super().scan(sql, files, stop, **options) as rows:
            yield rows


class OddEngine(ScanEngine):
    scanner = OddScanner


def _seen() -> dict[str, Any]:
    """What a process of an engine finds."""
    try:
        Path("/tmp/quarterdeck-engine-writes").write_text("x", encoding="ascii")
        written = "yes"
    except OSError as error:
        written = str(error.strerror)
    finally:
        Path("/tmp/quarterdeck-engine-writes").unlink(missing_ok=True)
    folder = Path("/proc/self/fd")
    targets = [str(entry.readlink()) for entry in folder.iterdir() if entry.exists() or entry.is_symlink()]
    return {
        "environment": sorted(os.environ),
        "sockets": sum(target.startswith("socket:") for target in targets),
        "pipes": sum(target.startswith("pipe:") for target in targets),
        "parent": os.getppid(),
        "written": written,
    }
