"""A block with so much time: its own error when that is over, and nobody else's timeout taken for it."""

import asyncio

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.crew.time_limit import time_limit
from tests.crew.played import now_s, played

LATE = QuarterdeckError(ErrorCode.DEADLINE_EXCEEDED, "it was canceled", "it took too long", "allow more")


@played
async def test_a_block_that_takes_too_long_is_canceled_with_the_error_that_was_given() -> None:
    with pytest.raises(QuarterdeckError) as caught:
        async with time_limit(2.0, lambda: LATE):
            await asyncio.sleep(10.0)
    assert caught.value is LATE
    assert caught.value.__suppress_context__, "whoever reads it need not know what a timeout is made of"
    assert now_s() == 2.0


@played
async def test_a_timeout_of_somebody_else_passes_as_it_is() -> None:
    with pytest.raises(TimeoutError):
        async with time_limit(2.0, lambda: LATE), asyncio.timeout(1.0):
            await asyncio.sleep(10.0)


@played
async def test_the_end_can_be_moved_from_within() -> None:
    async def move_and_wait() -> None:
        async with time_limit(None, lambda: LATE) as limit:
            limit.reschedule(now_s() + 3.0)
            await asyncio.sleep(10.0)

    with pytest.raises(QuarterdeckError):
        await move_and_wait()
    assert now_s() == 3.0


@played
async def test_a_block_that_is_in_time_changes_nothing() -> None:
    async with time_limit(2.0, lambda: LATE):
        await asyncio.sleep(1.0)
    await asyncio.sleep(5.0)


@pytest.mark.parametrize("limit_s", [0.0, -1.0])
def test_who_has_no_time_left_is_late_at_once(limit_s: float) -> None:
    @played
    async def test() -> None:
        with pytest.raises(QuarterdeckError) as caught:
            async with time_limit(limit_s, lambda: LATE):
                await asyncio.sleep(10.0)
        assert caught.value is LATE
        assert now_s() == 0.0

    test()


@played
async def test_a_cancel_from_elsewhere_is_no_lateness() -> None:
    async def wait() -> None:
        async with time_limit(2.0, lambda: LATE):
            await asyncio.sleep(10.0)

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(1.0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
