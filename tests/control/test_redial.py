"""Keeping a connection: the waits grow while it fails, and are short again after a session."""

import asyncio
from collections.abc import Iterator

import pytest

from quarterdeck.control.link import Link, LinkClosedError
from quarterdeck.control.redial import keep_connected
from quarterdeck.core.backoff import Backoff
from tests.crew.played import PlayedLink, now_s, played

BACKOFF = Backoff(base_s=1.0, cap_s=8.0, jitter=0.0)


class Middle:
    def random(self) -> float:
        return 0.5


class PlayedDialer:
    """Each dial: None cannot be made, else whether the connection came to a session. Then it hangs."""

    def __init__(self, *outcomes: bool | None) -> None:
        self._outcomes: Iterator[bool | None] = iter(outcomes)
        self.came_to_a_session = False
        self.dialled_at_s: list[float] = []

    async def dial(self, address: str) -> Link:
        assert address == "c0"
        self.dialled_at_s.append(now_s())
        outcome = next(self._outcomes, ...)
        if outcome is None:
            raise LinkClosedError("c0 refused the connection")
        if outcome is ...:
            await asyncio.Event().wait()
        self.came_to_a_session = outcome is True
        return PlayedLink("c0")

    async def serve(self, link: Link) -> bool:
        assert link.peer == "c0"
        return self.came_to_a_session


async def _dial_times(*outcomes: bool | None) -> list[float]:
    dialer = PlayedDialer(*outcomes)
    task = asyncio.create_task(keep_connected(dialer, "c0", dialer.serve, BACKOFF, Middle()))
    await asyncio.sleep(100.0)
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    return [round(at_s, 6) for at_s in dialer.dialled_at_s]


@played
async def test_the_waits_grow_while_nobody_answers() -> None:
    assert await _dial_times(None, None, None, None, None) == [0, 1, 3, 7, 15, 23]


@played
async def test_a_connection_that_comes_to_no_session_counts_as_a_failure() -> None:
    assert await _dial_times(None, False, None) == [0, 1, 3, 7]


@played
async def test_after_a_session_the_waits_are_short_again() -> None:
    assert await _dial_times(None, None, True, None, None) == [0, 1, 3, 4, 5, 7]


@played
async def test_an_error_of_ours_is_not_taken_for_a_lost_connection() -> None:
    async def serve(link: Link) -> bool:
        raise LookupError("a bug")

    with pytest.raises(LookupError):
        await keep_connected(PlayedDialer(True), "c0", serve, BACKOFF, Middle())
