"""What tests of the simulated loop share."""

import sys
from collections.abc import Iterator

import pytest

from quarterdeck.simulation.loop import SimulatedLoop
from tests.simulation.looped import simulated


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    with simulated() as loop:
        yield loop


@pytest.fixture
def unraisable(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    heard: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", heard.append)
    return heard
