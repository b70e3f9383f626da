"""The compiled form of `line_kernel`; as a program, it compiles it."""

from typing import Final

from quarterdeck.engines.machine_code import MachineCode

SCAN_LINES: Final = MachineCode(
    "quarterdeck.recruiter.engine.line_kernel", "scan_lines", ("quarterdeck.recruiter.engine.line_call",)
)

if __name__ == "__main__":
    SCAN_LINES.load()
