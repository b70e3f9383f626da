"""One scanner for all tests that need no limits of their own: a new one costs as much as a test.

Both ways to scan are held to the same tests: in this process, and contained in another one.
"""

from collections.abc import Iterator

import pytest

from quarterdeck.engines.contained_scan import ContainedScanner
from quarterdeck.engines.duckdb_scan import DuckDbScanner
from quarterdeck.engines.limits import EngineLimits
from tests.engines.lake import Scanner

_LIMITS = EngineLimits(threads=2, memory_limit_bytes=256 * 1024 * 1024, idle_databases=4)


@pytest.fixture(scope="module", params=["in this process", "contained"])
def scanner(request: pytest.FixtureRequest) -> Iterator[Scanner]:
    contained = request.param == "contained"
    # With much patience: a process that is replaced would count as left behind.
    scanner = ContainedScanner(_LIMITS, at_once=2, patience_s=60) if contained else DuckDbScanner(_LIMITS)
    scanner.warm_up()
    yield scanner
    scanner.close()
