"""The compiled form of `line_kernel`."""

from typing import Final

from quarterdeck.engines.first_compile import OnProgress, OnWait, Progress
from quarterdeck.engines.machine_code import MachineCode

SCAN_LINES: Final = MachineCode(
    "quarterdeck.search.engine.line_kernel", "scan_lines", ("quarterdeck.search.engine.line_call",)
)


def compile_lines(on_progress: OnProgress, on_wait: OnWait) -> None:
    """For `quarterdeck warm`; by a process of its own."""
    del on_wait
    if not SCAN_LINES.is_ready:
        on_progress(Progress(0, 1))
        SCAN_LINES.load()
        on_progress(Progress(1, 1, compiled=1))
