from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.recruiter.engine.searched import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.searcher.close()
