"""The compiled form of `line_kernel`."""

from typing import Final

from quarterdeck.engines.machine_code import MachineCode

SCAN_LINES: Final = MachineCode(
    "quarterdeck.recruiter.engine.line_kernel", "scan_lines", ("quarterdeck.recruiter.engine.line_call",)
)
