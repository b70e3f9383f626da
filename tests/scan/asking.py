"""How tests ask for scans over `POST /v1/scan`."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.http.asked import Answer
from tests.patience import PATIENCE_S
from tests.scan.scanned import Port, port

HOURS_S = 10_000.0
Scenario = Callable[[Port], Coroutine[Any, Any, None]]


def play(folder: Path, scenario: Scenario, **options: Any) -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S), port(folder, **options) as made:
            await scenario(made)

    asyncio.run(run())


class Deadline:
    """A client's time that is over when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._limit: asyncio.Timeout | None = None
        self._real = asyncio.timeout
        monkeypatch.setattr(asyncio, "timeout", self._timeout)

    def _timeout(self, delay: float | None) -> asyncio.Timeout:
        if delay is None or delay < HOURS_S - 60:
            return self._real(delay)
        self._limit = self._real(None)
        return self._limit

    def comes(self) -> None:
        assert self._limit is not None
        self._limit.reschedule(asyncio.get_running_loop().time())


def error_of(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.json["error"]["code"]
