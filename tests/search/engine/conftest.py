"""Both ways to search are held to the same tests: in this process, and contained in another one. A module that changes
the engine under test says `WAYS = IN_THIS_PROCESS`, because another process would not notice."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from quarterdeck.engines import duckdb_database
from quarterdeck.search.engine.chunk_search import ChunkSearcher
from quarterdeck.search.engine.contained_search import ContainedSearcher
from tests.search.engine.searched import ALL_WAYS, CONTAINED, GATHERING_BYTES, IN_THIS_PROCESS, MIB, Bench


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "bench" in metafunc.fixturenames:
        metafunc.parametrize("bench", _ways(metafunc), indirect=True)


def _ways(of: Any) -> Sequence[str]:
    return getattr(of.module, "WAYS", ALL_WAYS)


@pytest.fixture(scope="module")
def contained(request: pytest.FixtureRequest) -> Iterator[ContainedSearcher | None]:
    """One for a module, made before its first test: what a test opens counts as left behind."""
    if CONTAINED not in _ways(request):
        yield None
        return
    # With much patience: a process that is replaced would count as left behind.
    searcher = ContainedSearcher(at_once=1, memory_limit_bytes=512 * MIB, patience_s=60)
    searcher.warm_up()
    yield searcher
    searcher.close()


@pytest.fixture(scope="module")
def inside(request: pytest.FixtureRequest) -> Iterator[ChunkSearcher | None]:
    """One for a module: a new database costs as much as a test. What a search has spoilt, the searcher replaces."""
    if not set(IN_THIS_PROCESS) & set(_ways(request)):
        yield None
        return
    searcher = ChunkSearcher(at_once=1, memory_limit_bytes=512 * MIB)
    yield searcher
    searcher.close()


@pytest.fixture
def bench(
    tmp_path: Path, request: pytest.FixtureRequest, contained: ContainedSearcher | None, inside: ChunkSearcher | None
) -> Bench:
    searcher = contained if request.param == CONTAINED else inside
    assert searcher is not None
    return Bench(tmp_path, searcher)


@pytest.fixture(scope="module")
def gathered_in_one_database() -> Iterator[None]:
    """For modules that put many small answers together and look at what they say: a new database costs more than an
    answer. Each answer has a connection of its own, and no disk. `test_gathering` is about the databases."""
    kept = duckdb_database.open_database(threads=1, memory_limit_bytes=GATHERING_BYTES)

    def lent(*, threads: int, memory_limit_bytes: int, **disk: object) -> duckdb.DuckDBPyConnection:
        assert (threads, memory_limit_bytes) == (1, GATHERING_BYTES)
        return kept.cursor()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(duckdb_database, "open_database", lent)
        yield
    kept.close()
