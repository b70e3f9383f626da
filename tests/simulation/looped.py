"""A simulated loop for a test."""

import asyncio
import random
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from quarterdeck.simulation.loop import SimulatedLoop

Trace = list[object]


@contextmanager
def simulated(seed: int = 1, **limits: Any) -> Generator[SimulatedLoop]:
    loop = SimulatedLoop(random.Random(seed), **limits)
    try:
        yield loop
    finally:
        loop.close()


async def never() -> None:
    await asyncio.get_running_loop().create_future()
