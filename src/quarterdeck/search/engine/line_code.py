"""The compiled form of `line_kernel`."""

from typing import Final

from quarterdeck.engines.machine_code import MachineCode

SCAN_LINES: Final = MachineCode(
    "quarterdeck.search.engine.line_kernel", "scan_lines", ("quarterdeck.search.engine.line_call",)
)
