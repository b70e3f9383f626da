"""Every test is watched for what it leaves behind, and for an end.

Unraisable exceptions and exceptions in threads need nothing here: pytest warns of them, and warnings are errors.
"""

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from quarterdeck.security.local_processes import RUN_DIR_VARIABLE
from tests.leaks import no_leaks
from tests.watchdog import timeout_of, watched

# Processes of tests find each other, and not those that this user runs for something else.
os.environ[RUN_DIR_VARIABLE] = tempfile.mkdtemp(prefix="quarterdeck-run-")

# Whoever starts tests in the background of a script starts them with SIGINT ignored, and every process that a test
# starts would ignore it, too: those that a test interrupts would go on for good. A handler is not handed down.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test depends on how fast the machine is: pytest's timeout is for those that hang.
settings.register_profile("quarterdeck", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("quarterdeck")


def pytest_collection_finish() -> None:
    """Half a million objects that stay to the end: the collector need not look at them each time that it looks."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()
    shutil.rmtree(os.environ[RUN_DIR_VARIABLE], ignore_errors=True)


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
