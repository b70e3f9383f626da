"""A worker keeps the memory that a query has freed."""

import os
import subprocess
import sys

import pytest

from quarterdeck.crew.process.freed_memory import keep_freed_memory

_FAULTS = """
import resource, sys, threading
import numpy as np
from quarterdeck.crew.process.freed_memory import keep_freed_memory

def query():
    for _ in range(20):
        arrays = [np.ones(1_500_000) for _ in range(3)]
        del arrays

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    thread = threading.Thread(target=query)
    thread.start()
    thread.join()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

was_set = keep_freed_memory() if sys.argv[1] == "keep" else True
print(faults() if was_set else "unknown")
"""


def _page_faults(how: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", _FAULTS, how], env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_arrays_of_the_next_query_are_not_cleared_again() -> None:
    kept = _page_faults("keep")
    if kept == "unknown":
        pytest.skip("the C library is not glibc")
    assert int(kept) * 3 < int(_page_faults("as it is"))


def test_what_somebody_set_by_hand_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1000000")
    assert not keep_freed_memory()


_POOL = """
from quarterdeck.crew.process.launching import begin
from quarterdeck.config import CoordinatorSettings

begin(CoordinatorSettings())
import pyarrow
print(pyarrow.default_memory_pool().backend_name)
"""


def test_a_process_has_one_allocator_for_arrows_readers_and_writers_too() -> None:
    """Those of Parquet take their memory from the pool that is the default when Arrow is loaded, whatever is set later:
    200 MB of it stayed with a coordinator for good."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ARROW_")}
    done = subprocess.run([sys.executable, "-c", _POOL], env=environment, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "system"
