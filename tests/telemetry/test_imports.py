"""What costs time to import is imported when it is needed, and not before."""

import subprocess
import sys

MODULES = ("logs", "traces", "exposition", "metrics")
HEAVY = ("structlog", "prometheus_client", "opentelemetry", "rich", "asyncio", "importlib.metadata")
PROGRAM = f"""
import importlib, sys
for module in {MODULES!r}:
    importlib.import_module("quarterdeck.telemetry." + module)
    print(module, *(name for name in {HEAVY!r} if name in sys.modules))
"""


def test_importing_a_module_loads_no_library_that_is_slow_to_load() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == list(MODULES)
