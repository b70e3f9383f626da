"""One scanner for all tests that need no limits of their own: a new one costs as much as a test."""

from collections.abc import Iterator

import pytest

from quarterdeck.engines.duckdb_scan import DuckDbScanner


@pytest.fixture(scope="module")
def scanner() -> Iterator[DuckDbScanner]:
    scanner = DuckDbScanner(threads=2, memory_limit_bytes=256 * 1024 * 1024)
    scanner.warm_up()
    yield scanner
    scanner.close()
