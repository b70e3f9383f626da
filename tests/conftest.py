"""Every test is watched for what it leaves behind, and for an end.

Unraisable exceptions and exceptions in threads need nothing here: pytest warns of them, and warnings are errors.
"""

import gc
import os
import shutil
import signal
import sys
import tempfile
import zlib
from collections.abc import Generator, Iterator
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from quarterdeck.security.local_processes import RUN_DIR_VARIABLE
from tests import scheduling
from tests.leaks import no_leaks
from tests.watchdog import timeout_of, watched

_LONGEST_ID: Final = 60

# Processes of tests find each other, and not those that this user runs for something else.
os.environ[RUN_DIR_VARIABLE] = tempfile.mkdtemp(prefix="quarterdeck-run-")

# Whoever starts tests in the background of a script starts them with SIGINT ignored, and every process that a test
# starts would ignore it, too: those that a test interrupts would go on for good. A handler is not handed down.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test depends on how fast the machine is: pytest's timeout is for those that hang.
settings.register_profile("quarterdeck", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("quarterdeck")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(scheduling)


def pytest_make_parametrize_id(val: object) -> str | None:
    """A text of some length is no name of a test: its beginning says enough."""
    if not isinstance(val, str | bytes) or len(val) <= _LONGEST_ID:
        return None
    start = val[:_LONGEST_ID] if isinstance(val, bytes) else val[:_LONGEST_ID].encode("ascii", "backslashreplace")
    whole = val if isinstance(val, bytes) else val.encode("utf-8", "surrogatepass")
    return f"{ascii(start)[2:-1]}...{zlib.crc32(whole):08x}"


@pytest.fixture(autouse=True, scope="module")
def old_objects_are_not_looked_at() -> None:
    """Of a million objects that stay to the end, those that there are before a module begins. Many tests collect
    garbage, to see what is left: with all of these objects it takes a second each time, without them milliseconds."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()
    shutil.rmtree(os.environ[RUN_DIR_VARIABLE], ignore_errors=True)
    # Python empties the modules that are still there when it ends. Without this they are gone by then, while somebody
    # still holds a function of theirs (Hypothesis does) and with it what they have imported: DuckDB says at length that
    # all of it leaked, below the failures and the summary.
    ours = ("duckdb", "_duckdb", "quarterdeck", "tests")
    kept = [module for name, module in sys.modules.items() if name.partition(".")[0] in ours]
    sys.__dict__["modules_until_the_end"] = kept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Also for fixtures. A thread costs a tenth of a millisecond."""
    limit_s = timeout_of(item)
    if limit_s <= 0:
        return (yield)
    with watched(item.nodeid, limit_s):
        return (yield)


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    with no_leaks():
        yield
