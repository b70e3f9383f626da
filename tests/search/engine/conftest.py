"""Both ways to search are held to the same tests: in this process, and contained in another one. A module that changes
the engine under test says `WAYS = IN_THIS_PROCESS`, because another process would not notice."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.search.engine.chunk_search import ChunkSearcher
from quarterdeck.search.engine.contained_search import ContainedSearcher
from tests.search.engine.searched import ALL_WAYS, CONTAINED, MIB, Bench


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


@pytest.fixture
def bench(tmp_path: Path, request: pytest.FixtureRequest, contained: ContainedSearcher | None) -> Iterator[Bench]:
    if request.param == CONTAINED:
        assert contained is not None
        yield Bench(tmp_path, contained)
        return
    searcher = ChunkSearcher(at_once=1, memory_limit_bytes=512 * MIB)
    yield Bench(tmp_path, searcher)
    searcher.close()
