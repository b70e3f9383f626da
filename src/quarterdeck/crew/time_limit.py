"""A block that has so much time and no more, with an error of its own when that is over."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from quarterdeck.core.errors import QuarterdeckError


@asynccontextmanager
async def time_limit(limit_s: float | None, late: Callable[[], QuarterdeckError]) -> AsyncGenerator[asyncio.Timeout]:
    """Cancels the block after that time, and raises what `late` makes. Whoever has the `Timeout` may move its end.

    A `TimeoutError` of something within the block is not taken for ours.
    """
    limit = asyncio.timeout(limit_s)
    try:
        async with limit:
            yield limit
    except TimeoutError:
        if not limit.expired():
            raise
        raise late() from None
