"""Many short runs: what is loaded before them stays, and the collector need not look at it after each."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def settled() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
