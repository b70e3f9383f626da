"""Every test is watched for what it leaves behind.

Unraisable exceptions and exceptions in threads need nothing here: pytest warns of them, and warnings are errors.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator

import pytest

from quarterdeck.security.local_processes import RUN_DIR_VARIABLE
from tests.leaks import no_leaks

# Processes of tests find each other, and not those that this user runs for something else.
os.environ[RUN_DIR_VARIABLE] = tempfile.mkdtemp(prefix="quarterdeck-run-")


def pytest_unconfigure() -> None:
    shutil.rmtree(os.environ[RUN_DIR_VARIABLE], ignore_errors=True)
    # Python empties the modules that are still there when it ends. Without this they are gone by then, while somebody
    # still holds a function of theirs (Hypothesis does) and with it what they have imported: DuckDB says at length that
    # all of it leaked, below the failures and the summary.
    ours = ("duckdb", "_duckdb", "quarterdeck", "tests")
    kept = [module for name, module in sys.modules.items() if name.partition(".")[0] in ours]
    sys.__dict__["modules_until_the_end"] = kept


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    with no_leaks():
        yield
